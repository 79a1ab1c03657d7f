"""The tiles of a kernel, for people: how its loops were derived, what its lanes hold, and why it is right."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace
from rich.console import Console

from convc.compiler.index.formulas import Instance
from convc.compiler.index.maps import Outcome
from convc.compiler.index.reuse import ReuseMaps, reuse_maps
from convc.compiler.plan.records import Plan
from convc.compiler.plan.summed import summed_maps
from convc.compiler.plan.tap_maps import tap_maps
from convc.compiler.schedules.all import schedule_of
from convc.compiler.schedules.base import Schedule
from convc.derive.text import NestText
from convc.errors import InputError
from convc.explain.chain import Stage, chain_lines, claims_of, kernel_chain, kernel_loops, plan_stages
from convc.explain.lane_tables import print_claims, print_lanes, print_masks, print_rows
from convc.explain.lanes import LaneTable, lane_table, reload_table, tile_count, why_masked
from convc.report.console import print_heading, print_part

LOOKED_AT = 8
"""Tiles among which a typical one is looked for."""


class KernelTiles(msgspec.Struct, frozen=True, kw_only=True):
    """The tiles of one kernel.

    Attributes:
        count: how many there are.
        rows: filter rows.
        table: the lanes of one of them, at a filter row or where None is given at the first that meets an image.
        nest: the loops of the kernel.
        stages: how they came about: the algorithms from the definition on.
        chain: the algorithms on the way to the kernel.
        cases: why lanes are masked.
        pixels: whether lanes have pixels, and there are tables of them.
    """

    count: int
    rows: int
    table: Callable[[int, int | None], LaneTable]
    nest: Callable[[], NestText]
    stages: Callable[[], tuple[Stage, ...]]
    chain: Callable[[], tuple[Stage, ...]]
    cases: tuple[Outcome, ...]
    pixels: bool = True

    @property
    def claims(self) -> tuple[Outcome, ...]:
        """The theorems that the kernel assumes, and their conditions with its numbers."""
        return claims_of(self.chain())

    def lanes(self, tile: int, row: int | None = None) -> LaneTable:
        """The lanes of a tile at a filter row, by default the first that meets an image.

        InputError where there is none of that number.
        """
        if not 0 <= tile < self.count:
            raise InputError(f"there is no tile {tile}", hint=f"tiles of this layer: 0 to {self.count - 1}")
        if row is not None and not 0 <= row < self.rows:
            raise InputError(f"there is no filter row {row}", hint=f"filter rows of this layer: 0 to {self.rows - 1}")
        return self.table(tile, row)

    def typical(self, row: int | None = None) -> LaneTable:
        """A tile from the middle of the image, with as little padding as there is near it, at the middle filter row.

        `LOOKED_AT` tiles are looked at, until one has none.
        """
        middle = self.rows // 2 if row is None else row
        first = max(0, min(self.count // 2, self.count - LOOKED_AT))
        best = self.lanes(first, middle)
        for tile in range(first + 1, min(first + LOOKED_AT, self.count)):
            if not _unlike(best):
                break
            best = min(best, self.lanes(tile, middle), key=_unlike)
        return best


def reuse_tiles(maps: ReuseMaps, schedule: Schedule, stages: Callable[[], tuple[Stage, ...]]) -> KernelTiles:
    """The tiles of a schedule whose filter columns share their activations, with its algorithms."""
    return KernelTiles(
        count=tile_count(maps, schedule),
        rows=maps.problem.kernel[0],
        table=lambda tile, row: lane_table(maps, schedule, tile, row),
        nest=lambda: stages()[-1].algorithm.nest.text(),
        stages=stages,
        chain=stages,
        cases=why_masked(maps),
    )


def plan_tiles(plan: Plan) -> KernelTiles:
    """The tiles of a plan."""
    if plan.reuse is not None:
        maps = reuse_maps(plan.problem, plan.reuse)
        tiles = reuse_tiles(maps, schedule_of(plan.schedule), lambda: plan_stages(plan))
        return replace(tiles, nest=lambda: kernel_nest(plan), chain=lambda: kernel_chain(plan))
    derived = plan_maps(plan)
    if plan.layout.summed:
        return KernelTiles(
            count=derived.sizes["TILES_M"],
            rows=1,
            table=_no_table,
            nest=lambda: kernel_nest(plan),
            stages=lambda: kernel_chain(plan),
            chain=lambda: kernel_chain(plan),
            cases=(),
            pixels=False,
        )
    return KernelTiles(
        count=derived.sizes["TILES_M"],
        rows=plan.problem.kernel[0],
        table=lambda tile, row: reload_table(derived, plan.problem, tile, row),
        nest=lambda: kernel_nest(plan),
        stages=lambda: plan_stages(plan),
        chain=lambda: kernel_chain(plan),
        cases=(),
    )


def _no_table(tile: int, row: int | None) -> LaneTable:
    raise InputError(
        "lanes of this layer are weights: its pixels are summed, and none is a lane's",
        hint="with --columns off pixels are transposed, and lanes are outputs",
    )


def kernel_nest(plan: Plan) -> NestText:
    """The loops of a plan's kernel, with its bias and its epilogue."""
    return kernel_loops(plan).text(plan.problem)


def plan_maps(plan: Plan) -> Instance:
    """The derivation that the plan's coordinates were taken from."""
    if plan.layout.summed:
        return summed_maps(plan.layout, plan.tiling, plan.pipeline, plan.launch.tiles)
    return tap_maps(plan.layout, plan.tiling, plan.pipeline.channels, plan.launch.tiles[0])


def print_derivation(console: Console, tiles: KernelTiles) -> None:
    """Print how the loops came about."""
    print_part(console, "derivation", list(chain_lines(tiles.stages())))


def print_tile(console: Console, tiles: KernelTiles, table: LaneTable, every: bool) -> None:
    """Print the lanes of a tile, its rows of shared memory, its masks, and the claims."""
    print_heading(console, "lanes")
    print_lanes(console, table, every)
    print_heading(console, "rows of shared memory")
    print_rows(console, table)
    print_heading(console, "masks")
    print_masks(console, table)
    print_heading(console, "claims")
    print_claims(console, tiles.claims, tiles.cases)


def _unlike(table: LaneTable) -> int:
    """Cells of a tile that are no pixel of an image that its output needs: padding, masked, or without an output."""
    cells = (cell for buffer in table.buffers for lane in buffer.lanes for cell in lane.cells)
    return sum(cell.needed is None or cell.masked or not cell.held.real for cell in cells)
