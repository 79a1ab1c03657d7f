"""The tilings that a schedule offers, each width of them with its work and its price.

A schedule proposes a few hundred tilings, most of which differ from another one in their stages alone. Of the tilings
of one width only the best can be taken or be shown, so the others are looked at as little as that allows:

* Memory is laid out once for each tiling, and of a width whose price alone is asked for once at most, to know how many
  CTAs an SM can hold.
* What a CTA does does not depend on its stages, only how long it waits for copies does. So a width is priced once
  (`convc.compiler.plan.cost.Pace`), and its tilings are held to the rules from the fastest on, until one keeps them.
* Of what is compared only time and bytes are worked out; the whole estimate is made for those who read it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from convc.compiler.index.geometry import Geometry
from convc.compiler.index.traffic import Bytes
from convc.compiler.plan.candidates import pipeline_of
from convc.compiler.plan.constraints import (
    TILING_RULES,
    TiledProblem,
    TileGrid,
    TilingRule,
    check_tiling,
    persistent_ctas,
)
from convc.compiler.plan.cost import (
    Pace,
    asked_of_l2,
    busy_sms,
    estimate,
    latency_of,
    launch_cycles,
    pace_of,
    turn_of,
)
from convc.compiler.plan.memory_traffic import launch_bytes
from convc.compiler.plan.records import Estimate, Pipeline, Rejection, Tiling
from convc.compiler.plan.requests import row_cycles
from convc.compiler.plan.residency import beside, bytes_alone
from convc.compiler.plan.storage import Storage
from convc.compiler.plan.tiling import Depths
from convc.compiler.plan.work import CtaWork, with_stages
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Arch
from convc.support.once import once


class Candidate(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """One legal tiling.

    Attributes:
        offer: where it comes from.
        tiled: the problem and its tiles.
        pipeline, work: what a CTA does.
        pace: what that takes, whatever the stages.
        cycles, traffic_bytes: of the launch, as the estimate has them.
    """

    offer: Offer
    tiled: TiledProblem
    pipeline: Pipeline
    work: CtaWork
    pace: Pace
    cycles: float
    traffic_bytes: int

    @once
    def cost(self) -> Estimate:
        """The estimate of the launch."""
        return estimate(self.tiled, self.work, self.pace, self.offer.row_cycles)

    @property
    def busy_sms(self) -> int:
        """SMs that have a CTA."""
        return busy_sms(self.tiled, self.pace)

    @property
    def geometry(self) -> Geometry | None:
        """The sharing of activations; None where there is none."""
        return self.offer.geometry

    @property
    def launched(self) -> tuple[int, int, int]:
        """The grid: one CTA for each tile, or persistent CTAs."""
        if self.tiled.ctas is None:
            return (*self.tiled.grid, self.tiled.parts)
        return (math.prod(self.tiled.grid) if self.offer.dynamic else self.tiled.ctas, 1, 1)

    @property
    def storage(self) -> Storage:
        """The memory of a CTA."""
        return self.offer.laid(self.tiled.tiling)


class Offer(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True, weakref=True):
    """The tilings that a schedule proposes for one cut of a problem.

    Attributes:
        layout, arch: the problem and the target.
        depths: its tilings by their width, narrow before wide; all with rows of as many bytes.
        rows: tiles of output pixels, the grid along x.
        storage: the memory of a CTA, laid out.
        work: what a CTA does; of tilings that differ in their stages alone, only `CtaWork.rings` may differ.
        rules: what a tiling must keep.
        geometry: how activations are shared; None where they are not.
        most_ctas: persistent CTAs at most (`convc.compiler.plan.persistent`); None: each tile has its own.
        dynamic: whether those ask for their tiles, so that as many run as can.
        parts: CTAs that share the K loop of a tile (`convc.compiler.plan.split`).
        alone: whether a CTA takes an SM's shared memory for itself, whatever it needs.
    """

    layout: DeviceLayout
    arch: Arch
    depths: tuple[Depths, ...]
    rows: int
    storage: Callable[[Tiling], Storage]
    work: Callable[[Tiling, Pipeline], CtaWork]
    rules: Sequence[TilingRule] = TILING_RULES
    geometry: Geometry | None = None
    most_ctas: int | None = None
    dynamic: bool = False
    parts: int = 1
    alone: bool = False

    @property
    def first(self) -> Tiling:
        """The narrowest and shallowest tiling."""
        return self.depths[0].first

    @property
    def tilings(self) -> tuple[Tiling, ...]:
        """All tilings."""
        return tuple(tiling for each in self.depths for tiling in each.tilings)

    @once
    def pipeline(self) -> Pipeline:
        """The K loop of every tiling: their rows are equally long."""
        return pipeline_of(self.layout, self.first, self.arch.limits.mma_atom_bytes)

    @once
    def memory_traffic(self) -> Bytes:
        """Bytes that the launch reads and writes, however it is cut."""
        return launch_bytes(self.layout, self.arch.rates)

    @once
    def row_cycles(self) -> tuple[float, float]:
        """Cycles of TMA for a row of activations, and for one of the filter."""
        return row_cycles(self.layout, self.first.row_bytes, self.arch.rates)

    @once
    def rejected(self) -> tuple[Rejection, ...]:
        """Every tiling that breaks a rule, with the first that it breaks."""
        checked = (check_tiling(self.tiled(tiling), self.rules) for tiling in self.tilings)
        return tuple(rejection for rejection in checked if rejection is not None)

    def laid(self, tiling: Tiling) -> Storage:
        """The memory of a CTA, laid out once: forms of a schedule are made of it."""
        known = self._laid.get(tiling)
        if known is None:
            known = self._laid[tiling] = self.storage(tiling)
        return known

    def footprint(self, tiling: Tiling) -> int:
        """Bytes of shared memory, without those that keep other CTAs from the SM for want of columns."""
        end = self.laid(tiling).end
        return max(end, bytes_alone(self.arch)) if self.alone else end

    def done(self, tiling: Tiling) -> CtaWork:
        """The work of a CTA, counted once: forms of a schedule are made of it."""
        known = self._done.get(tiling)
        if known is None:
            known = self._done[tiling] = self.work(tiling, self.pipeline)
        return known

    @once
    def _done(self) -> dict[Tiling, CtaWork]:
        """The work that has been counted."""
        return {}

    @once
    def _laid(self) -> dict[Tiling, Storage]:
        """The memory that has been laid out."""
        return {}

    def tiles(self, tiling: Tiling) -> TileGrid:
        """The tiles of all tilings of one width."""
        grid = self._grid(tiling)
        return TileGrid(
            layout=self.layout,
            arch=self.arch,
            grid=grid,
            ctas=self._ctas(grid, tiling),
            parts=self.parts,
            size=self.memory_traffic,
        )

    def tiled(self, tiling: Tiling) -> TiledProblem:
        """A tiling with what follows from it."""
        grid = self._grid(tiling)
        return TiledProblem(
            layout=self.layout,
            arch=self.arch,
            tiling=tiling,
            need=self.laid(tiling).need,
            grid=grid,
            ctas=self._ctas(grid, tiling),
            parts=self.parts,
        )

    def _grid(self, tiling: Tiling) -> tuple[int, int]:
        """Tiles of output pixels and of output channels."""
        return self.rows, -(-self.layout.problem.out_channels // tiling.block_n)

    def _ctas(self, grid: tuple[int, int], tiling: Tiling) -> int | None:
        """How many persistent CTAs; None: each tile has its own."""
        if self.most_ctas is None:
            return None
        tiles = grid[0] * grid[1]
        return min(tiles, self.most_ctas) if self.dynamic else persistent_ctas(tiles, self.most_ctas, tiling.together)


class Width(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """The tilings of an offer that have one width.

    Attributes:
        offer: where they come from.
        depths: the tilings; none needs less memory than the first.
    """

    offer: Offer
    depths: Depths

    @property
    def tilings(self) -> tuple[Tiling, ...]:
        """All tilings."""
        return self.depths.tilings

    @once
    def tiles(self) -> TileGrid:
        """The tiles of all tilings."""
        return self.offer.tiles(self.depths.first)

    @once
    def work(self) -> CtaWork:
        """The work of a CTA, with the stages of the first tiling."""
        return self.offer.done(self.depths.first)

    @once
    def pace(self) -> Pace:
        """The part of its price that does not depend on stages."""
        return pace_of(self.tiles, self.work, self.offer.row_cycles)

    @once
    def floor(self) -> float:
        """Cycles that `least` is not below: most often close to it, and found in a fraction of the time."""
        return self.pace.floor

    @once
    def least(self) -> float:
        """Cycles that none of the tilings can beat: with copies that never keep anybody waiting."""
        pace = self.pace
        most = pace.most_beside
        if most > 1:
            most = min(most, beside(self.offer.laid(self.depths.first).need, self.offer.arch))
        return min(pace.cycles(pace.hidden, held) for held in range(1, most + 1))

    @once
    def best(self) -> Candidate | None:
        """The fastest legal tiling; None where none is legal."""
        offer = self.offer
        for tiling in self._fastest_first():
            tiled = offer.tiled(tiling)
            if check_tiling(tiled, offer.rules) is None:
                work = with_stages(self.work, tiled.tiling.stages)
                return Candidate(
                    offer=offer,
                    tiled=tiled,
                    pipeline=offer.pipeline,
                    work=work,
                    pace=self.pace,
                    cycles=launch_cycles(tiled, work, self.pace),
                    traffic_bytes=asked_of_l2(work, self.pace),
                )
        return None

    def _fastest_first(self) -> Iterator[Tiling]:
        """The tilings by their price; of several of one price, that which keeps most bytes under way.

        The price has it that a latency is hidden or is not. Where many CTAs ask L2 at once some copies take longer, and
        memory that no other CTA can use hides that too: on an H200 the layers of ResNet-50 take 0.96 of the time at
        batch 1, 0.97 at batch 8, and as long at batch 32.
        """
        alike: dict[float, list[Tiling]] = {}
        for tiling, cycles in zip(self.tilings, self._cycles(), strict=True):
            alike.setdefault(cycles, []).append(tiling)
        for cycles in sorted(alike):
            yield from sorted(alike[cycles], key=self.offer.footprint, reverse=True)

    def _cycles(self) -> list[float]:
        """The price of each tiling: they differ in the latency of copies, and in how many CTAs fit."""
        work = self.work
        pace = self.pace
        latencies = [pace.hidden] * len(self.depths.stages)
        for ring, column in zip(work.rings, zip(*self.depths.rings, strict=True), strict=True):
            turn = turn_of(ring.steps, pace)
            waits = {stages: latency_of(ring.steps, stages, turn, pace) for stages in set(column)}
            latencies = [max(latency, waits[stages]) for latency, stages in zip(latencies, column, strict=True)]
        most = pace.most_beside
        if most == 1:  # how many fit need not be known
            alone = {latency: pace.cycles(latency, 1) for latency in set(latencies)}
            return [alone[latency] for latency in latencies]
        needs = (self.offer.laid(tiling).need for tiling in self.tilings)
        rivals = [
            (latency, min(most, beside(need, self.offer.arch))) for latency, need in zip(latencies, needs, strict=True)
        ]
        prices = {rival: pace.cycles(*rival) for rival in set(rivals)}
        return [prices[rival] for rival in rivals]
