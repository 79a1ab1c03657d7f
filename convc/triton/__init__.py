"""Triton and Gluon programs on the simulator: a driver for Triton's runtime.

    import convc.triton
    convc.triton.activate(target="sm_100a")

From then on every launch of the program runs the PTX that Triton compiles for the target, on the simulator, with all
checkers watching, and leaves its results in the caller's tensors: those of torch on the CPU, or numpy arrays. Nothing
else of a program changes. A finding that is an error raises `FindingsError`, with Triton's source lines.

Triton 3.5 to 3.9 for NVIDIA (``pip install "convc[triton]"``) compiles without a GPU. It is imported by `activate`.
"""

from __future__ import annotations

from convc.triton.activation import activate as activate
from convc.triton.activation import active as active
from convc.triton.activation import deactivate as deactivate
from convc.triton.activation import findings as findings
from convc.triton.activation import launches as launches
from convc.triton.activation import report as report
from convc.triton.activation import time as time
from convc.triton.session import TritonLaunch as TritonLaunch
from convc.triton.tensors import Tensor as Tensor
