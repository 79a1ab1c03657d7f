"""What the tensor core is wired to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from convc.machine.base.findings import FindingSink
from convc.machine.base.switches import Switches
from convc.machine.memory.shared_memory import SharedMemory
from convc.machine.tensor_core.mma import Mma
from convc.machine.tensor_core.tensor_memory import TensorMemory


class DeferralHook(Protocol):
    """Takes work of the tensor core that may wait until its result is looked at (see `convc.machine.lazy`).

    Each method answers whether it took the work; what it did not take must be performed now.
    """

    def product(self, path: Datapath, run: list[Mma]) -> bool:
        """A run of instructions that share a target: check them as ever, and multiply later."""
        ...

    def copy(self, column: int, width: int, units: tuple[int, int, int, int]) -> bool:
        """Fill columns of all lanes of all CTAs with rows of shared memory; ``units``: arguments of `unit_index`."""
        ...

    def refresh(self, column: int, width: int, lanes: np.ndarray, units: tuple[int, int, int, int]) -> bool:
        """Fill some ``lanes`` (rows,) of columns of all CTAs with rows of shared memory."""
        ...

    def move(self, column: int, width: int) -> bool:
        """Lane i takes lane i + 1 in some columns, inside each of the four sub-partitions of every CTA."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Datapath:
    """The memories that tensor operations of some CTAs read and write.

    Attributes:
        ctas: how many CTAs.
        shared, tensor: their memories.
        switches: how to read what the manual leaves open.
        findings: takes what an operation notices.
        deferral: takes work that may wait; None where everything is performed at once.
    """

    ctas: int
    shared: SharedMemory
    tensor: TensorMemory
    switches: Switches
    findings: FindingSink
    deferral: DeferralHook | None = None
