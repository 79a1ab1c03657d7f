"""The compiler's side of a backend."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GPUTarget:
    """What kernels are compiled for."""

    backend: str
    arch: int
    warp_size: int
