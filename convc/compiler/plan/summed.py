"""Kernels that sum over pixels (`convc.host_layout.summed`): their index maps, their tensor maps, their meaning.

Both operands come a row a pixel, in spans of as many channels as a swizzled row holds. Rows of the product are channels
of x by columns of the filter, a span of one column each; its columns are output channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from convc.compiler.index.formulas import Instance
from convc.compiler.index.maps import Axis
from convc.compiler.plan.loads import SWIZZLE, dims_and_strides, im2col_map, map_dtype
from convc.compiler.plan.meanings import BLOCK, COLUMN, LANE, TILE_M, TILE_N, Meaning
from convc.compiler.plan.records import Indexing, Loads, Pipeline, Tiling
from convc.derived.numbers import problem_sizes
from convc.host_layout.device_layout import DeviceLayout
from convc.host_layout.summed import span_of
from convc.ir.expr import Var
from convc.ir.tensormap import TensorMap

FORM = "pixels summed"
"""The form of the derivation (`convc.derive.forms`)."""

READ = ("row", "start", "walk", "pixel", "span", "first_k", "span_at", "column", "store")
"""All maps in reading order."""

SPANS = "row i of span `window` of a tile is channel SPAN*span + i of filter row r and column s"
WALK = "the im2col walk from start(block) is at the window of pixel (block, e)"
MET = "window + (off_w, off_h) of a span is the pixel that its weights meet"
ROWS = "row m of the result is row m % SPAN of span m // SPAN"
PIXELS = "row e of the tile of y_grad is output pixel BK*block + e"
COLUMNS = "column `window*SPAN + i` of the tile of y_grad is output channel k"
STORE = "an element (m, k) of the gradient has a place of its own"
"""Names of theorems, as `convc.derive` gives them."""

WINDOW = Var("window")
"""The number of a span in a tile."""


def spans(layout: DeviceLayout, extent: int) -> int:
    """Spans that so many rows or columns of a tile take."""
    return -(-extent // span_of(layout.problem))


def summed_maps(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline, tiles: tuple[int, int]) -> Instance:
    """Give the derivation with the numbers of a tiling; nothing is proved yet."""
    forward = layout.walked
    span = span_of(layout.problem)
    sizes = problem_sizes(forward) | {
        "BM": tiling.block_m,
        "BN": tiling.block_n,
        "BK": pipeline.channels,
        "BLOCKS": pipeline.blocks,
        "TILES_M": tiles[0],
        "TILES_N": tiles[1],
        "GROUP_TILES": tiles[1],
        "C_PITCH": layout.c_pitch,
        "K_PITCH": layout.k_pitch,
        "SPAN": span,
        "SPANS_C": spans(layout, forward.in_channels),
        "SPANS_M": spans(layout, tiling.block_m),
        "SPANS_N": spans(layout, tiling.block_n),
        "ROW_BYTES": tiling.row_bytes,
    }
    extents = {
        "tile_m": tiles[0],
        "tile_n": tiles[1],
        "block": pipeline.blocks,
        "lane": tiling.block_m,
        "column": tiling.block_n,
        "e": pipeline.channels,
        "window": max(sizes["SPANS_M"], sizes["SPANS_N"]),
        "image": forward.batch,
        "y": sizes["P"],
        "x": sizes["Q"],
    }
    return Instance(FORM, sizes, {name: Axis(name, extent) for name, extent in extents.items()})


def summed_sizes(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline, tiles: tuple[int, int]) -> dict[str, int]:
    """The numbers of sizes once more, in those of the gradient (`convc.compiler.plan.meanings.sizes_meant`)."""
    gradient = layout.model
    span = tiling.row_bytes // gradient.operand_dtype.bytes
    pixels = gradient.in_channels * gradient.kernel[0] * gradient.kernel[1]
    names = ("H", "W", "P", "Q", "R", "S")
    extents = (*gradient.in_extent, *gradient.kernel, *gradient.out_extent)
    sizes = dict(zip(names, extents, strict=True))
    sizes |= {"N": gradient.in_channels, "C": gradient.batch, "K": gradient.out_channels, "K_g": gradient.out_channels}
    sizes |= {"u_h": gradient.dilation[0], "d_h": gradient.stride[0], "pad_h": gradient.pad_lo[0]}
    common = math.gcd(gradient.dilation[1], gradient.stride[1])
    sizes |= {"g": common, "u": gradient.dilation[1] // common, "d": gradient.stride[1] // common}
    sizes |= {"pad_w": gradient.pad_lo[1], "BM": tiling.block_m, "BN": tiling.block_n, "BK": pipeline.channels}
    sizes |= {"BLOCKS": -(-pixels // pipeline.channels), "TILES_M": tiles[0], "TILES_N": tiles[1]}
    sizes |= {"GROUP_TILES": tiles[1], "C_PITCH": layout.activation.shape[3], "K_PITCH": layout.output.shape[3]}
    sizes |= {"SPAN": span, "SPANS_C": -(-gradient.batch // span), "SPANS_M": tiling.block_m // span}
    return sizes | {"SPANS_N": -(-tiling.block_n // span), "ROW_BYTES": tiling.row_bytes}


def summed_loads(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline) -> Loads:
    """The maps: an im2col walk over x, a box of rows of dy; the pixels of a step, the channels of a span."""
    kept, steps = dims_and_strides(layout.filter)
    span = span_of(layout.problem)
    stride = layout.walked.stride
    a = im2col_map(layout, stride, channels=span, pixels=pipeline.channels, row_bytes=tiling.row_bytes)
    b = TensorMap(
        mode="tile",
        buffer="filter",
        dtype=map_dtype(layout.filter),
        dims=kept,
        strides=steps,
        element_strides=(1, 1),
        box=(span, pipeline.channels),
        swizzle=SWIZZLE[tiling.row_bytes],
    )
    return Loads(a=a, b=b)


def summed_meanings(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline) -> Iterator[Meaning]:
    """Say what the numbers mean, in those of the gradient: its taps are output pixels, outputs columns of a filter."""
    gradient = layout.model
    height, width = gradient.kernel
    down, across = gradient.dilation
    top, left = gradient.pad_lo
    span = tiling.row_bytes // gradient.operand_dtype.bytes
    pixel = BLOCK * pipeline.channels
    number = TILE_M * (tiling.block_m // span) + WINDOW
    each = -(-gradient.batch // span)
    column = number // each
    row = TILE_M * tiling.block_m + LANE
    channel = TILE_N * tiling.block_n + COLUMN
    yield Meaning(name="start_w", theorem=WALK, value=pixel % width * across - left)
    yield Meaning(name="start_h", theorem=WALK, value=pixel // width % height * down - top)
    yield Meaning(name="start_n", theorem=WALK, value=pixel // (width * height))
    yield Meaning(name="pixel", theorem=PIXELS, value=pixel)
    yield Meaning(name="off_w", theorem=MET, value=column % gradient.out_extent[1] * gradient.stride[1])
    yield Meaning(name="off_h", theorem=MET, value=column // gradient.out_extent[1] * gradient.stride[0])
    yield Meaning(name="c", theorem=SPANS, value=number % each * span)
    yield Meaning(name="first_k", theorem=COLUMNS, value=TILE_N * tiling.block_n + WINDOW * span)
    yield Meaning(name="k", theorem=COLUMNS, value=channel)
    yield Meaning(name="m", theorem=ROWS, value=row)
    yield Meaning(name="out_byte", theorem=STORE, value=(row * layout.k_pitch + channel) * gradient.out_dtype.bytes)


def summed_counts(
    layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline, grid: tuple[int, int], indexing: Indexing
) -> Iterator[tuple[str, int, int]]:
    """Trip counts, tiles, limits and corners, each with what it has to be (`convc.compiler.plan.validation.counts`)."""
    gradient = layout.model
    span = tiling.row_bytes // gradient.operand_dtype.bytes
    pixels = gradient.in_channels * gradient.kernel[0] * gradient.kernel[1]
    weights = gradient.out_extent[0] * gradient.out_extent[1] * -(-gradient.batch // span) * span
    yield "trip count of the loop over blocks of pixels", pipeline.blocks, -(-pixels // pipeline.channels)
    yield "tiles of output channels", grid[1], -(-gradient.out_channels // tiling.block_n)
    yield "end of the output channels", indexing.channel_limit or layout.k_pitch, layout.k_pitch
    if indexing.channel_limit is None:
        yield "whether all tiles are full of output channels", int(grid[1] * tiling.block_n <= layout.k_pitch), 1
    reach = grid[0] * tiling.block_m
    yield "weights that tiles reach", min(reach, weights), weights
    yield "end of the weights", indexing.row_limit or reach, weights
    a = indexing.loads.a
    for axis, name in enumerate("WH"):
        at = 1 - axis
        stride = a.element_strides[1 + axis]
        yield f"stride along {name} of the box of activations", stride, gradient.dilation[at]
        yield f"lower corner along {name} of the box of activations", a.lower[axis], -gradient.pad_lo[at]
        positions = (a.dims[1 + axis] + a.upper[axis] - a.lower[axis] - 1) // stride + 1
        yield f"positions along {name} of the box of activations", positions, gradient.kernel[at]
