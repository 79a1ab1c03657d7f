"""Filter columns folded into K: the few channels of neighbouring pixels become one run of K.

A step of the K loop takes one filter tap and whole 32 bytes of channels. Of an image with 3 channels most of them are
zeros. But pixels lie side by side, and the S pixels that a row of the filter reads are one run of memory: with C'
channels a pixel, element ``e = s*C' + c`` of the run that begins at pixel ``q*u`` is channel c of pixel ``q*u + s``.
So S columns become channels of one tap, and what is left is a convolution with R taps. There are two ways:

=======  ==================================================================================================
way      the activations
=======  ==================================================================================================
overlap  (N, H, W', C'), every pixel once. A row of the tensor map begins u pixels after the one before it and is S
         pixels long: rows overlap. C is filled up to C' so that u pixels are whole 16 bytes, the step of a tensor map
         (CUDA driver API, ``globalStrides``). The padding left and right is in the buffer, as nothing outside of it can
         lie in the middle of a row; above and below the copy engine adds it as ever.
host     (N, H, Q, S*C): the host writes every pixel once for each tap that reads it (`convc.host_layout.fold`).
=======  ==================================================================================================

That rows overlap is allowed and read right was recorded on an H200, see ``tests/recordings``.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from convc.derived.hosted import OWN
from convc.host_layout.block_scaled import FORMATS
from convc.host_layout.fold import AxisFold, choose_fold, fold_by
from convc.ir.arch import SM_100A
from convc.ir.columns import Columns
from convc.ir.problem import ConvProblem

UNIT_BYTES = SM_100A.limits.tma_unit_bytes


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the activations that overlap.

    Attributes:
        columns: pixels of a row, the columns of the filter (S).
        step: pixels from one row to the next, the stride along W.
        channels: elements of a pixel (C').
        left: pixels of padding in front of each image row.
        width: pixels of an image row in the buffer (W'), padding included.
    """

    columns: int
    step: int
    channels: int
    left: int
    width: int

    @property
    def run(self) -> int:
        """Elements of a row."""
        return self.columns * self.channels


def why_not_joined(base: ConvProblem, way: Columns) -> str | None:
    """Say why the filter columns of a problem cannot become channels in that way; None: they can."""
    if base.rank == 3:
        return "a volume is folded already"
    if base.groups > 1:
        return "the channels of groups are packed already"
    if base.operand in FORMATS:
        return "scale factors lie behind the channels of a pixel"
    if base.kernel[-1] == 1:
        return "the filter has one column"
    if choose_fold(base, base.rank - 1) is not None:
        return "the columns are folded already"
    if way == "overlap" and base.dilation[-1] > 1:
        return f"dilation {base.dilation[-1]} leaves out pixels, and those of a row lie side by side"
    if base.rank == 2 and choose_fold(base, 0) is not None:
        return "the rows are folded already"
    return None


def columns_fold(base: ConvProblem) -> AxisFold:
    """Fold the last axis so that every tap along it has channels of its own."""
    return fold_by(OWN, base, base.rank - 1)


def overlap_of(base: ConvProblem) -> Overlap:
    """The least channels and the shortest image rows that a tensor map can walk over."""
    step = base.stride[-1]
    element = base.operand_dtype.bytes
    unit = UNIT_BYTES // math.gcd(UNIT_BYTES, step * element)
    channels = -(-base.in_channels // unit) * unit
    columns = base.kernel[-1]
    read = (base.out_extent[-1] - 1) * step + columns
    whole = UNIT_BYTES // math.gcd(UNIT_BYTES, channels * element)
    return Overlap(
        columns=columns,
        step=step,
        channels=channels,
        left=base.pad_lo[-1],
        width=-(-read // whole) * whole,
    )


def overlapping_pixels(pixels: np.ndarray, overlap: Overlap) -> np.ndarray:
    """Pixels (..., W, C) as (..., W', C'): padding on both sides, zeros behind the channels."""
    placed = np.zeros((*pixels.shape[:-2], overlap.width, overlap.channels), pixels.dtype)
    read = pixels[..., : overlap.width - overlap.left, :]
    placed[..., overlap.left : overlap.left + read.shape[-2], : read.shape[-1]] = read
    return placed


def filled_taps(taps: np.ndarray, overlap: Overlap) -> np.ndarray:
    """Filters (..., C) as (..., C') with zeros behind the channels."""
    filled = np.zeros((*taps.shape[:-1], overlap.channels), taps.dtype)
    filled[..., : taps.shape[-1]] = taps
    return filled
