"""The offer of a schedule for a problem: its legal candidates, each with its work and its price.

A schedule proposes a few hundred tilings, most of which differ from another one in their stages alone. Of the tilings
of one width only the best can be taken or be shown, so the others are looked at as little as that allows:

* Shared memory is counted, not laid out (`convc.compiler.plan.storage.needed`).
* What a CTA does does not depend on its stages, only how long it waits for copies does. So the price is made once for
  a width, and a tiling that never waits (`convc.compiler.plan.cost.Pace.least`) ends the search: tilings are tried from
  shallow to deep, and a deeper one could be as good, but no better.
* The sentences about what is turned down are made for those who read them: for the schedule that is taken, or where
  none can be.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.candidates import pipeline_of
from convc.compiler.plan.constraints import TILING_RULES, TiledProblem, TilingRule, check_tiling
from convc.compiler.plan.cost import Pace, choose, estimate, latency_of, pace_of
from convc.compiler.plan.records import Estimate, Pipeline, Rejection, ScheduleName, ScheduleSummary, Tiling
from convc.compiler.plan.storage import MemoryNeed, Storage
from convc.compiler.plan.work import CtaWork
from convc.ir.arch import Arch
from convc.layout.device_layout import DeviceLayout


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

    @cached_property
    def legal(self) -> tuple[Candidate, ...]:
        """The best legal candidate of every width that has one, narrow before wide."""
        widths = itertools.groupby(self.tilings, key=lambda tiling: tiling.block_n)
        best = (self._best(tilings) for _, tilings in widths)
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
            layout=self.layout, arch=self.arch, tiling=tiling, need=self.need(tiling), grid=(self.rows, columns)
        )

    def priced(self, tiled: TiledProblem) -> Candidate:
        """A legal tiling with its work and its price."""
        pipeline = pipeline_of(self.layout, tiled.tiling, self.arch.limits.mma_atom_bytes)
        work = self.work(tiled.tiling, pipeline)
        return Candidate(offer=self, tiled=tiled, pipeline=pipeline, work=work, cost=estimate(tiled, work))

    def _best(self, tilings: Iterable[Tiling]) -> Candidate | None:
        """The fastest legal tiling of one width, the first of several; None where none is legal."""
        best: TiledProblem | None = None
        fastest = float("inf")
        pace: Pace | None = None
        pipeline: Pipeline | None = None
        for tiling in tilings:
            tiled = self.tiled(tiling)
            if check_tiling(tiled, self.rules) is not None:
                continue
            pipeline = pipeline or pipeline_of(self.layout, tiling, self.arch.limits.mma_atom_bytes)
            work = self.work(tiling, pipeline)
            pace = pace or pace_of(tiled, work)
            cycles = pace.cycles(latency_of(work.rings, pace, self.arch.rates))
            if cycles < fastest:
                best = tiled
                fastest = cycles
            if cycles <= pace.least:
                break
        return None if best is None else self.priced(best)


@dataclass(frozen=True, kw_only=True)
class ScheduleCandidates:
    """Everything that one schedule has to offer for a problem.

    Attributes:
        schedule: which.
        parts: what it offers, and what was turned down before any tiling was looked at.
    """

    schedule: ScheduleName
    parts: tuple[Offer | Rejection, ...]

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
        return self.legal[choose([candidate.cost for candidate in self.legal])]

    @property
    def summary(self) -> ScheduleSummary:
        """Its line in the table of schedules."""
        if not self.legal:
            reasons = dict.fromkeys(rejection.reason for rejection in self.rejected)
            return ScheduleSummary(schedule=self.schedule, reason="; ".join(list(reasons)[:2]))
        best = self.best
        return ScheduleSummary(
            schedule=self.schedule,
            tiling=best.tiled.tiling,
            cycles=best.cost.cycles,
            mma_cycles=best.cost.mma_cycles,
            read_cycles=best.cost.read_cycles,
            bottleneck=best.cost.bottleneck,
        )
