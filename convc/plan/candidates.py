"""The tilings worth looking at.

The height of a tile is given by the tensor core: 128 rows, one per lane of tensor memory. Its width is free in steps
of 16 columns up to 256: wide tiles reuse each activation more often, narrow ones give more CTAs. Rows of operand tiles
are as long as one pixel's channels allow, up to 128 bytes, since TMA is slower with shorter ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from convc import dtypes
from convc.packing import DeviceForm
from convc.plan.records import Pipeline, Tiling

BLOCK_M = 128
WIDTHS = (16, 32, 48, 64, 96, 128, 160, 192, 224, 256)
SPANS = (32, 64, 128)
"""Row lengths in bytes that TMA and the tensor core can both swizzle."""
MAX_STAGES = 8


def row_bytes(form: DeviceForm) -> int:
    """The smallest swizzle span that holds all channels of a pixel, or else the longest."""
    return next((span for span in SPANS if span >= pixel_bytes(form)), SPANS[-1])


def pixel_bytes(form: DeviceForm) -> int:
    """Bytes of all channels of a pixel."""
    return form.c_pitch * dtypes.BY_NAME[form.problem.operand].bytes


def pipeline_of(form: DeviceForm, tiling: Tiling, atom_bytes: int) -> Pipeline:
    """The K loop of a tiling."""
    channels = tiling.row_bytes // dtypes.BY_NAME[form.problem.operand].bytes
    return Pipeline(
        taps=form.problem.kernel,
        blocks=-(-form.c_pitch // channels),
        channels=channels,
        atoms=tiling.row_bytes // atom_bytes,
    )


def tilings(form: DeviceForm, *, block_n: int | None = None, stages: int | None = None) -> Iterator[Tiling]:
    """Candidates, narrow before wide and shallow before deep; `block_n` and `stages` fix a choice.

    Widths stop at the first one that covers all output channels, and stages at the steps of the K loop.
    """
    span = row_bytes(form)
    steps = math.prod(form.problem.kernel) * -(-pixel_bytes(form) // span)
    enough = next((width for width in WIDTHS if width >= form.problem.out_channels), WIDTHS[-1])
    for width in (block_n,) if block_n is not None else (width for width in WIDTHS if width <= enough):
        for depth in (stages,) if stages is not None else range(1, min(MAX_STAGES, steps) + 1):
            yield Tiling(block_m=BLOCK_M, block_n=width, row_bytes=span, stages=depth)
