"""Allocation of tensor memory by several CTAs: that of a pair, and what an SM has too little of.

With ``.cta_group::2`` two warps, one of each CTA of the pair, allocate, give back and give up the permit together (PTX
manual, "tcgen05.alloc"), and the hardware writes the memory of both: so each has to know that the other one runs. The
two warps have the same number, and the address that is written is at the same place in both (CUTLASS,
``Allocator2Sm``; machine code of ptxas, by which the even CTA's allocation stores to the odd one).

An SM takes a CTA as soon as it has shared memory, registers and threads for it (CUDA programming guide): one that
finds no columns left has begun, and waits. Where a CTA keeps its columns until a peer of its cluster has got its own,
clusters that reach over the same SMs can wait in a circle. A pair gets its columns at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from convc.ir.arch import SM_100A
from convc.ir.findings import Finding, Verdict
from convc.machine.state.observed import ObservedCohort
from convc.machine.state.observer import LaneAccess
from convc.machine.tensor_core.tensor_memory import COLUMNS
from convc.ptx import Instr
from convc.sanitizer.clocks import GENERIC, ClockMessage
from convc.sanitizer.sites import Warp, warp_finding

CTA_BYTES = 1024
"""Shared memory that a CTA takes besides its own (CUDA programming guide)."""

Key = tuple[str, int]
"""A rule and an instruction: one finding for each."""


def of_pair(instr: Instr) -> bool:
    """Whether an instruction is for both CTAs of a pair."""
    return instr.slots.get("cta_group") == "cta_group::2"


class Allocations:
    """The allocations of the CTAs of the first cluster of a cohort.

    Attributes:
        got: of each CTA, component and time of its allocations.
        held, most: columns that each CTA has now, and the most that one has had.
        keeper: an instruction that gives columns back behind the allocation of a peer, its warp, and the peer.
    """

    def __init__(self, cohort: ObservedCohort) -> None:
        self.cohort = cohort
        self.got: dict[int, list[tuple[int, int]]] = {}
        self.held: dict[int, int] = {}
        self.most = 0
        self.keeper: tuple[Instr, Warp, int] | None = None
        self.stored: dict[tuple[int, int], tuple[Warp, int]] = {}
        self.counts: dict[int, int] = {}

    # ---- pairs -----------------------------------------------------------------------------------------------------

    def alone(self, instr: Instr, warp: Warp) -> tuple[Key, Finding]:
        """A warp acts for a pair, and does not know that the other CTA runs."""
        peer = self.cohort.number(warp[0] ^ 1)
        message = (
            f"{instr.form.name} of both CTAs of a pair before CTA {peer} is known to run: let this warp wait at "
            "barrier.cluster first"
        )
        return self._found("alone", instr, warp, message)

    def address(self, instr: Instr, access: LaneAccess) -> tuple[Key, Finding] | None:
        """An allocation of a pair stores an address; what it has in common with that of the other CTA is looked at."""
        row = access.row
        nth = self.counts[row] = self.counts.get(row, -1) + 1
        warp = row, access.warp
        place = int(access.places.min())
        self.stored[row, nth] = warp, place
        if (row ^ 1, nth) not in self.stored:
            return None
        other, there = self.stored[row ^ 1, nth]
        if other[1] == warp[1] and there == place:
            return None
        mine = self.cohort.number(row)
        peer = self.cohort.number(row ^ 1)
        message = (
            "the CTAs of a pair must allocate in the same warp and keep the address at the same offset: "
            f"CTA {peer} allocates in warp {other[1]}, at {there:#x}, CTA {mine} in warp {warp[1]}, at {place:#x}"
        )
        return self._found("apart", instr, warp, message)

    def _found(self, what: str, instr: Instr, warp: Warp, message: str) -> tuple[Key, Finding]:
        found = warp_finding(self.cohort, instr, warp, Verdict.error, "pair-allocation", message)
        return (f"pair {what}", instr.index), found

    # ---- columns of an SM --------------------------------------------------------------------------------------------

    def allocated(self, row: int, columns: int, component: int, time: int) -> None:
        """A warp, at that time of its component, has got columns."""
        self.got.setdefault(row, []).append((component, time))
        self.held[row] = self.held.get(row, 0) + columns
        self.most = max(self.most, self.held[row])

    def freed(self, instr: Instr, warp: Warp, columns: int, clocks: ClockMessage) -> None:
        """A warp gives columns back, behind those allocations of peers that it knows of."""
        row = warp[0]
        self.held[row] = self.held.get(row, 0) - columns
        if self.keeper is not None:
            return
        for peer, got in self.got.items():
            together = peer == row or (of_pair(instr) and peer == row ^ 1)
            if not together and any(clocks.time(GENERIC, component) >= time for component, time in got):
                self.keeper = instr, warp, peer

    def findings(self) -> Iterator[tuple[Key, Finding]]:
        """A finding where CTAs keep columns for each other, of which an SM has fewer than the CTAs that it takes."""
        held = residents(self.cohort)
        if self.keeper is None or held * self.most <= COLUMNS:
            return
        instr, warp, peer = self.keeper
        own = self.cohort.number(warp[0])
        other = self.cohort.number(peer)
        message = (
            f"CTA {own} holds its columns until CTA {other} has its own; {held} CTAs with {self.most} columns "
            f"each fit on an SM by shared memory and threads, which has {COLUMNS}: clusters can deadlock unless "
            "registers limit residency; request enough shared memory that no more CTAs fit than there are columns for"
        )
        found = warp_finding(self.cohort, instr, warp, Verdict.review, "tensor-memory-residency", message)
        yield ("residency", instr.index), found


def residents(cohort: ObservedCohort) -> int:
    """CTAs that an SM takes by shared memory and threads. Registers, which ptxas deals out, can make it fewer."""
    rates = SM_100A.rates
    threads = 1
    for extent in cohort.launch.block:
        threads *= extent
    by: Mapping[str, int] = {
        "shared memory": rates.sm_shared_bytes // (cohort.shared.size + CTA_BYTES),
        "threads": rates.sm_threads // (-(-threads // 32) * 32),
    }
    return max(1, min(by.values()))
