"""The tilings worth looking at.

The height of a tile is given by the tensor core: 128 rows, one per lane of tensor memory, or 64 for each group of
warps that multiplies. Its width is free in steps
of 16 columns up to 256: wide tiles reuse each activation more often, narrow ones give more CTAs. Rows of operand tiles
are as long as one pixel's channels allow, up to 128 bytes, since TMA is slower with shorter ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from convc.compiler.plan.records import Pipeline, Tiling
from convc.compiler.plan.tiling import Depths
from convc.host_layout.device_layout import DeviceLayout
from convc.host_layout.summed import span_of
from convc.ir.arch import SM_100A

WIDTHS = (16, 32, 48, 64, 96, 128, 160, 192, 224, 256)
SPANS = SM_100A.limits.swizzle_spans
"""Row lengths in bytes that TMA and the tensor core can both swizzle."""
MAX_STAGES = 8


def row_bytes(layout: DeviceLayout, spans: Sequence[int] = SPANS) -> int:
    """The smallest swizzle span that holds all channels of a pixel, or else the longest."""
    return next((span for span in spans if span >= pixel_bytes(layout)), spans[-1])


def pixel_bytes(layout: DeviceLayout) -> int:
    """Bytes of all channels of a pixel."""
    return layout.c_pitch * layout.problem.operand_dtype.bytes


def image_axes(values: tuple[int, ...]) -> tuple[int, int]:
    """The values along H and W of what has two spatial axes, as every problem that a kernel runs."""
    height, width = values
    return height, width


def pipeline_of(layout: DeviceLayout, tiling: Tiling, atom_bytes: int) -> Pipeline:
    """The K loop of a tiling."""
    if layout.summed:
        return _summed_pipeline(layout, atom_bytes)
    channels = tiling.row_bytes // layout.problem.operand_dtype.bytes
    return Pipeline(
        taps=image_axes(layout.problem.kernel),
        blocks=-(-layout.c_pitch // channels),
        channels=channels,
        atoms=atoms_of(layout, tiling, atom_bytes),
    )


def _summed_pipeline(layout: DeviceLayout, atom_bytes: int) -> Pipeline:
    """The K loop over blocks of as many pixels as a span has channels."""
    pixels = layout.walked.gemm_m
    each = span_of(layout.problem)
    atom = atom_bytes // layout.problem.operand_dtype.bytes
    return Pipeline(taps=(1, 1), blocks=-(-pixels // each), channels=each, atoms=-(-min(each, pixels) // atom))


def atoms_of(layout: DeviceLayout, tiling: Tiling, atom_bytes: int) -> int:
    """MMAs along an operand row: where a row is longer than a pixel, its end is fill, which is not multiplied."""
    return -(-min(tiling.row_bytes, pixel_bytes(layout)) // atom_bytes)


def tilings(
    layout: DeviceLayout, rows: int, *, least: int = WIDTHS[0], block_n: int | None = None, stages: int | None = None
) -> Iterator[Depths]:
    """Candidates of so many rows by their width, from `least` to wide; `block_n` and `stages` fix a choice."""
    span = row_bytes(layout)
    deep = tuple((0, depth) for depth in depths(layout, span, stages))
    for width in widths(layout, block_n, least):
        yield Depths(first=Tiling(block_m=rows, block_n=width, row_bytes=span, b_stages=deep[0][1]), stages=deep)


def widths(layout: DeviceLayout, block_n: int | None, least: int = WIDTHS[0]) -> tuple[int, ...]:
    """The width that is fixed, or all up to the first that covers all output channels; with groups, divisors of one.

    ``least``: columns of the narrowest tile that can be stored (`convc.compiler.plan.work.stored_columns`).
    """
    if block_n is not None:
        return (block_n,)
    if layout.problem.groups > 1:
        own = layout.problem.out_channels // layout.problem.groups
        return tuple(width for width in WIDTHS if own % width == 0)
    enough = next((width for width in WIDTHS if width >= max(layout.problem.out_channels, least)), WIDTHS[-1])
    return tuple(width for width in WIDTHS if width <= enough)


def depths(layout: DeviceLayout, span: int, stages: int | None) -> Sequence[int]:
    """The stages that are fixed, or all up to the steps of the K loop with rows of `span` bytes."""
    if stages is not None:
        return (stages,)
    if layout.summed:
        return range(1, min(MAX_STAGES, -(-layout.walked.gemm_m // span_of(layout.problem))) + 1)
    return range(1, min(MAX_STAGES, math.prod(layout.problem.kernel) * -(-pixel_bytes(layout) // span)) + 1)
