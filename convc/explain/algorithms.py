"""The rewrites that lead to each schedule, in order: what `convc.explain.derivation` applies and checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.schedules.base import Schedule
from convc.explain.nests import Nest
from convc.explain.reuse_rewrites import (
    accumulate,
    hoist,
    mask_lanes,
    shift_instead_of_load,
    stage,
    swap_operands,
)
from convc.explain.rewrites import Step, flatten, interchange, split_taps, tile, tile_windows
from convc.ir.problem import ConvProblem

Rewrite = Callable[[Nest], Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaTile:
    """Output channels and input channels of a tile: columns of the accumulator, and terms of a step's sum."""

    columns: int
    channels: int


@dataclass(frozen=True, slots=True)
class RewriteStage:
    """The way from one algorithm to the next, which has this title."""

    title: str
    rewrites: tuple[Rewrite, ...]


def chapters(maps: ReuseMaps, schedule: Schedule, mma: MmaTile, masked: bool) -> tuple[RewriteStage, ...]:
    """The rewrites from the definition to a schedule on the stream of `maps`; masked: whether lanes are left out."""
    found = [RewriteStage("Algorithm 2: reload", stream_tiles(maps, mma))]
    if not schedule.shares:
        return tuple(found)
    stride = maps.problem.stride[1]
    dilation = maps.problem.dilation[1]
    split = partial(split_taps, cycle=stride // math.gcd(stride, dilation))
    # Lanes are masked while they multiply by padding, which is zero: with shared loads another pixel stands there.
    masks = (partial(mask_lanes, maps=maps),) if masked else ()
    found.append(RewriteStage("row addresses: slide", (split, *masks, partial(hoist, maps=maps))))
    if schedule.transposed:
        found.append(RewriteStage(f"Algorithm 3: {schedule.name}", (swap_operands,)))
    if schedule.activations == "tensor memory":
        found.append(RewriteStage(f"Algorithm 3.b: {schedule.name}", (partial(shift_instead_of_load, maps=maps),)))
    return tuple(found)


def stream_tiles(maps: ReuseMaps, mma: MmaTile) -> tuple[Rewrite, ...]:
    """Tiles of the stream of output pixels: the output rows run outside, or are merged into it."""
    shape = maps.tile
    if maps.stream.merged:
        outer: tuple[str, ...] = ()
        counted: tuple[str, ...] = ("n", "p", "q")
        periods: tuple[int, ...] = (maps.stream.image_rows, maps.walk.period)
    else:
        outer = ("p",)
        counted = ("n", "q")
        periods = (maps.walk.period,)
    notes = (f"{shape.outputs} places of the stream each", f"tensor core: {shape.lanes} pixels")
    if shape.windows > 1:
        cut: Rewrite = partial(tile_windows, name="t", into=("tile", "lane"), shape=shape, notes=notes)
    else:
        cut = partial(tile, name="t", into=("tile", "lane"), size=shape.lanes, notes=notes)
    # Loops that are counted by one have to be neighbours.
    rows_outside = (partial(interchange, order=(*outer, *counted, "k", "c", "r", "s")),) if outer else ()
    return (
        *rows_outside,
        partial(flatten, names=counted, into="t", periods=periods),
        cut,
        *matrix_tiles(mma),
        partial(interchange, order=(*outer, "tile", "tile_n", "r", "block", "s", "lane", "column", "e")),
        partial(accumulate, inside="tile_n"),
        partial(stage, inside="s"),
    )


def pixel_tiles(problem: ConvProblem, block_m: int, mma: MmaTile) -> tuple[Rewrite, ...]:
    """Tiles of all output pixels, row after row and image after image."""
    notes = (f"{block_m} output pixels each, M = {problem.gemm_m}", f"tensor core: {block_m} pixels")
    return (
        partial(flatten, names=("n", "p", "q"), into="m", periods=problem.out_extent),
        partial(tile, name="m", into=("tile_m", "lane"), size=block_m, notes=notes),
        *matrix_tiles(mma),
        partial(interchange, order=("tile_m", "tile_n", "r", "s", "block", "lane", "column", "e")),
        partial(accumulate, inside="tile_n"),
        partial(stage, inside="block"),
    )


def matrix_tiles(mma: MmaTile) -> tuple[Rewrite, ...]:
    """Tiles of the output channels, and of the input channels."""
    of_k = (f"{mma.columns} output channels each", "tensor core: output channels")
    of_c = (f"{mma.channels} input channels each", "tensor core: the sum")
    return (
        partial(tile, name="k", into=("tile_n", "column"), size=mma.columns, notes=of_k),
        partial(tile, name="c", into=("block", "e"), size=mma.channels, notes=of_c),
    )
