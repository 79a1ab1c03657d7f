"""Folding: an axis that tensor maps cannot express becomes channels, and rows and volumes become images.

**Folding an axis.** The CUDA driver API (``cuTensorMapEncodeIm2col``) limits ``elementStrides`` to 1..8 and, for two
spatial axes, the corners of the bounding box to -128..127; the instruction limits im2col offsets (tap times dilation)
to 0..255 (PTX manual, ``cp.async.bulk.tensor``). An axis beyond these limits is folded on the host. Output p and tap
r read the padded coordinate ``p*u + t`` with ``t = r*d``. Cut the padded axis into blocks of u pixels: the pixel read
is in block ``p + t // u`` at place ``t % u``. Turn the places that occur into channels and the blocks into pixels;
what is left is a convolution with stride 1, dilation 1, no padding, and a kernel of ``max(t) // u + 1`` blocks
("space to depth"). If that kernel is too long as well, every tap gets channels of its own and the kernel is 1 (all t
are places, block p alone): this always fits, and stores a pixel once for each tap.

**Images.** The kernel runs over images (H, W). A row (W) is an image of one line. A volume (D, H, W) is folded
along D, every tap of its own, and what is left are N*D' images, one for each output plane.

With both axes folded, channels are ordered (place along H, place along W, C).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np

from convc.derived.hosted import FOLDED, LINES, OWN, PLANES, axis_sizes, hosted
from convc.ir.arch import SM_100A
from convc.ir.problem import ConvProblem

LIMITS = SM_100A.limits
_AXIS_FIELDS = ("in_extent", "kernel", "stride", "dilation", "pad_lo", "pad_hi")


class AxisFold(msgspec.Struct, frozen=True, kw_only=True):
    """How one spatial axis is folded.

    Attributes:
        step: model pixels per device pixel.
        places: offsets into the padded axis, counted from the first pixel of a block, that become channels.
        taps: for each tap of the model's filter: (block, index into ``places``).
    """

    step: int
    places: tuple[int, ...]
    taps: tuple[tuple[int, int], ...]

    @property
    def blocks(self) -> int:
        """Extent of the device filter along this axis."""
        return 1 + max(block for block, _ in self.taps)


def images(problem: ConvProblem) -> ConvProblem:
    """The same convolution over images: a row is an image of one line, and planes of a folded volume are images."""
    if problem.rank == 2:
        return problem
    if problem.rank == 3:
        planes = {name: getattr(problem, name)[1:] for name in _AXIS_FIELDS}
        depth = problem.in_extent[0]
        return dataclasses.replace(
            problem, batch=image_of(depth, problem.batch - 1, depth - 1) + 1, output_padding=(), **planes
        )
    line = hosted(LINES, "line", {})
    lines = {name: (line[name], *getattr(problem, name)) for name in _AXIS_FIELDS}
    return dataclasses.replace(problem, output_padding=(), **lines)


def choose_fold(problem: ConvProblem, axis: int) -> AxisFold | None:
    """How to bring an axis within the limits of tensor maps; None when it is within them already."""
    stride = problem.stride[axis]
    reach = problem.span[axis] - 1
    if problem.rank == 3 and axis == 0:
        return fold_by(OWN, problem, axis)
    if stride <= LIMITS.tma_element_stride and _encodable(problem.pad_lo[axis], problem.pad_hi[axis], reach):
        return None
    short = stride > LIMITS.tma_element_stride and _encodable(0, 0, reach // stride)
    return fold_by(FOLDED if short else OWN, problem, axis)


def fold_by(fact: str, problem: ConvProblem, axis: int) -> AxisFold:
    """Fold an axis as a fact says (`convc.derive.hosted`): into blocks, or with channels for every tap."""
    sizes = axis_sizes(problem, axis)
    read = [hosted(fact, "tap", {**sizes, "s": tap}) for tap in range(problem.kernel[axis])]
    places = sorted({one["place"] for one in read})
    taps = tuple((one["block"], places.index(one["place"])) for one in read)
    return AxisFold(step=problem.stride[axis], places=tuple(places), taps=taps)


def fold_problem(problem: ConvProblem, folds: tuple[AxisFold | None, ...]) -> ConvProblem:
    """The convolution that is left when the axes are folded."""
    fields = {name: list(getattr(problem, name)) for name in _AXIS_FIELDS}
    channels = problem.in_channels
    for axis, fold in enumerate(folds):
        if fold is not None:
            extent = problem.out_extent[axis] + fold.blocks - 1
            for name, value in zip(_AXIS_FIELDS, (extent, fold.blocks, 1, 1, 0, 0), strict=True):
                fields[name][axis] = value
            channels *= len(fold.places)
    changes = {name: tuple(values) for name, values in fields.items()}
    return dataclasses.replace(problem, in_channels=channels, **changes)


def pixel_of(fold: AxisFold, pad_lo: int, block: Any, place: Any) -> Any:
    """The pixel of the input at a place of a block; below 0 and behind the input it is padding."""
    return hosted(FOLDED, "pixel", {"U": fold.step, "PAD": pad_lo, "block": block, "place": place})["pixel"]


def image_of(depth: int, n: Any, plane: Any) -> Any:
    """The image that a plane of a volume is, of so many planes each."""
    return hosted(PLANES, "image", {"P": depth, "n": n, "y": plane})["image"]


def fold_pixels(pixels: np.ndarray, dim: int, fold: AxisFold, pad_lo: int, blocks: int) -> np.ndarray:
    """Fold dimension ``dim`` of activations (N, *spatial, C): it becomes ``blocks``, C becomes places x C."""
    lines = np.moveaxis(pixels, dim, 0)
    folded = np.zeros((blocks, len(fold.places), *lines.shape[1:]), pixels.dtype)
    for index, place in enumerate(fold.places):
        first, second = (pixel_of(fold, pad_lo, block, place) for block in (0, 1))
        step = second - first
        skip = min(blocks, max(0, -(first // step)))  # blocks whose pixel lies before the input
        source = lines[first + skip * step :: step][: blocks - skip]
        folded[skip : skip + len(source), index] = source
    return _places_to_channels(folded, dim)


def fold_taps(taps: np.ndarray, dim: int, fold: AxisFold) -> np.ndarray:
    """Fold dimension ``dim`` of filters (K, *kernel, C): it becomes blocks, C becomes places x C.

    A place of a block that no tap reads stays zero.
    """
    lines = np.moveaxis(taps, dim, 0)
    folded = np.zeros((fold.blocks, len(fold.places), *lines.shape[1:]), taps.dtype)
    for line, (block, place) in zip(lines, fold.taps, strict=True):
        folded[block, place] = line
    return _places_to_channels(folded, dim)


def _encodable(pad_lo: int, pad_hi: int, reach: int) -> bool:
    """Whether im2col can express an axis: corners -pad_lo and pad_hi - reach, largest offset ``reach``."""
    lowest, highest = LIMITS.im2col_corner
    corners = (-pad_lo, pad_hi - reach)
    return all(lowest <= corner <= highest for corner in corners) and reach <= LIMITS.im2col_offset


def _places_to_channels(folded: np.ndarray, dim: int) -> np.ndarray:
    """(blocks, places, ..., C) to (..., blocks at ``dim``, ..., places * C)."""
    array = np.moveaxis(folded, (0, 1), (dim, -2))
    return array.reshape(*array.shape[:-2], -1)
