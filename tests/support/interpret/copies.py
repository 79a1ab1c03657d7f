"""The pixels that tensor copies bring, one by one (PTX manual, tensor tile, im2col and im2col::w modes)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from support.interpret.state import Array, CtaState

from convc.compiler.plan.names import MapName
from convc.errors import TileError
from convc.ir import dtypes
from convc.ir.tensormap import TensorMap, check

Rows = NDArray[np.float32]
"""(pixels, channels), or (outer positions, inner extent)."""


def tensor_of(cta: CtaState, name: MapName) -> Array:
    """The tensor that a map lies over, its elements as numbers; outermost dimension first.

    It follows the strides of the map: rows may overlap. One array serves all copies: nobody writes to what is copied.

    Raises:
        LaunchError: the map leaves its buffer.
    """
    known = cta.tensors.get(name)
    if known is None:
        known = cta.tensors[name] = _tensor(cta, cta.map_of(name))
    return known


def _tensor(cta: CtaState, source: TensorMap) -> Array:
    spec = cta.program.launch.buffers[source.buffer]
    check(source, spec.size_bytes, source.buffer)
    numbers = np.ravel(dtypes.widen(dtypes.BY_NAME[spec.dtype], cta.buffers[source.buffer]))
    element = source.element_bytes
    strides = (element, *source.strides)[::-1]
    return np.lib.stride_tricks.as_strided(
        numbers[source.offset // element :],
        source.dims[::-1],
        tuple(stride // element * numbers.itemsize for stride in strides),
        writeable=False,
    )


def box(source: TensorMap, tensor: Array, coords: Sequence[int]) -> Rows:
    """Rows of a tile copy."""
    axes = [start + np.arange(extent) for start, extent in zip(coords, source.box, strict=True)]
    return _gathered(tensor, np.ix_(*axes[::-1])).reshape(-1, source.box[0])


def im2col(source: TensorMap, tensor: Array, coords: Sequence[int], offsets: Sequence[int]) -> Rows:
    """Rows of an im2col copy: the walk inside the bounding box, moved by the offsets.

    Raises:
        TileError: it starts outside of the box, or between the pixels of its grid.
    """
    first_channel, w, h, n = coords
    ends = [size + upper for size, upper in zip(source.dims[1:3], source.upper, strict=True)]
    steps = source.element_strides[1:3]
    for value, low, end, step in zip((w, h), source.lower, ends, steps, strict=True):
        if not low <= value < end:
            raise TileError(f"the copy starts at {value}, outside of the box {low}..{end - 1}")
        if (value - low) % step:
            raise TileError(f"the copy starts at {value}, off the grid of step {step}")
    columns, rows = ((end - low + step - 1) // step for low, end, step in zip(source.lower, ends, steps, strict=True))
    number = (n * rows + (h - source.lower[1]) // steps[1]) * columns + (w - source.lower[0]) // steps[0]
    number = number + np.arange(source.pixels)
    at_w = source.lower[0] + number % columns * steps[0] + offsets[0]
    at_h = source.lower[1] + number // columns % rows * steps[1] + offsets[1]
    at_n = number // (columns * rows)
    at_c = first_channel + np.arange(source.channels)
    return _gathered(tensor, (at_n[:, None], at_h[:, None], at_w[:, None], at_c[None, :]))


def im2col_wide(source: TensorMap, tensor: Array, coords: Sequence[int], *, halo: int, offset: int) -> Rows:
    """Rows of an im2col::w or ::w::128 copy, those of the halo behind the pixels.

    Raises:
        TileError: it starts behind the box.
    """
    channel, w, *fixed, n = coords
    low = source.lower[0]
    end = source.dims[1] + source.upper[0]
    step = source.element_strides[1]
    if w >= end:
        raise TileError(f"the copy starts at {w}, behind the end {end} of the box")
    haloed = source.mode == "im2col_w128"
    count = 128 if haloed else source.pixels
    walked: list[tuple[int, int]] = []
    for _ in range(count + halo):
        walked.append((w + offset, n))
        w += step
        if w >= end:
            w, n = low, n + source.element_strides[-1]
    if haloed:
        extra = [walked[32 * (group + 1) + h] for h in range(halo) for group in range(4)]
        walked = walked[:count] + extra
    at_w, at_n = np.array(walked).T
    indices = [at_n[:, None], *(np.array([[place]]) for place in reversed(fixed)), at_w[:, None]]
    indices.append(channel + np.arange(source.channels)[None, :])
    return _gathered(tensor, indices)


def _gathered(tensor: Array, indices: Sequence[NDArray[np.int64]]) -> Rows:
    """Elements of a tensor at indices that broadcast together, zero where one is outside."""
    inside = np.True_
    clipped: list[NDArray[np.int64]] = []
    for index, extent in zip(indices, tensor.shape, strict=True):
        own = np.minimum(np.maximum(index, 0), extent - 1)
        inside = inside & (own == index)
        clipped.append(own)
    return np.where(inside, tensor[tuple(clipped)], np.float32(0)).astype(np.float32, copy=False)
