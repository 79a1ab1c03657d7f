"""The tensor maps of a plan: how the copy engine sees activations and filter.

Activations (N, H, W, C) get an *im2col* map: the engine itself walks over output pixels, and a filter tap is an offset
added to every pixel it visits. The bounding box keeps the walk on the pixels that the first tap reads:
from -pad_lo to the last one that leaves room for the whole filter. The filter (K, R*S, C) gets a plain tile map.
Whatever a copy reads outside a tensor arrives as zero: padding, channels past C and filters past K cost no code.

Corner rule: CUDA driver API, ``cuTensorMapEncodeIm2col``, and PTX, "im2col mode".
"""

from __future__ import annotations

import itertools

import msgspec

from convc.compiler.plan.records import Loads, Reuse, Tiling
from convc.compiler.plan.scale_factors import factor_maps
from convc.host_layout.device_layout import BufferLayout, DeviceLayout
from convc.ir import dtypes
from convc.ir.tensormap import Swizzle, TensorMap

SWIZZLE: dict[int, Swizzle] = {32: "32B", 64: "64B", 128: "128B"}
"""By bytes of an operand row."""


def corners(layout: DeviceLayout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Lower and upper corner of the bounding box, H before W."""
    problem = layout.walked
    upper = (hi - (span - 1) for hi, span in zip(problem.pad_hi, problem.span, strict=True))
    return tuple(-lo for lo in problem.pad_lo), tuple(upper)


def dims_and_strides(buffer: BufferLayout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents of a buffer, innermost first, and the byte strides of all but the innermost."""
    dims = buffer.shape[::-1]
    strides = itertools.accumulate(dims[:-1], initial=dtypes.BY_NAME[buffer.dtype].bytes, func=int.__mul__)
    return dims, tuple(strides)[1:]


def activation_axes(layout: DeviceLayout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents of the activations, innermost first, and the byte strides of all but the innermost.

    Where rows overlap, a row is all that the columns of a filter row read, and rows begin `Overlap.step` pixels apart.
    """
    dims, strides = dims_and_strides(layout.activation)
    overlap = layout.overlap
    if overlap is None:
        return (layout.pixel_pitch, *dims[1:]), strides
    return (overlap.run, layout.problem.in_extent[1], *dims[2:]), (overlap.step * strides[0], *strides[1:])


def map_dtype(buffer: BufferLayout) -> str:
    """Element type of a buffer's map: of all types of 8 bits tensor maps know u8 alone (``CUtensorMapDataType``)."""
    return "u8" if dtypes.BY_NAME[buffer.dtype].bits == 8 else buffer.dtype


def im2col_map(
    layout: DeviceLayout, stride: tuple[int, ...], *, channels: int, pixels: int, row_bytes: int
) -> TensorMap:
    """The map of a walk over the activations (CUDA driver, ``cuTensorMapEncodeIm2col``).

    Args:
        stride: of the walk. channels, pixels: of a copy. row_bytes: of a tile, which its swizzle spans.
    """
    lower, upper = corners(layout)
    dims, strides = activation_axes(layout)
    return TensorMap(
        mode="im2col",
        buffer="activation",
        dtype=map_dtype(layout.activation),
        dims=dims,
        strides=strides,
        element_strides=(1, *reversed(stride), 1),
        lower=lower[::-1],
        upper=upper[::-1],
        channels=channels,
        pixels=pixels,
        swizzle=SWIZZLE[row_bytes],
    )


def loads_of(layout: DeviceLayout, tiling: Tiling) -> Loads:
    """The two maps for a tiling."""
    channels = tiling.row_bytes // dtypes.BY_NAME[layout.problem.operand].bytes
    a = im2col_map(layout, layout.problem.stride, channels=channels, pixels=tiling.a_piece, row_bytes=tiling.row_bytes)
    b = _filter_map(layout, tiling, channels)
    return Loads(a=a, b=b, factors=() if layout.blocks is None else factor_maps(layout, tiling, a, b))


def wide_loads_of(layout: DeviceLayout, tiling: Tiling, reuse: Reuse, haloed: bool) -> Loads:
    """The two maps of a schedule that walks along image rows (CUDA driver, ``cuTensorMapEncodeIm2colWide``).

    With merged rows the activations are (N*H, W, C): the walk goes on u_h rows further down.

    Args:
        haloed: whether every 32 pixels have a halo of their own (im2col::w::128).
    """
    channels = tiling.row_bytes // dtypes.BY_NAME[layout.problem.operand].bytes
    if reuse.stream.boxed:
        return _boxed_loads(layout, tiling, reuse, channels)
    dims, strides = activation_axes(layout)
    steps = (1, layout.problem.stride[1])
    if reuse.stream.merged:
        dims, strides = (*dims[:2], dims[2] * dims[3]), strides[:2]
        steps = (*steps, reuse.stream.step)
    else:
        steps = (*steps, 1, 1)
    a = TensorMap(
        mode="im2col_w128" if haloed else "im2col_w",
        buffer="activation",
        dtype=map_dtype(layout.activation),
        dims=dims,
        strides=strides,
        element_strides=steps,
        lower=(reuse.walk.lower,),
        upper=(reuse.walk.upper,),
        channels=channels,
        pixels=reuse.tile.lanes // reuse.tile.windows,
        swizzle=SWIZZLE[tiling.row_bytes],
    )
    return Loads(a=a, b=_filter_map(layout, tiling, channels))


def _boxed_loads(layout: DeviceLayout, tiling: Tiling, reuse: Reuse, channels: int) -> Loads:
    """The two maps where copies walk through the box of an im2col map: rows of the walk's length, halo included."""
    usual = loads_of(layout, tiling)
    a = msgspec.structs.replace(
        usual.a,
        lower=(reuse.walk.lower, *usual.a.lower[1:]),
        upper=(reuse.walk.upper, *usual.a.upper[1:]),
        pixels=reuse.tile.lanes + max(buffer.halo for buffer in reuse.walk.buffers),
    )
    return Loads(a=a, b=_filter_map(layout, tiling, channels))


def _filter_map(layout: DeviceLayout, tiling: Tiling, channels: int) -> TensorMap:
    """Filter rows (K, R*S, C): a box is one tap of the output channels of a tile that a CTA loads."""
    (_, *dims), strides = dims_and_strides(layout.filter)
    return TensorMap(
        mode="tile",
        buffer="filter",
        dtype=map_dtype(layout.filter),
        dims=(layout.c_pitch, *dims),
        strides=strides,
        element_strides=(1, 1, 1),
        box=(channels, 1, tiling.b_piece),
        swizzle=SWIZZLE[tiling.row_bytes],
    )
