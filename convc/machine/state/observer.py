"""What an observer of one execution is told.

An observer sees every effect of a launch and changes none: what it is shown of a cohort and of a strand,
`ObservedCohort` and `ObservedStrand`, can be read only. The simulator calls it only where `Cohort.observer` is set, so
that checking costs nothing when it is off. All calls come in the order in which the simulator performs things; a call
about an asynchronous operation comes when a thread issues it, which is when its ordering obligations arise (completion
policy ``eager``, see `completion`).

CTAs are named by their row in the cohort. What single lanes do is told of the first cluster alone (rows below
`Cohort.watched`): without clusters that is one CTA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from convc.machine.state.observed import ObservedCohort, ObservedStrand
from convc.machine.tensor_core.footprints import Operand
from convc.machine.tensor_core.mma import Accumulator, Mma
from convc.ptx import Instr

Places = np.ndarray
"""Byte addresses (shared memory) or flat cell numbers, lane * 512 + column (tensor memory)."""

Lines = tuple[np.ndarray, np.ndarray, int]
"""Positions of some of the issuing CTAs; offsets in a buffer where lines of bytes start (CTAs, n; -1: none); size."""


@dataclass(slots=True)
class LaneAccess:
    """What lanes of one warp access in the memory of one CTA; never changed (a frozen record is slow to make).

    Attributes:
        row, warp: who: the CTA, and the number of the warp in it.
        home: the CTA whose memory it is.
        lanes: (n,) the lanes.
        places: (n, m) what each of them accesses.
        operands: the same by matrices, where these are what a wgmma reads.
    """

    row: int
    warp: int
    home: int
    lanes: np.ndarray
    places: Places
    operands: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalRange:
    """The global memory that a copy reads or writes.

    Attributes:
        buffer: name of the buffer.
        kind: ``ld``, ``st``, or ``atom`` for a reduction.
        lines: from positions of issuing CTAs to the bytes that their copies reach.
    """

    buffer: str
    kind: str
    lines: Callable[[np.ndarray], list[Lines]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """An asynchronous copy, issued by the same thread of some CTAs.

    Attributes:
        rows: (n,) the CTAs that issue it.
        thread: warp number and lane.
        reads: shared memory read, in each issuing CTA.
        writes: shared memory written, in each destination.
        homes: (n, m) the destinations of each issuing CTA.
        signals: (n, m) for each destination the CTA whose barrier is signalled.
        barrier: the shared address of that barrier; None: the copy completes in the thread's bulk group.
        memory: its other end, where that is global memory.
        swizzle: the order in which a tensor copy writes shared memory, by the name that its tensor map has for it.
    """

    rows: np.ndarray
    thread: tuple[int, int]
    reads: Places
    writes: Places
    homes: np.ndarray
    signals: np.ndarray
    barrier: int | None
    memory: GlobalRange | None
    swizzle: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A tcgen05.mma, cp or shift, issued by the same thread of some CTAs.

    Attributes:
        kind: ``mma``, ``cp`` or ``shift``.
        rows: the CTAs that issue it. pair: it works on both CTAs of each one's pair.
        thread: warp number and lane.
        shared: shared memory read; operands: the same by matrices; reads, writes: tensor memory; in each CTA that takes
            part.
        target: of an mma, its accumulator and shape; else None.
        mma: the mma itself, with its descriptors; else None.
    """

    kind: str
    rows: Sequence[int]
    pair: bool
    thread: tuple[int, int]
    shared: Places
    operands: tuple[Operand, ...]
    reads: Places
    writes: Places
    target: Accumulator | None
    mma: Mma | None


FOOTPRINTS = frozenset({"mma", "shared"})
"""Footprints of every byte that take time to find: those of MMAs, and ordinary accesses of shared memory."""


class Observer:
    """Does nothing; checkers override what they need.

    Attributes:
        wants: of `FOOTPRINTS` those that it reads. Of an MMA it is else told without places, of shared memory nothing.
    """

    wants: frozenset[str] = FOOTPRINTS

    def begin(self, cohort: ObservedCohort) -> None:
        """A cohort is about to run."""

    def end(self, cohort: ObservedCohort) -> None:
        """All CTAs of the cohort have exited."""

    def step(self, strand: ObservedStrand, instr: Instr) -> None:
        """An instruction is about to be executed (or tried: a blocked wait comes again)."""

    # ---- accesses --------------------------------------------------------------------------------------------------

    def shared(self, strand: ObservedStrand, instr: Instr, kind: str, accesses: Sequence[LaneAccess]) -> None:
        """Shared memory is accessed by ordinary instructions: ``ld``, ``st``, ``atom``, or ``cp.async``."""

    def async_store(self, strand: ObservedStrand, instr: Instr, parts: Sequence[tuple[LaneAccess, int]]) -> None:
        """st.async or red.async: stores, each with the shared address of the barrier that it signals where it goes."""

    def global_access(
        self,
        strand: ObservedStrand,
        instr: Instr,
        kind: str,
        buffer: str,
        offset: int | Places,
        size: int,
        mask: Places | None,
    ) -> None:
        """``size`` bytes at byte offsets of a buffer, which broadcast with ``mask`` to (rows, warps, lanes).

        ``kind`` is ``ld``, ``st``, ``atom`` or ``cp.async``. All CTAs are told of.
        """

    def tensor(self, strand: ObservedStrand, instr: Instr, kind: str, accesses: Sequence[LaneAccess]) -> None:
        """tcgen05.ld or st."""

    def allocate(
        self, strand: ObservedStrand, instr: Instr, row: int, warp: int, column: int, columns: int, free: bool
    ) -> None:
        """tcgen05.alloc, or dealloc where ``free``."""

    def tensor_op(self, strand: ObservedStrand, instr: Instr, operation: Operation) -> None:
        """mma, cp or shift is issued."""

    def warpgroup_multiply(self, strand: ObservedStrand, instr: Instr, accesses: Sequence[LaneAccess]) -> None:
        """wgmma is issued: what it reads of shared memory, once for the warps of each warpgroup that execute it."""

    def copy(self, strand: ObservedStrand, instr: Instr, transfer: Transfer) -> None:
        """An asynchronous copy is issued, by any CTAs of the cohort."""

    def copies(self, strand: ObservedStrand, instr: Instr, transfers: Sequence[Transfer], memory: GlobalRange) -> None:
        """Threads issue a copy each, one after the other: who does not override this is told of them one by one.

        ``memory`` is what all of them reach; its positions are those of each copy behind those of the one before.
        """
        for transfer in transfers:
            self.copy(strand, instr, transfer)

    # ---- synchronisation -------------------------------------------------------------------------------------------

    def commit(
        self,
        strand: ObservedStrand,
        instr: Instr,
        barrier: int,
        signals: Sequence[tuple[int, tuple[int, int], int]],
    ) -> None:
        """tcgen05.commit: barriers are signalled once the tensor operations of the threads are done.

        ``signals`` are the CTA that commits, its thread (warp, lane), and the CTA whose barrier it is, of the watched
        CTAs.
        """

    def commit_group(self, strand: ObservedStrand, instr: Instr) -> None:
        """cp.async.commit_group or cp.async.bulk.commit_group."""

    def wait_group(self, strand: ObservedStrand, instr: Instr, left: int) -> None:
        """cp.async.wait_group (or wait_all), or cp.async.bulk.wait_group: at most ``left`` groups are under way."""

    def init(self, strand: ObservedStrand, instr: Instr, barrier: int) -> None:
        """mbarrier.init."""

    def arrive(self, strand: ObservedStrand, instr: Instr, barrier: int, homes: np.ndarray | None) -> None:
        """A thread arrives at an mbarrier, or changes its transaction count.

        ``homes`` are the CTAs whose barrier it is, one per CTA of the strand; None: each its own.
        """

    def wait(self, strand: ObservedStrand, instr: Instr, barrier: int, done: np.ndarray) -> None:
        """A wait on an mbarrier has succeeded in the CTAs of the strand where ``done`` (bool)."""

    def cta_barrier(self, strand: ObservedStrand, instr: Instr, leave: bool) -> None:
        """Warps arrive at CTA barriers, or leave them; ``strand.ticket`` has at which each, and in which generation."""

    def cluster_barrier(self, strand: ObservedStrand, instr: Instr, leave: bool) -> None:
        """A warp arrives at the barrier of its cluster, or leaves it; the barrier's ticket says in which phase."""

    def fence(self, strand: ObservedStrand, instr: Instr) -> None:
        """Any fence, tcgen05.wait or tcgen05.fence."""

    def control(self, strand: ObservedStrand, instr: Instr) -> None:
        """griddepcontrol or tcgen05.relinquish_alloc_permit is executed."""
