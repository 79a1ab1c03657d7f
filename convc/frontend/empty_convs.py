"""Convolutions that multiply nothing: an extent of the activations, or a number of channels, is 0.

What they give follows from the definition alone. A batch of no images, or no output channels, gives an empty tensor; a
sum over no channels, or over pixels that are all padding, is the bias. No kernel is needed, and none is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from convc.errors import NodeError
from convc.frontend.conv_node import Refuse, conv_attributes, numbers_of, read_axes
from convc.frontend.expand_gradients import gradient_of
from convc.frontend.zero_points import multiplier_of
from convc.support.memory import require_memory

Arrays = Sequence[np.ndarray | None]


def empty_result(node: NodeProto, name: str, arrays: Arrays) -> np.ndarray | None:
    """The result of a convolution that multiplies nothing; None where it multiplies something.

    Args:
        node: one of `convc.ir.network.CONVOLUTIONS`.
        name: for messages.
        arrays: one for each input of the node, None for one that is left out.

    Raises:
        NodeError: its numbers contradict one another.
    """
    if gradient_of(node) is not None:
        return _empty_gradient(arrays)
    x = arrays[0]
    scaled = node.op_type == "QLinearConv"
    w = arrays[3 if scaled else 1] if len(arrays) > (3 if scaled else 1) else None
    if x is None or w is None or (0 not in x.shape and 0 not in w.shape[:2]):
        return None

    refuse = _refusing(node, name)
    shape = result_shape(node, x.shape, w.shape, name)
    bias = _bias(node, arrays)
    dtype = {"QLinearConv": np.uint8, "ConvInteger": np.int32}.get(node.op_type, x.dtype)
    if scaled:
        bias, dtype = _requantised(arrays, bias, shape[1])
    require_memory(int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize, f"the result of {name!r}")
    if bias is not None and bias.shape != shape[1:2]:
        raise refuse(f"the bias must have one number per output channel, {shape[1:2]}, got {bias.shape}")
    made = np.zeros(shape, dtype)
    if bias is not None:
        made += bias.astype(dtype).reshape(1, -1, *(1,) * (len(shape) - 2))
    return made


def _empty_gradient(arrays: Arrays) -> np.ndarray | None:
    """A gradient that is a sum of nothing, or has no elements: zeros of the extents of the last input."""
    *_, like = arrays
    if like is None or all(array is None or array.size for array in arrays):
        return None
    return np.zeros(like.shape, like.dtype)


def _bias(node: NodeProto, arrays: Arrays) -> np.ndarray | None:
    """What is added to a sum of nothing; zero points take no part in one."""
    place = {"QLinearConv": 8, "ConvInteger": len(arrays)}.get(node.op_type, 2)
    return arrays[place] if len(arrays) > place else None


def _requantised(arrays: Arrays, bias: np.ndarray | None, channels: int) -> tuple[np.ndarray, np.dtype]:
    """The bias of a `QLinearConv` as its result stores it."""
    scales = [arrays[at] for at in (1, 4, 6)]
    zero = arrays[7]
    assert zero is not None, "a QLinearConv that onnx takes has a zero point for its result"
    x_scale, w_scale, y_scale = (np.ones((), np.float32) if scale is None else scale for scale in scales)
    multiplier = multiplier_of(x_scale, w_scale, y_scale, channels)
    sums = np.zeros(channels, np.float32) if bias is None else bias.astype(np.float32)
    limits = np.iinfo(zero.dtype)
    stored = np.rint(sums * multiplier) + np.float32(zero.reshape(-1)[0])
    return np.clip(stored, limits.min, limits.max).astype(zero.dtype), zero.dtype


def _refusing(node: NodeProto, name: str) -> Refuse:

    def refuse(message: str, hint: str = "") -> NodeError:
        return NodeError(message, where=f"node {name!r} ({node.op_type})", hint=hint)

    return refuse


def result_shape(node: NodeProto, x: tuple[int, ...], w: tuple[int, ...], name: str = "") -> tuple[int, ...]:
    """(N, K, P, Q) of a convolution, by the formula of its operator; `NodeError` where its numbers do not fit."""
    refuse = _refusing(node, name)
    attributes = conv_attributes(node, refuse)
    transposed = node.op_type == "ConvTranspose"
    axes = read_axes(attributes, w, "C, K/G" if transposed else "K, C", refuse)
    channels = w[0] if transposed else axes.groups * w[1]
    if len(x) != len(w) or x[1] != channels or w[0] % axes.groups:
        raise refuse(f"the input has shape {x}, the weights {w} in {axes.groups} groups: they must have the same C")
    ones = (1,) * axes.rank
    stride = numbers_of("strides", attributes.strides, ones, refuse)
    dilation = numbers_of("dilations", attributes.dilations, ones, refuse)
    pads = numbers_of("pads", attributes.pads, (0,) * (2 * axes.rank), refuse)
    more = numbers_of("output_padding", attributes.output_padding, (0,) * axes.rank, refuse)
    if min(*stride, *dilation, *axes.kernel) < 1:
        raise refuse(f"strides, dilations and the filter must be at least 1, got {stride}, {dilation}, {axes.kernel}")
    extents: list[int] = []
    for at, (extent, step, taps, apart) in enumerate(zip(x[2:], stride, axes.kernel, dilation, strict=True)):
        free = (taps - 1) * apart + 1 - pads[at] - pads[at + axes.rank]
        if attributes.auto_pad in (b"SAME_UPPER", b"SAME_LOWER"):
            extents.append(extent * step if transposed else -(-extent // step))
        else:
            extents.append((extent - 1) * step + free + more[at] if transposed else (extent - free) // step + 1)
    if transposed and attributes.output_shape:
        extents = list(attributes.output_shape[-axes.rank :])
    if min(extents) < 0:
        raise refuse(f"the output would have extents {tuple(extents)}: the filter is larger than the padded input")
    return (x[0], axes.groups * w[1] if transposed else w[0], *extents)
