"""The driver as far as a launch needs it: a protocol of few calls, each of which ends well or raises.

`convc.gpu.cuda` fulfils it with NVIDIA's driver; tests have one that only notes what it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from convc.gpu.plan import LaunchPlan
from convc.gpu.tensormaps import EncodeCall

Handle = Any
"""A module, function or event of the driver, which only the driver looks into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU.

    Attributes:
        name: as the driver calls it.
        capability: major and minor compute capability.
        driver_version: highest version of CUDA that the driver knows: 13010 is 13.1.
        shared_bytes: most dynamic shared memory that a CTA can ask for.
        free_bytes: memory that is free now.
    """

    name: str
    capability: tuple[int, int]
    driver_version: int
    shared_bytes: int
    free_bytes: int

    @property
    def arch(self) -> str:
        """The target of its kernels: ``sm_90``."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    @property
    def cuda(self) -> str:
        """The version of CUDA that the driver knows, for people: ``13.1``."""
        return f"{self.driver_version // 1000}.{self.driver_version % 1000 // 10}"


class Driver(Protocol):
    """The calls of a launch.

    Every call raises `convc.errors.GpuError` where the driver refuses, and `convc.errors.GpuFault` where the kernel
    before it faulted.
    """

    def device(self) -> Device:
        """The GPU that is used, as it is now."""
        ...

    def load(self, image: bytes) -> Handle:
        """Load a module: PTX text, which is compiled, or machine code."""
        ...

    def unload(self, module: Handle) -> None:
        """Give a module back."""
        ...

    def function(self, module: Handle, entry: str) -> Handle:
        """A kernel of a module."""
        ...

    def parameter_sizes(self, function: Handle, count: int | None) -> list[int]:
        """Bytes of each parameter that a kernel declares; ``count``: how many these are, where that is known."""
        ...

    def prepare(self, function: Handle, shared_bytes: int, cluster: int) -> None:
        """Allow a kernel that much dynamic shared memory, and clusters of that many CTAs."""
        ...

    def allocate(self, size: int) -> int:
        """Take memory of the GPU; its address."""
        ...

    def free(self, address: int) -> None:
        """Give memory back."""
        ...

    def fill(self, address: int, byte: int, size: int) -> None:
        """Set memory to one byte."""
        ...

    def write(self, address: int, data: np.ndarray) -> None:
        """Copy an array of bytes, uint8 (size,), to the GPU."""
        ...

    def read(self, address: int, size: int) -> np.ndarray:
        """Copy bytes from the GPU: uint8 (size,)."""
        ...

    def encode(self, call: EncodeCall, address: int) -> bytes:
        """Encode the tensor map of a tensor at an address: 128 bytes."""
        ...

    def launch(self, function: Handle, plan: LaunchPlan, params: list[np.ndarray]) -> None:
        """Launch a kernel; ``params`` are the bytes of each parameter, uint8."""
        ...

    def mark(self) -> Handle:
        """An event behind everything that was launched."""
        ...

    def wait(self, event: Handle, seconds: float) -> bool:
        """Wait until an event has come, at most so long; whether it has."""
        ...

    def elapsed(self, start: Handle, end: Handle) -> float:
        """Microseconds between two events that have come."""
        ...

    def close(self) -> None:
        """Give the GPU back."""
        ...
