"""Results that leave through shared memory and tensor copies: the tile, its map, and when there can be one.

A lane of the accumulator holds one output pixel. Stored from registers, every lane of a warp writes 16 bytes of another
row of the output, 32 sectors an instruction. Through shared memory a warp writes its 32 rows once, swizzled so that
eight lanes never meet in a bank, and one copy stores a slab of columns of them. The copy leaves out what is
outside the output tensor, so that neither rows nor channels need a test (PTX manual, ``cp.async.bulk.tensor``, tile
mode). Lanes that are no consecutive output pixels name theirs: a copy takes four lines of a slab to four pixels, and
leaves out those whose number is past the last one (mode ``tile::scatter4``).

The tile lies over the stages of the operand tiles: when the accumulator is complete, all of them have been multiplied.
"""

from __future__ import annotations

import functools
import itertools
import math

from msgspec.structs import replace

from convc.compiler.index.row_results import AXES, ResultBox
from convc.compiler.plan.constraints import TiledProblem
from convc.compiler.plan.loads import SWIZZLE, map_dtype
from convc.compiler.plan.names import NUMBERS, C
from convc.compiler.plan.records import Tiling
from convc.compiler.plan.results import WORD
from convc.compiler.plan.storage import SmemTile, tile_ring
from convc.compiler.plan.work import CtaWork
from convc.host_layout.device_layout import DeviceLayout
from convc.ir import dtypes
from convc.ir.arch import Arch
from convc.ir.tensormap import TensorMap

LINES = 4
"""Lines that a copy takes to pixels of their own (PTX manual, mode ``tile::scatter4``)."""

SLABS = (128, 64, 32)
"""Bytes of a row that one copy takes: the spans of the swizzles, widest first."""


def result_tile(layout: DeviceLayout, tiling: Tiling) -> SmemTile:
    """Lay the tile of results out from the start of shared memory on, one stage a slab of columns."""
    return _result_tile(tiling.block_m, tiling.block_n * layout.problem.out_dtype.bytes)


@functools.lru_cache(maxsize=256)
def _result_tile(lines: int, row: int) -> SmemTile:
    slab = next((slab for slab in SLABS if row % slab == 0), SLABS[-1])
    return tile_ring(C, lines, slab, -(-row // slab), 0)


def number_tile(layout: DeviceLayout, tiling: Tiling) -> SmemTile:
    """Lay out what the epilogue adds and multiplies with: the tile's channels of each row of the bias buffer.

    Read ahead of need, they cost no latency once the accumulator is complete.
    """
    row = tiling.block_n * dtypes.BY_NAME[layout.bias.dtype].bytes
    return _number_tile(math.prod(layout.bias.shape[:-1]), row)


@functools.lru_cache(maxsize=256)
def _number_tile(rows: int, row: int) -> SmemTile:
    return SmemTile(name=NUMBERS, rows=rows, row_bytes=row, swizzle="none", stages=1, stage_bytes=rows * row, offset=0)


def staged(work: CtaWork, results: SmemTile | None, line_copies: int = 0) -> CtaWork:
    """The work of a CTA whose results leave through this tile, with `CtaWork.line_copies`; None: from registers."""
    if results is None:
        return work
    return replace(work, slabs=results.stages, slab_bytes=results.bytes, line_copies=line_copies)


def result_rows(tiled: TiledProblem) -> str | None:
    """A row of results is a multiple of the narrowest swizzle's span (PTX manual, swizzling modes)."""
    row = tiled.tiling.block_n * tiled.layout.problem.out_dtype.bytes
    if row % SLABS[-1]:
        return f"a row of {row} bytes of results is no multiple of {SLABS[-1]}, the least that a swizzled copy takes"
    return None


def result_pixels(layout: DeviceLayout, arch: Arch) -> str | None:
    """The number of an output pixel is a coordinate of a copy (PTX manual, ``cp.async.bulk.tensor``: ``.s32``)."""
    low, high = WORD
    pixels = layout.problem.gemm_m
    if pixels > high:
        return f"{pixels} output pixels: the coordinates of a tensor copy are numbers from {low} to {high}"
    return None


def stream_map(layout: DeviceLayout, tile: SmemTile, box: ResultBox, pixels: int) -> TensorMap:
    """The residual as the box that a stream of pixels walks through, so many in a copy.

    Stores through such a map would fault: its corners lie outside of the tensor (recorded on an H200).
    """
    height, width = layout.problem.out_extent
    element = layout.problem.out_dtype.bytes
    strides = itertools.accumulate((width, height), initial=layout.k_pitch * element, func=int.__mul__)
    axes = zip(AXES, (width, height, layout.problem.batch), strides, strict=True)
    sizes = {axis: (extent, stride) for axis, extent, stride in axes}
    return TensorMap(
        mode="im2col",
        buffer="residual",
        dtype=map_dtype(layout.output),
        dims=(layout.k_pitch, *(sizes[axis][0] for axis in box.axes)),
        strides=tuple(sizes[axis][1] for axis in box.axes),
        element_strides=(1, 1, 1, 1),
        lower=(0, 0),
        upper=box.upper,
        channels=tile.row_bytes // element,
        pixels=pixels,
        swizzle=SWIZZLE[tile.row_bytes],
    )


def result_map(layout: DeviceLayout, tile: SmemTile, rows: int) -> TensorMap:
    """The output as a matrix of pixels by channels; a box is the `rows` of a warp in a slab.

    Channels are those of the pitch: the padding behind them is written too, as it is without copies.
    """
    element = layout.problem.out_dtype.bytes
    return TensorMap(
        mode="tile",
        buffer="output",
        dtype=map_dtype(layout.output),
        dims=(layout.k_pitch, layout.problem.gemm_m),
        strides=(layout.k_pitch * element,),
        element_strides=(1, 1),
        box=(tile.row_bytes // element, rows),
        swizzle=SWIZZLE[tile.row_bytes],
    )
