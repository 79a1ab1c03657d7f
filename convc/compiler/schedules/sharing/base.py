"""The common part of the schedules that share activations: how they cut the output, and which tilings they propose.

A survey looks at each way to cut the output (border ``mask`` or ``zero``, rows ``outer`` or ``merged``), keeps the one
with the fewest tiles, and proposes tilings for it.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from msgspec.structs import replace

from convc.compiler.index.geometry import Geometry, geometry_of
from convc.compiler.index.limits import WIDE_OFFSET_LIMIT
from convc.compiler.index.row_walk import BORDERS
from convc.compiler.plan.candidate import ScheduleCandidates
from convc.compiler.plan.candidates import depths, pixel_bytes, row_bytes, widths
from convc.compiler.plan.constraints import (
    PROBLEM_RULES,
    TILING_RULES,
    WALK_RULES,
    TilingRule,
    check_problem,
    scale_factors,
)
from convc.compiler.plan.loads import wide_loads_of
from convc.compiler.plan.offer import Candidate, Offer
from convc.compiler.plan.records import Indexing, Pipeline, Plan, Rejection, Tiling
from convc.compiler.plan.residual_tile import copied, with_residual
from convc.compiler.plan.result_tile import number_tile, result_rows, result_tile, staged
from convc.compiler.plan.results import met_conditions
from convc.compiler.plan.storage import BarrierRing, Storage, TmemTile, lay_out
from convc.compiler.plan.tiling import Depths
from convc.compiler.plan.validation import check_candidate
from convc.compiler.plan.work import CtaWork
from convc.compiler.schedules.base import ROWS, TMA, Method, Request, Roles, Ways, ways_of
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.features.multicast import peers
from convc.compiler.schedules.residual import load_residual
from convc.compiler.schedules.sharing.indexing import coordinates_of, instance_of, proved_maps, reading_of, reuse_of
from convc.compiler.schedules.sharing.lane_masks import clear, mask_steps, masks, zero_step
from convc.compiler.schedules.sharing.results import line_copies, not_copied, staged_results
from convc.compiler.schedules.sharing.roles import load
from convc.compiler.schedules.sharing.storage import (
    copied_rows,
    largest_halo,
    mask_entries,
    operand_rings,
    operand_tiles,
)
from convc.compiler.tile.steps.base import Step
from convc.errors import PlanError
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import SM_100A, Arch

SPANS = SM_100A.limits.wide_swizzle_spans
"""Row lengths that the wide im2col modes can swizzle (CUDA driver, ``cuTensorMapEncodeIm2colWide``)."""
A_STAGES = (2, 3, 4)
"""Activation tiles in flight, as far as there are so many."""

Loops = Callable[[Tiling, Pipeline], CtaWork]
"""The work of a CTA whose results leave from registers, counted once for all ways."""


@dataclass(frozen=True, kw_only=True)
class Sharing(Method):
    """One activation tile for all filter columns of a buffer, one filter tile for each of them.

    What follows may be said otherwise by a schedule.
    """

    rules: tuple[TilingRule, ...] = TILING_RULES

    # ---- what a schedule says ----------------------------------------------------------------------------------------

    @property
    def windowed(self) -> bool:
        """Whether a tile is made of windows of 32 pixels that overlap by the halo."""
        return False

    @property
    def alone(self) -> bool:
        """Whether a CTA takes an SM's shared memory for itself."""
        return False

    @property
    def haloed(self) -> bool:
        """Whether every 32 pixels of a tile have a halo of their own."""
        return False

    @property
    def whole_tap_first(self) -> bool:
        """Whether a filter column that masks no lane may come first, whatever its place in the buffer."""
        return False

    def pixels(self, arch: Arch, request: Request) -> tuple[int, ...]:
        """Output pixels that a tile may have."""
        return request.tile_rows(arch)

    def refuses(self, geometry: Geometry) -> str | None:
        """The condition that a cut breaks, with its numbers."""
        if geometry.stream.boxed and not _fits(geometry):
            walk = geometry.walk
            return f"corners {walk.lower} and {walk.upper} along W do not fit the 8 bits of an im2col tensor map"
        halo = max(buffer.halo for buffer in geometry.walk.buffers)
        offset = max(buffer.offset for buffer in geometry.walk.buffers)
        if halo > self.schedule.max_halo:
            return (
                f"the last filter column is {halo} lanes from the first of its buffer, "
                f"at most {self.schedule.max_halo} can be held"
            )
        if offset > WIDE_OFFSET_LIMIT:
            return f"a buffer starts {offset} pixels on, the copy takes offsets up to {WIDE_OFFSET_LIMIT}"
        return None

    def tile_rows(self, geometry: Geometry, halo: int) -> int:
        """Rows of shared memory that a copy with this halo fills."""
        tile = geometry.tile
        return copied_rows(reading_of(self.schedule), geometry.form, tile.lanes, tile.windows, halo)

    @abstractmethod
    def tensor_tiles(self, layout: DeviceLayout, tiling: Tiling, arch: Arch) -> tuple[TmemTile, ...]:
        """The tiles in tensor memory, the last one behind the others; they do not depend on the filter's stages."""

    def own_rings(self, tiling: Tiling, geometry: Geometry) -> tuple[BarrierRing, ...]:
        """Rings of barriers besides those between load, mma and epilogue; the filter's stages are not asked."""
        return ()

    def masks(self, layout: DeviceLayout, geometry: Geometry) -> int:
        """Entries of the table of lane masks."""
        return mask_entries(layout.problem, geometry)

    @abstractmethod
    def work(self, layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline, geometry: Geometry, arch: Arch) -> CtaWork:
        """Count what one CTA does."""

    @abstractmethod
    def multiply(self, plan: Plan) -> tuple[Step, ...]:
        """The role that multiplies."""

    @abstractmethod
    def epilogue(self, plan: Plan) -> tuple[Step, ...]:
        """The role that stores the accumulator."""

    # ---- what all of them do -----------------------------------------------------------------------------------------

    def storage(
        self, layout: DeviceLayout, tiling: Tiling, arch: Arch, geometry: Geometry, ways: Ways | None = None
    ) -> Storage:
        """Lay out one CTA; by default its results leave from registers."""
        ways = ways or Ways()
        if ways.residual_load == TMA:
            without = Ways(store=ways.store)
            return with_residual(self.storage(layout, tiling, arch, geometry, without), layout, tiling, arch)
        core = core_of(arch)
        staging = ways.store == TMA
        return lay_out(
            operand_tiles(tiling, self.tile_rows(geometry, largest_halo(geometry))),
            self.tensor_tiles(layout, tiling, arch),
            (*operand_rings(tiling, core.releases(tiling.block_m)), *self.own_rings(tiling, geometry), *core.done()),
            arch,
            masks=self.masks(layout, geometry) * tiling.ctas,
            results=result_tile(layout, tiling) if staging else None,
            numbers=number_tile(layout, tiling) if staging else None,
        )

    def candidates(self, layout: DeviceLayout, arch: Arch, request: Request) -> ScheduleCandidates:
        """Look at every tiling of the best cut."""
        boxed = not arch.limits.wide_halo
        rules = (*PROBLEM_RULES, scale_factors) if boxed else WALK_RULES
        parts: list[Offer | Rejection] = list(check_problem(layout, arch, rules))
        for lanes in () if parts else self.pixels(arch, request):
            geometries, refused = self._geometries(layout, request, lanes, boxed)
            parts += refused
            if geometries:
                parts += self._offers(layout, arch, request, _fewest(geometries))
        return ScheduleCandidates(schedule=self.schedule.id, parts=tuple(parts))

    def indexing(self, candidate: Candidate) -> Indexing:
        """Derive the maps of a candidate, and prove that every lane finds its pixel, or a zero, or is masked."""
        layout = candidate.tiled.layout
        tiling = candidate.tiled.tiling
        if candidate.geometry is None:
            raise TypeError("a candidate of a schedule that shares activations has a geometry")
        transposed = self.schedule.transposed
        shared = instance_of(candidate, self.schedule)
        check_candidate(candidate, shared.sizes)
        met = met_conditions(self.schedule.name, layout.problem, shared, candidate.geometry.walk)
        maps = proved_maps(layout.problem, candidate.geometry)
        reuse = reuse_of(
            maps,
            self.schedule.assumes,
            masks=not transposed,
            whole_tap_first=self.whole_tap_first,
            any_row_first=candidate.tiled.parts > 1,
        )
        padded = candidate.tiled.grid[1] * tiling.block_n > layout.k_pitch
        copies = staged_results(candidate, maps, shared)
        return Indexing(
            coordinates=replace(
                coordinates_of(candidate, maps, shared),
                first_m=copies.first_m,
                first_pixel=copies.first_pixel,
            ),
            loads=replace(wide_loads_of(layout, tiling, reuse, self.haloed), out=copies.out, residual=copies.residual),
            derivation=tuple(map(str, (*met, *maps.proofs, *copies.proofs))),
            form=shared.form,
            row_limit=layout.problem.gemm_m if maps.pixel.guard else None,
            channel_limit=layout.k_pitch if padded else None,
            reuse=reuse,
        )

    def roles(self, plan: Plan) -> Roles:
        """An activation tile for every buffer, and a filter tile for each of its filter columns."""
        return Roles(
            load=(*load(plan), *load_residual(plan)),
            multiply=(*peers(plan), *self.multiply(plan)),
            epilogue=self.epilogue(plan),
            before=masks(plan),
            after=clear(plan),
            masks=partial(mask_steps, plan) if plan.storage.masks else None,
            zero=zero_step(plan),
        )

    def _geometries(
        self, layout: DeviceLayout, request: Request, lanes: int, boxed: bool
    ) -> tuple[list[Geometry], list[Rejection]]:
        """The ways to cut the output that the schedule can use, and what is wrong with the others."""
        found: list[Geometry] = []
        refused: list[Rejection] = []
        borders = BORDERS if request.border is None else (request.border,)
        rows = ROWS if request.rows is None else (request.rows,)
        for border, row in itertools.product(borders, rows):
            merged = row == "merged"
            if boxed and (border, merged) != ("zero", True):
                reason = (
                    f"border {border} with rows {row} needs copies in mode im2col::w, which the target does not have"
                )
                refused.append(Rejection(rule="target", reason=reason))
                continue
            try:
                geometry = _cut(
                    layout.problem, merged=merged, border=border, lanes=lanes, windowed=self.windowed, boxed=boxed
                )
            except PlanError as error:
                refused.append(Rejection(rule="geometry", reason=error.message))
                continue
            reason = self.refuses(geometry)
            if request.persistent and request.dynamic and self.masks(layout, geometry):
                reason = (
                    f"border {border} with rows {row} masks lanes, and a dynamic tile scheduler assigns tiles too late "
                    "for that"
                )
            if reason is None:
                found.append(geometry)
            else:
                refused.append(Rejection(rule="reuse", reason=reason))
        return found, refused

    def _offers(
        self, layout: DeviceLayout, arch: Arch, request: Request, geometry: Geometry
    ) -> Iterator[Offer | Rejection]:
        """The tilings of one cut, for each way in which results leave and a residual comes."""
        loops = lru_cache(maxsize=None)(partial(self.work, layout, geometry=geometry, arch=arch))
        for ways in ways_of(self.schedule, layout, arch, request):
            reason = not_copied(geometry, layout, arch, ways)
            if reason is None:
                yield self._offer(layout, arch, request, geometry, ways, loops)
            else:
                yield Rejection(rule="results", reason=reason)

    def _offer(
        self, layout: DeviceLayout, arch: Arch, request: Request, geometry: Geometry, ways: Ways, loops: Loops
    ) -> Offer:
        """The tilings of one cut whose results leave, and whose residual comes, in one way; `loops` is `work`."""
        lines = line_copies(geometry, layout, arch) if ways.store == TMA else 0

        def work(tiling: Tiling, pipeline: Pipeline) -> CtaWork:
            done = loops(tiling, pipeline)
            if ways.store == TMA:
                done = staged(done, result_tile(layout, tiling), lines)
            return copied(done, layout, tiling) if ways.residual_load == TMA else done

        def storage(tiling: Tiling) -> Storage:
            return self.storage(layout, tiling, arch, geometry, ways)

        return Offer(
            layout=layout,
            arch=arch,
            depths=tuple(self.tilings(layout, request, geometry)),
            rows=geometry.all_tiles,
            storage=storage,
            work=work,
            rules=(*self.rules, result_rows) if ways.store == TMA else self.rules,
            geometry=geometry,
            alone=self.alone,
        )

    def tilings(self, layout: DeviceLayout, request: Request, geometry: Geometry) -> Iterator[Depths]:
        """Candidates by their width, narrow before wide."""
        span = row_bytes(layout, SPANS)
        tiles = layout.problem.kernel[0] * -(-pixel_bytes(layout) // span) * len(geometry.walk.buffers)
        counts = sorted({min(count, tiles) for count in A_STAGES})
        deep = tuple((count, depth) for depth in depths(layout, span, request.stages) for count in counts)
        lanes = geometry.tile.lanes
        a_stages, b_stages = deep[0]
        for width in widths(layout, request.block_n):
            first = Tiling(block_m=lanes, block_n=width, row_bytes=span, b_stages=b_stages, a_stages=a_stages)
            yield Depths(first=first, stages=deep)


_cut = lru_cache(maxsize=64)(geometry_of)
"""Every schedule that shares activations asks for the same cuts of a problem."""


def _fits(geometry: Geometry) -> bool:
    """Whether the corners of a walk along whole images fit the box of an im2col map."""
    low, high = SM_100A.limits.im2col_corner
    return low <= geometry.walk.lower and geometry.walk.upper <= high


def _fewest(geometries: list[Geometry]) -> Geometry:
    """The cut with the fewest tiles; of those, one without masks."""
    return min(geometries, key=lambda one: (one.all_tiles, one.walk.border == "mask", one.stream.masked))
