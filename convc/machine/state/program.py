"""What running needs to know of a decoded kernel (`convc.machine.execute.decode` makes one)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from convc.machine.state.flow import Flow
from convc.ptx import Kernel


class Program(Protocol):
    """A decoded kernel, as the CTAs and warps that run it see it.

    Attributes:
        kernel: the kernel, with the bodies of all functions that it calls copied in.
        widths: bits of the value in each slot (see `convc.machine.state.slots`).
        constants: uint8, the contents of constant memory.
        local_bytes: local memory of one thread.
        ops: the operation of each instruction: from a strand to where it goes on, None for the next instruction.
    """

    kernel: Kernel
    widths: list[int]
    constants: np.ndarray
    local_bytes: int
    ops: list[Callable[[Any], int | None]]

    @property
    def flow(self) -> Flow:
        """Where divergent lanes meet again, and which registers still matter there."""
        ...

    @property
    def unheard(self) -> frozenset[int]:
        """Indices of waits for mbarriers whose answer goes nowhere (`convc.machine.execute.decode`)."""
        ...

    def watch_join(self, join: int | None) -> None:
        """From now on, lanes that arrive at instruction ``join`` look whether others wait for them there."""
        ...
