"""The offer of a schedule for a problem: its legal candidates, each with its work and its price.

A schedule proposes a few hundred tilings, most of which differ from another one in their stages alone. Of the tilings
of one width only the best can be taken or be shown, so the others are looked at as little as that allows:

* Shared memory is counted, not laid out (`convc.compiler.plan.storage.needed`).
* What a CTA does does not depend on its stages, only how long it waits for copies does. So a width is priced once
  (`convc.compiler.plan.cost.Pace`), and its tilings are held to the rules from the fastest on, until one keeps them.
* The sentences about what is turned down are made for those who read them: for the schedule that is taken, or where
  none can be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.candidates import pipeline_of
from convc.compiler.plan.constraints import TILING_RULES, TiledProblem, TilingRule, check_tiling
from convc.compiler.plan.cost import beside, choose, estimate, latency_of, pace_of, walkers
from convc.compiler.plan.records import Estimate, Pipeline, Rejection, ScheduleName, ScheduleSummary, Tiling
from convc.compiler.plan.storage import MemoryNeed, Storage
from convc.compiler.plan.work import CtaWork
from convc.ir.arch import Arch
from convc.layout.device_layout import DeviceLayout

LATE = ("proof", "emission")
"""Rules by which a schedule is turned down after it was chosen; candidates are kept to the others before."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One legal tiling.

    Attributes:
        offer: where it comes from.
        tiled: the problem and its tiles.
        pipeline, work, cost: what a CTA does, and what that takes.
    """

    offer: Offer
    tiled: TiledProblem
    pipeline: Pipeline
    work: CtaWork
    cost: Estimate

    @property
    def geometry(self) -> Geometry | None:
        """The sharing of activations; None where there is none."""
        return self.offer.geometry

    @property
    def launched(self) -> tuple[int, int, int]:
        """The grid: one CTA for each tile, or those that walk over them."""
        if self.tiled.ctas is None:
            return (*self.tiled.grid, self.tiled.parts)
        return (math.prod(self.tiled.grid) if self.offer.fetched else self.tiled.ctas, 1, 1)

    @property
    def storage(self) -> Storage:
        """The memory of a CTA."""
        return self.offer.storage(self.tiled.tiling)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """The tilings that a schedule proposes for one cut of a problem.

    Attributes:
        layout, arch: the problem and the target.
        tilings: narrow before wide and, of one width, shallow before deep.
        rows: tiles of output pixels, the grid along x.
        need, storage: the memory of a CTA, counted and laid out.
        work: what a CTA does; of tilings that differ in their stages alone, only `CtaWork.rings` may differ.
        rules: what a tiling must keep.
        geometry: how activations are shared; None where they are not.
        most_ctas: CTAs at most, which walk over tiles (`convc.compiler.plan.persistent`); None: each tile has its own.
        fetched: whether those ask for their tiles, so that as many run as can.
        parts: CTAs that share the K loop of a tile (`convc.compiler.plan.split`).
    """

    layout: DeviceLayout
    arch: Arch
    tilings: tuple[Tiling, ...]
    rows: int
    need: Callable[[Tiling], MemoryNeed]
    storage: Callable[[Tiling], Storage]
    work: Callable[[Tiling, Pipeline], CtaWork]
    rules: Sequence[TilingRule] = TILING_RULES
    geometry: Geometry | None = None
    most_ctas: int | None = None
    fetched: bool = False
    parts: int = 1

    @cached_property
    def legal(self) -> tuple[Candidate, ...]:
        """The best legal candidate of every width that has one, narrow before wide."""
        widths = itertools.groupby(self.tilings, key=lambda tiling: tiling.block_n)
        best = (self._best(tuple(tilings)) for _, tilings in widths)
        return tuple(candidate for candidate in best if candidate is not None)

    @cached_property
    def rejected(self) -> tuple[Rejection, ...]:
        """Every tiling that breaks a rule, with the first that it breaks."""
        checked = (check_tiling(self.tiled(tiling), self.rules) for tiling in self.tilings)
        return tuple(rejection for rejection in checked if rejection is not None)

    def tiled(self, tiling: Tiling) -> TiledProblem:
        """A tiling with what follows from it."""
        columns = -(-self.layout.problem.out_channels // tiling.block_n)
        return TiledProblem(
            layout=self.layout,
            arch=self.arch,
            tiling=tiling,
            need=self.need(tiling),
            grid=(self.rows, columns),
            ctas=self._walkers(self.rows * columns, tiling.together),
            parts=self.parts,
        )

    def _walkers(self, tiles: int, together: int) -> int | None:
        """CTAs that walk over so many tiles at a time; None: each tile has its own."""
        if self.most_ctas is None:
            return None
        return min(tiles, self.most_ctas) if self.fetched else walkers(tiles, self.most_ctas, together)

    def _best(self, tilings: Sequence[Tiling]) -> Candidate | None:
        """The fastest legal tiling of one width, the first of several; None where none is legal."""
        pipeline = pipeline_of(self.layout, tilings[0], self.arch.limits.mma_atom_bytes)
        cycles = self._cycles(tilings, pipeline)
        for number in sorted(range(len(tilings)), key=cycles.__getitem__):
            tiled = self.tiled(tilings[number])
            if check_tiling(tiled, self.rules) is None:
                work = self.work(tiled.tiling, pipeline)
                return Candidate(offer=self, tiled=tiled, pipeline=pipeline, work=work, cost=estimate(tiled, work))
        return None

    def _cycles(self, tilings: Sequence[Tiling], pipeline: Pipeline) -> list[float]:
        """The price of each tiling of one width: they differ in the latency of copies, and in how many CTAs fit."""
        work = self.work(tilings[0], pipeline)
        pace = pace_of(self.tiled(tilings[0]), work)
        waits: list[dict[int, float]] = []
        for ring, column in zip(work.rings, zip(*(tiling.stages for tiling in tilings), strict=True), strict=True):
            waits.append({stages: latency_of(ring.steps, stages, pace, work) for stages in set(column)})
        most = pace.most_beside
        prices: dict[tuple[float, int], float] = {}
        found: list[float] = []
        for tiling in tilings:
            latency = pace.hidden
            for wait, stages in zip(waits, tiling.stages, strict=True):
                latency = max(latency, wait[stages])
            # Where there is one CTA for each SM at most, nobody need know how many fit.
            held = 1 if most == 1 else min(most, beside(self.need(tiling), self.arch))
            price = prices.get((latency, held))
            if price is None:
                price = prices[latency, held] = pace.cycles(latency, held)
            found.append(price)
        return found


@dataclass(frozen=True, kw_only=True)
class ScheduleCandidates:
    """Everything that one schedule has to offer for a problem.

    Attributes:
        schedule: which.
        parts: what it offers, and what was turned down before any tiling was looked at.
        picked: the candidate to take; None: `choose` says which.
    """

    schedule: ScheduleName
    parts: tuple[Offer | Rejection, ...]
    picked: Candidate | None = None

    @cached_property
    def legal(self) -> tuple[Candidate, ...]:
        """The best legal candidate of every width of every offer."""
        return tuple(candidate for part in self.parts if isinstance(part, Offer) for candidate in part.legal)

    @cached_property
    def rejected(self) -> tuple[Rejection, ...]:
        """Everything that was turned down, with the reasons."""
        found: list[Rejection] = []
        for part in self.parts:
            found += part.rejected if isinstance(part, Offer) else (part,)
        return tuple(found)

    @cached_property
    def best(self) -> Candidate:
        """The candidate to take (see `convc.compiler.plan.cost.choose`)."""
        return self.picked or self.legal[choose([candidate.cost for candidate in self.legal])]

    @property
    def summary(self) -> ScheduleSummary:
        """Its line in the table of schedules."""
        if not self.legal:
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
        )
