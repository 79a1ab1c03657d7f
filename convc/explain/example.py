"""The worked example: a 3x3 filter on images of 9x9 pixels, padded along W, in tiles of 16 lanes.

It is small enough to follow by hand and has everything that a large one has: a tile that ends one image and begins the
next, a lane that holds padding, lanes that hold a pixel of the other image, and rows fetched anew.
"""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace
from rich.console import Console

from convc.compiler.index.formulas import Instance
from convc.compiler.index.geometry import geometry_of
from convc.compiler.index.reuse import ReuseMaps, reuse_maps, shared_instance
from convc.compiler.schedules.all import CHAIN, SLIDE, STATIONARY
from convc.compiler.schedules.base import Schedule
from convc.compiler.schedules.sharing.indexing import schedule_form
from convc.explain.chain import Stage, stages_of
from convc.explain.tiles import KernelTiles, print_derivation, print_tile, reuse_tiles
from convc.ir.problem import ConvProblem
from convc.report.console import print_part

CHANNELS = {"BN": 4, "BK": 4, "BLOCKS": 2, "TILES_N": 2, "GROUP_TILES": 2, "C_PITCH": 8, "K_PITCH": 8}
"""Tiles of 4 of the 8 output channels, and of 4 of the 8 input channels."""

PROBLEM = ConvProblem(
    name="example",
    batch=2,
    in_channels=8,
    out_channels=8,
    in_extent=(9, 9),
    kernel=(3, 3),
    pad_lo=(0, 1),
    pad_hi=(0, 1),
)


def example_maps() -> ReuseMaps:
    """One stream of pixels for each output row, in tiles of 16 lanes; what is no pixel of a lane is masked."""
    return reuse_maps(PROBLEM, geometry_of(PROBLEM, merged=False, border="mask", lanes=16))


@cache
def example_tiles() -> KernelTiles:
    """The tiles of the example on the schedule `shift`; tile 0 begins at (n, p, q) = (0, 0, 0)."""
    return replace(reuse_tiles(example_maps(), CHAIN, example_stages), chain=lambda: _stages(CHAIN))


def example_stages() -> tuple[Stage, ...]:
    """Algorithms 1 to 3.b of the example: on the way to 3.b lie all but the other order of operands."""
    *before, last = _stages(CHAIN)
    return *before, _stages(STATIONARY)[-1], last


def example_instance(schedule: Schedule = SLIDE) -> Instance:
    """The derivation of a schedule with the numbers of the example."""
    maps = example_maps()
    return shared_instance(PROBLEM, maps, schedule_form(maps, schedule), CHANNELS)


def _stages(schedule: Schedule) -> tuple[Stage, ...]:
    return stages_of(example_instance(schedule), example_maps().walk)


def print_example(console: Console, every: bool) -> None:
    """From the definition to the lanes of the first tile; `every`: leave no lane out."""
    tiles = example_tiles()
    print_part(console, "problem", [PROBLEM.describe()])
    print_derivation(console, tiles)
    print_part(console, "index maps", [line for index_map in example_maps().maps for line in index_map.lines()])
    print_tile(console, tiles, tiles.lanes(0), every)
