"""A cohort and a strand as an observer sees them: to be read only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from convc.machine.base.cluster_ranks import Place
from convc.machine.base.values import Value
from convc.machine.memory.mbarrier import MBarrier
from convc.machine.memory.shared_memory import SharedMemory
from convc.machine.state.barriers import ClusterBarrier, Ticket
from convc.machine.state.launch import Launch
from convc.machine.state.program import Program
from convc.machine.tensor_core.tensor_memory import TensorMemory


class ObservedCohort(Protocol):
    """What an observer sees of a `convc.machine.state.cohort.Cohort`."""

    @property
    def launch(self) -> Launch: ...

    @property
    def ctas(self) -> int: ...

    @property
    def place(self) -> Place: ...

    @property
    def shared(self) -> SharedMemory: ...

    @property
    def tensor(self) -> TensorMemory: ...

    @property
    def barriers(self) -> Mapping[int, MBarrier]: ...

    @property
    def cluster_barrier(self) -> ClusterBarrier: ...

    @property
    def watched(self) -> int: ...

    def number(self, row: int) -> int: ...


class ObservedStrand(Protocol):
    """What an observer sees of a `convc.machine.state.strand.Strand`."""

    @property
    def cohort(self) -> ObservedCohort: ...

    @property
    def program(self) -> Program: ...

    @property
    def rows(self) -> np.ndarray | None: ...

    @property
    def row_count(self) -> int: ...

    @property
    def warps(self) -> np.ndarray: ...

    @property
    def regs(self) -> Sequence[Value]:
        """Registers by their slots, then constants and special registers."""
        ...

    @property
    def mask(self) -> np.ndarray | None: ...

    @property
    def ticket(self) -> Ticket | None: ...

    def depth(self, at: int) -> int: ...
