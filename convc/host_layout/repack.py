"""Host repacking: the arrays of a model become the arrays that a kernel reads, and its result the model's again.

The buffers, and why they look so: `convc.host_layout.device_layout`.
"""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np

from convc.errors import InputError
from convc.host_layout.block_scaled import bytes_of, filled_channels, filter_blocks, quantise, tensor_scale
from convc.host_layout.columns import filled_taps, overlapping_pixels
from convc.host_layout.device_layout import DeviceLayout, has_multipliers, output_channels
from convc.host_layout.expand import expand_activation, expand_filter
from convc.host_layout.fold import fold_pixels, fold_taps
from convc.host_layout.groups import GroupPacking, pack_channels, pack_taps
from convc.host_layout.summed import dy_as_it_lies, result_as_it_lies, result_of, x_as_it_lies
from convc.host_layout.transposed import (
    ordinary_bias,
    ordinary_filter,
    ordinary_input,
    ordinary_output,
    transposed_output,
)
from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.support.memory import require_memory


def pack_activation(layout: DeviceLayout, x: np.ndarray) -> np.ndarray:
    """Activations (N, C, H, W) of any real type, rounded to the operand type, as `DeviceLayout.activation`."""
    _expect_shape(layout, x, layout.model.x_shape, "x")
    tensor = None if layout.blocks is None else tensor_scale(layout.blocks, x)  # of the pixels that are cropped too
    x = x if layout.forward is None else ordinary_input(layout.forward, layout.model, x)
    if layout.summed:
        return _with_pitch(x_as_it_lies(_encoded(layout, x, "x")), layout.activation.shape)
    if layout.blocks is None:
        return _with_pitch(_pixels(layout, expand_activation(layout.ordinary, x)), layout.activation.shape)
    _require_blocks(layout, x, "x")
    elements, factors = bytes_of(layout.blocks, quantise(layout.blocks, x, layout.ordinary.groups, tensor))
    pixels = _pixels(layout, elements)
    behind = _pixels(layout, factors, layout.blocks.factor_bytes)
    return _with_factors(layout, pixels, behind, layout.activation.shape, layout.problem.groups)


def scaled_bias(layout: DeviceLayout, bias: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The buffer of `pack_bias` for these activations: where they have a scale as a whole, its multipliers have it."""
    blocks = layout.blocks
    if blocks is None or not blocks.tensor:
        return bias
    scaled = bias.copy()
    scaled[1] *= np.float32(tensor_scale(blocks, x))
    return scaled


def _pixels(layout: DeviceLayout, x: np.ndarray, step: int = 1) -> np.ndarray:
    """Channels last, folded and packed; `step` of the kernel's channels have one number of x."""
    pixels = _channels_last(layout, x, "x")
    if layout.overlap is not None:
        return overlapping_pixels(pixels, layout.overlap).reshape(layout.activation.shape)
    for axis, fold in reversed(tuple(enumerate(layout.folds))):
        if fold is not None:
            blocks = layout.base.out_extent[axis] + fold.blocks - 1
            pixels = fold_pixels(pixels, axis + 1, fold, layout.base.pad_lo[axis], blocks)
    pixels = pixels.reshape(*layout.activation.shape[:-1], -1)
    if layout.packing is None:
        return pixels
    return pack_channels(pixels, _fewer(layout.base, step), _packing_of(layout.packing, step))


def pack_filter(layout: DeviceLayout, w: np.ndarray) -> np.ndarray:
    """Filters (K, C, R, S) of any real type, rounded to the operand type, as `DeviceLayout.filter`."""
    _expect_shape(layout, w, layout.model.w_shape, "w")
    w = w if layout.forward is None else ordinary_filter(layout.forward, layout.model, w)
    if layout.summed:
        return _with_pitch(dy_as_it_lies(_encoded(layout, w, "w")), layout.filter.shape)
    if layout.blocks is None:
        return _with_pitch(_taps(layout, expand_filter(layout.ordinary, w)), layout.filter.shape)
    _require_blocks(layout, w, "w")
    elements, factors = bytes_of(layout.blocks, filter_blocks(layout.ordinary, w))
    taps = _taps(layout, elements)
    behind = _taps(layout, factors, layout.blocks.factor_bytes)
    return _with_factors(layout, taps, behind, layout.filter.shape, 1)


def _taps(layout: DeviceLayout, w: np.ndarray, step: int = 1) -> np.ndarray:
    """Channels last, folded and packed; `step` of the kernel's channels have one number of w."""
    taps = _channels_last(layout, w, "w")
    if layout.overlap is not None:
        taps = filled_taps(taps, layout.overlap)
    for axis, fold in reversed(tuple(enumerate(layout.folds))):
        if fold is not None:
            taps = fold_taps(taps, axis + 1, fold)
    taps = taps.reshape(len(taps), -1, taps.shape[-1])
    if layout.packing is None:
        return taps
    return pack_taps(taps, layout.ordinary.groups, _packing_of(layout.packing, step))


def pack_weights(
    layout: DeviceLayout, w: np.ndarray | None, bias: np.ndarray | None, multiplier: np.ndarray | None = None
) -> tuple[np.ndarray | None, np.ndarray]:
    """`pack_filter` and `pack_bias`, whose multipliers are the scale of the filters as a whole where they have one.

    Filters that are not known yet (None) stay so.
    """
    if w is None:
        return None, pack_bias(layout, bias, multiplier)
    blocks = layout.blocks
    if blocks is not None and blocks.tensor:
        multiplier = np.full(layout.model.out_channels, tensor_scale(blocks, w))
    return pack_filter(layout, w), pack_bias(layout, bias, multiplier)


def pack_bias(layout: DeviceLayout, bias: np.ndarray | None, multiplier: np.ndarray | None = None) -> np.ndarray:
    """Bias (K,) of any real type or None, rounded to the type of the sums, as `DeviceLayout.bias`.

    Args:
        multiplier: (K,) of a problem whose sums are scaled, rounded to float32.
    """
    channels = layout.model.out_channels
    sums = layout.problem.sum_dtype
    packed = np.zeros(layout.bias.shape, sums.storage)
    rows = packed.reshape(-1, layout.bias.shape[-1])
    if bias is not None:
        _expect_shape(layout, bias, (channels,), "bias")
        bias = bias if layout.forward is None else ordinary_bias(layout.forward, layout.model, bias)
        rows[0, output_channels(layout)] = dtypes.encode(sums, bias)
    scaled = has_multipliers(layout.problem)
    if (multiplier is not None) != scaled:
        needs = "needs a multiplier per channel" if scaled else "takes no multipliers"
        raise InputError(f"a convolution of {layout.model.types} {needs}", where=f"convolution {layout.model.name!r}")
    if multiplier is not None:
        _expect_shape(layout, multiplier, (channels,), "multiplier")
        multiplier = multiplier if layout.forward is None else ordinary_bias(layout.forward, layout.model, multiplier)
        rows[1, output_channels(layout)] = dtypes.encode(dtypes.F32, multiplier).view(sums.storage)
    return packed


def pack_residual(layout: DeviceLayout, residual: np.ndarray) -> np.ndarray:
    """Residual (N, K, P, Q) of any real type, rounded to the output type, as `DeviceLayout.residual`."""
    _expect_shape(layout, residual, layout.model.y_shape, "the residual")
    rounded = dtypes.encode(layout.problem.out_dtype, residual)
    rounded = rounded if layout.forward is None else ordinary_output(layout.forward, layout.model, rounded)
    packed = np.zeros(layout.output.shape, rounded.dtype)
    if layout.summed:
        packed[..., : layout.model.batch, : layout.model.out_channels] = result_as_it_lies(rounded)
        return packed
    packed[..., output_channels(layout)] = np.moveaxis(rounded, 1, -1).reshape(*layout.output.shape[:-1], -1)
    return packed


def unpack_output(layout: DeviceLayout, y: np.ndarray) -> np.ndarray:
    """What the kernel wrote (`DeviceLayout.output`) as contiguous (N, K, P, Q) of the same element type."""
    _expect_shape(layout, y, layout.output.shape, "the output buffer")
    if layout.summed:
        return result_of(y, layout.model)
    pixels = y[..., output_channels(layout)].reshape(layout.model.batch, *layout.ordinary.out_extent, -1)
    found = np.ascontiguousarray(np.moveaxis(pixels, -1, 1))
    return found if layout.forward is None else transposed_output(layout.forward, layout.model, found)


def _channels_last(layout: DeviceLayout, array: np.ndarray, what: str) -> np.ndarray:
    """Round to the operand type, and view with dimension 1 (channels) last."""
    return np.moveaxis(_encoded(layout, array, what), 1, -1)


def _encoded(layout: DeviceLayout, array: np.ndarray, what: str) -> np.ndarray:
    """Round to the operand type."""
    buffer = layout.activation if what == "x" else layout.filter
    require_memory(buffer.size_bytes, f"repacking {what} of {layout.model.name!r}")
    return dtypes.encode(dtypes.BY_NAME[buffer.dtype], array)


def _require_blocks(layout: DeviceLayout, array: np.ndarray, what: str) -> None:
    """Raise `LimitError` where memory is short: quantising takes about six float64 arrays of the filled-up tensor."""
    filled = filled_channels(layout.ordinary.in_channels, layout.ordinary.groups) / layout.ordinary.in_channels
    require_memory(int(6 * 8 * array.size * filled), f"quantising {what} of {layout.model.name!r}")


def _with_pitch(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Contiguous copy whose last dimension is widened with zeros."""
    packed = np.zeros(shape, array.dtype)
    packed[..., : array.shape[-1]] = array
    return packed


def _with_factors(
    layout: DeviceLayout, elements: np.ndarray, factors: np.ndarray, shape: tuple[int, ...], groups: int
) -> np.ndarray:
    """Bytes of the elements of some groups, and behind them their factors, each group's from a multiple of 16 on."""
    packed = _with_pitch(elements, shape)
    behind = packed[..., groups * layout.c_pitch :].reshape(*shape[:-1], groups, layout.factor_pitch)
    factors = factors.reshape(*shape[:-1], groups, -1)
    behind[..., : factors.shape[-1]] = factors
    packed[..., groups * layout.c_pitch :] = behind.reshape(*shape[:-1], -1)
    return packed


def _fewer(problem: ConvProblem, step: int) -> ConvProblem:
    """The problem with one channel for each `step`."""
    return dataclasses.replace(problem, in_channels=problem.in_channels // step)


def _packing_of(packing: GroupPacking, step: int) -> GroupPacking:
    """The packing with one channel for each `step`."""
    return msgspec.structs.replace(packing, c_per_pack=packing.c_per_pack // step)


def _expect_shape(layout: DeviceLayout, array: np.ndarray, shape: tuple[int, ...], what: str) -> None:
    if array.shape != shape:
        raise InputError(
            f"{what} must have shape {shape}, got {array.shape}", where=f"convolution {layout.model.name!r}"
        )
