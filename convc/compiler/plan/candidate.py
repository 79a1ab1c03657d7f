"""Everything that a schedule has to offer for a problem, and the candidate to take of it.

A price says how fast a width can be at best, and its floor, which is found sooner, how fast it cannot be
(`convc.compiler.plan.offer.Width`). Where only the best of all is asked for, widths are looked at from the most
promising on, until no other can be as good. Sentences about what is turned down are made for the schedule that is
taken, or where none can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heappop, heapreplace

import msgspec

from convc.compiler.plan.choice import SLACK, choose
from convc.compiler.plan.constraints import TileGrid
from convc.compiler.plan.offer import Candidate, Offer, Width
from convc.compiler.plan.records import Rejection, ScheduleName, ScheduleSummary
from convc.support.once import once

LATE = ("proof", "emission")
"""Rules by which a schedule is turned down after it was chosen; candidates are kept to the others before."""


class ScheduleCandidates(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """Everything that one schedule has to offer for a problem.

    Attributes:
        schedule: which.
        parts: what it offers, and what was turned down before any tiling was looked at.
        picked: the candidate to take; None: `choose` says which.
    """

    schedule: ScheduleName
    parts: tuple[Offer | Rejection, ...]
    picked: Candidate | None = None

    @once
    def widths(self) -> tuple[Width, ...]:
        """The tilings of each width of every offer, narrow before wide.

        An offer does not know them, so that nothing here refers to itself.
        """
        offers = (part for part in self.parts if isinstance(part, Offer))
        return tuple(Width(offer=offer, depths=each) for offer in offers for each in offer.depths)

    @once
    def legal(self) -> tuple[Candidate, ...]:
        """The best legal candidate of every width that has one."""
        return tuple(width.best for width in self.widths if width.best is not None)

    @once
    def fastest(self) -> tuple[Candidate, ...]:
        """The fastest legal candidate with each number of columns, the fastest of all first."""
        found: dict[int, tuple[float, int, Candidate]] = {}
        promising = sorted(enumerate(self.widths), key=lambda each: each[1].floor)
        for number, width in promising:
            columns = width.depths.first.block_n
            before = found.get(columns)
            if before is not None and (width.floor > before[0] or width.least > before[0]):
                continue
            if width.best is not None:
                found[columns] = min(before or (math.inf, 0, width.best), (width.best.cycles, number, width.best))
        return tuple(candidate for _, _, candidate in sorted(found.values()))

    @once
    def rejected(self) -> tuple[Rejection, ...]:
        """Everything that was turned down, with the reasons."""
        found: list[Rejection] = []
        for part in self.parts:
            found += part.rejected if isinstance(part, Offer) else (part,)
        return tuple(found)

    @once
    def best(self) -> Candidate:
        """The candidate to take (see `convc.compiler.plan.choice.choose`); LookupError where none is legal."""
        if self._best is None:
            raise LookupError(f"no tiling of {self.schedule.title} is legal")
        return self._best

    @property
    def possible(self) -> bool:
        """Whether a tiling is legal."""
        return self._best is not None

    @once
    def _best(self) -> Candidate | None:
        """The candidate to take; None where none is legal."""
        return self.picked or self.best_of(lambda _: True)

    def best_of(self, fits: Callable[[TileGrid], bool], most: float = math.inf) -> Candidate | None:
        """The candidate to take of those whose tiles fit; None where there is none.

        All that are about as fast as the fastest are looked at, and as few others as can be: none where every one takes
        more than `most` cycles.
        """
        widths = [width for width in self.widths if fits(width.tiles)]
        found: dict[int, Candidate] = {}
        limit = most
        # A width is asked for its least cycles when it comes up by its floor, and comes up again by those.
        waiting = [(width.floor, False, number) for number, width in enumerate(widths)]
        heapify(waiting)
        while waiting and waiting[0][0] <= limit:
            _, exact, number = waiting[0]
            if not exact:
                heapreplace(waiting, (widths[number].least, True, number))
                continue
            heappop(waiting)
            best = widths[number].best
            if best is not None:
                found[number] = best
                limit = SLACK * min(one.cycles for one in found.values())
        in_order = [found[number] for number in sorted(found)]
        return in_order[choose(in_order)] if in_order else None

    @property
    def summary(self) -> ScheduleSummary:
        """Its line in the table of schedules."""
        if not self.possible:
            reasons = dict.fromkeys(rejection.reason for rejection in self.rejected)
            late = [rejection for rejection in self.rejected if rejection.rule in LATE]
            return ScheduleSummary(
                schedule=self.schedule,
                reason=late[0].reason if late else "; ".join(list(reasons)[:2]),
                fell=late[0].rule if late else "",
            )
        best = self.best
        return ScheduleSummary(
            schedule=self.schedule,
            tiling=best.tiled.tiling,
            cycles=best.cost.cycles,
            mma_cycles=best.cost.mma_cycles,
            read_cycles=best.cost.read_cycles,
            multiply_cycles=best.cost.multiply_cycles,
            traffic_bytes=best.cost.traffic_bytes,
            bottleneck=best.cost.bottleneck,
            persistent=best.tiled.ctas is not None,
            parts=best.tiled.parts,
        )
