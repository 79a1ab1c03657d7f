"""What an observer of one execution is told.

An observer sees every effect of a launch and changes none. The machine calls it only where `Cohort.observer` is set, so
that checking costs nothing when it is off. All calls come in the order in which the machine performs things; a call
about an asynchronous operation comes when a thread issues it, which is when its ordering obligations arise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from convc.machine.cohort import Cohort
    from convc.machine.strand import Strand
    from convc.ptx import Instr

Places = np.ndarray
"""Byte addresses (shared memory) or flat cell numbers, lane * 512 + column (tensor memory)."""


class Observer:
    """Does nothing; checkers override what they need."""

    def begin(self, cohort: Cohort) -> None:
        """A cohort is about to run."""

    def end(self, cohort: Cohort) -> None:
        """All CTAs of the cohort have exited."""

    def step(self, strand: Strand, instr: Instr) -> None:
        """An instruction is about to be executed (or tried: a blocked wait comes again)."""

    def shared(self, strand: Strand, instr: Instr, places: dict[int, Places], write: bool) -> None:
        """Generic accesses of shared memory: byte addresses by warp number."""

    def global_store(
        self, strand: Strand, instr: Instr, buffer: str, offset: Places, size: int, mask: Places | None
    ) -> None:
        """A store of ``size`` bytes at byte offsets of a buffer, shaped (rows, warps, lanes)."""

    def tensor(self, strand: Strand, instr: Instr, kind: str, cells: dict[int, Places], write: bool) -> None:
        """tcgen05.ld (read) or st (write) of tensor-memory cells, by warp number."""

    def allocate(self, strand: Strand, instr: Instr, column: int, columns: int, free: bool) -> None:
        """tcgen05.alloc, or dealloc where ``free``."""

    def tensor_op(
        self, strand: Strand, instr: Instr, kind: str, shared: Places, reads: Places, writes: Places, target: object
    ) -> None:
        """mma, cp or shift is issued: shared bytes read, cells read and written; ``target`` as in `Mma.target`."""

    def copy(
        self,
        strand: Strand,
        instr: Instr,
        barrier: int | None,
        reads: Places,
        writes: Places,
        rows: Places | None = None,
    ) -> None:
        """An asynchronous copy is issued: shared bytes it reads and writes; it will signal ``barrier`` (if any).

        ``rows`` are the CTAs whose memory it touches, None for all.
        """

    def commit(self, strand: Strand, instr: Instr, barrier: int) -> None:
        """tcgen05.commit: the barrier is signalled once this thread's tensor operations are done."""

    def init(self, strand: Strand, instr: Instr, barrier: int) -> None:
        """mbarrier.init."""

    def arrive(self, strand: Strand, instr: Instr, barrier: int) -> None:
        """A thread arrives at an mbarrier, or changes its transaction count."""

    def wait(self, strand: Strand, instr: Instr, barrier: int) -> None:
        """A wait on an mbarrier has succeeded."""

    def cta_barrier(self, strand: Strand, instr: Instr, index: int, leave: bool) -> None:
        """A warp arrives at a CTA barrier, or leaves it."""

    def cluster_barrier(self, strand: Strand, instr: Instr, leave: bool) -> None:
        """A warp arrives at the barrier of its cluster, or leaves it."""

    def fence(self, strand: Strand, instr: Instr) -> None:
        """Any fence, tcgen05.wait or tcgen05.fence."""
