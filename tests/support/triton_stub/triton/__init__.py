"""A stand-in for Triton: as much of it as convc's driver and the program on the page your_kernels.md import.

Nothing is compiled: kernels come from tests/foreign/triton_cache, where Triton 3.9 has left them.
"""

from triton import knobs as knobs

__version__ = "3.9.0"
