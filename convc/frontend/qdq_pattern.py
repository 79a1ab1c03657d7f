"""One convolution between `DequantizeLinear` and `QuantizeLinear`, seen as what it stands for: an integer convolution.

    QuantizeLinear(act(Conv(DequantizeLinear(x), DequantizeLinear(w)) + bias))    with one scale for x and one for y

is ``QLinearConv`` of the whole numbers x and w: scales and zero points are the same, and the bias is counted in steps
of x_scale * w_scale. Float and integer form agree but for results that are a rounding error away from a tie.

Relu and Clip in between go along, because rounding is monotonic: the result is clipped to what their bounds are stored
as. Often those are the ends of the stored type, and then saturation has done it.

Source: ONNX operators ``QuantizeLinear`` and ``QLinearConv``; onnxruntime, "Quantize ONNX Models", for what exporters
write; its own optimiser replaces the same nodes (``QDQSelectorActionTransformer``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, TensorProto

from convc.errors import ConvcError
from convc.frontend.fusible_nodes import activation_step
from convc.frontend.graph_view import GraphView
from convc.frontend.linear_scales import is_dequantize, is_quantize, scale_attributes
from convc.frontend.model_file import ONNX_DOMAINS
from convc.frontend.tensors import NUMPY_TYPES, type_name
from convc.ir import dtypes
from convc.ir.epilogue import Clip, Relu
from convc.ir.problem import AXIS_NAMES
from convc.support.memory import require_memory

BIAS_STEPS = 2.0**-6
"""How far, in steps of the result, rounding a bias may move results."""

_SAME_SCALE = 2.0**-20
"""Scales of a bias that differ from x_scale * w_scale by no more than this share were meant to be that."""

_TINY = float(np.finfo(np.float32).smallest_normal)
_EIGHT_BITS = {dtypes.BY_NAME[name].storage: name for name in dtypes.INTEGER_OPERANDS}


class NotIntegerError(Exception):
    """The reason why a convolution stays floating-point, as what follows its name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaled:
    """A tensor of 8-bit numbers that stand for (number - zero) * scale.

    Attributes:
        tensor: its name.
        scale: float32, () or (K,).
        zero: of the type of the numbers, as many as scales.
    """

    tensor: str
    scale: np.ndarray
    zero: np.ndarray

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest number of the type."""
        info = np.iinfo(self.zero.dtype)
        return int(info.min), int(info.max)

    def stored(self, value: float) -> int:
        """Find the number that a real number is stored as, in a tensor with one scale."""
        low, high = self.limits
        with np.errstate(all="ignore"):
            steps = float(np.rint(np.float32(value) / np.float32(self.scale)))
        return int(min(max(steps + int(self.zero), low), high))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntegerConv:
    """A convolution that can be computed with whole numbers.

    Attributes:
        index: of the convolution in the graph.
        before: indices of the nodes that made real numbers for it.
        activations: indices of the `Relu` and `Clip` nodes behind it.
        last: index of the node that makes whole numbers of its result.
        x, w, y: activations, weights and result.
        bias: int32 (K,) in steps of x.scale * w.scale, or None.
        clip: the least and the greatest stored result that the activations let through.
    """

    index: int
    before: tuple[int, ...]
    activations: tuple[int, ...]
    last: int
    x: Scaled
    w: Scaled
    y: Scaled
    bias: np.ndarray | None
    clip: tuple[int, int]


def is_quantised(view: GraphView, node: NodeProto) -> bool:
    """Whether activations or weights of a convolution come from a `DequantizeLinear`."""
    return any(name in view.makers and is_dequantize(view.makers[name]) for name in node.input[:2])


def integer_conv(view: GraphView, index: int, types: Mapping[str, int]) -> IntegerConv:
    """The integer form of a convolution for which `is_quantised` holds.

    Args:
        view: the graph.
        index: of the node.
        types: ONNX's element types that the graph states, by name.

    Raises:
        NotIntegerError: it has none.
    """
    node = view.nodes[index]
    if node.op_type != "Conv":
        raise NotIntegerError(f"{node.op_type} has no integer form")
    if len(node.input) not in (2, 3) or len(node.output) != 1:
        raise NotIntegerError("its inputs are not those of a Conv")
    x, from_x = _dequantised(view, node.input[0], "activations", types)
    w, from_w = _dequantised(view, node.input[1], "weights", types)
    activations, last = _behind(view, index)
    y = _scaled(view, view.nodes[last], view.nodes[last].output[0], "results", types)
    for what, one in (("activations", x), ("results", y)):
        if one.scale.ndim:
            raise NotIntegerError(f"its {what} have {one.scale.size} scales, not one")
    filters = _filters(view, w, scale_attributes(view.nodes[from_w]).axis)
    _check_multiplier(x, w, y)
    bias, from_bias = _bias(view, node, x, w, y, len(filters))
    _check_sums(x, w, filters, bias)
    return IntegerConv(
        index=index,
        before=tuple(sorted({from_x, from_w, *from_bias})),
        activations=activations,
        last=last,
        x=x,
        w=w,
        y=y,
        bias=bias,
        clip=_clip(view, activations, y),
    )


def _dequantised(view: GraphView, name: str, what: str, types: Mapping[str, int]) -> tuple[Scaled, int]:
    """What a tensor was dequantised from, and the index of the node that did it."""
    maker = view.makers.get(name)
    if maker is None or not is_dequantize(maker):
        raise NotIntegerError(f"its {what} do not come from a DequantizeLinear")
    output_dtype = scale_attributes(maker).output_dtype
    if output_dtype not in (TensorProto.UNDEFINED, TensorProto.FLOAT):
        raise NotIntegerError(f"its {what} are dequantised to {type_name(output_dtype)}")
    return _scaled(view, maker, maker.input[0], what, types), view.places[name]


def _scaled(view: GraphView, node: NodeProto, tensor: str, what: str, types: Mapping[str, int]) -> Scaled:
    """The scale and zero point of a node, constant and of types that go into an integer convolution."""
    scale = _constant(view, node.input[1], f"the scale of its {what}")
    if scale.dtype != np.float32 or not (np.isfinite(scale) & (scale > 0)).all():
        raise NotIntegerError(f"the scale of its {what} must be float32, positive and finite")
    if len(node.input) == 3 and node.input[2]:
        zero = _constant(view, node.input[2], f"the zero point of its {what}")
    else:
        zero = np.zeros(scale.shape, _stored_type(view, node, tensor, types))
    if zero.dtype not in _EIGHT_BITS:
        raise NotIntegerError(f"its {what} are {zero.dtype}, not 8-bit whole numbers")
    if scale.size > 1 and scale_attributes(node).block:
        raise NotIntegerError(f"its {what} have scales per block")
    if scale.size != zero.size:
        raise NotIntegerError(f"its {what} have {scale.size} scales and {zero.size} zero points")
    shape = () if scale.size == 1 else (scale.size,)
    return Scaled(tensor=tensor, scale=scale.reshape(shape), zero=zero.reshape(shape))


def _stored_type(view: GraphView, node: NodeProto, tensor: str, types: Mapping[str, int]) -> np.dtype:
    """The type of the whole numbers of a node without a zero point."""
    maker = node if is_quantize(node) else view.makers.get(tensor)
    stated = types.get(tensor, TensorProto.UNDEFINED)
    if maker is not None and is_quantize(maker):
        if len(maker.input) == 3 and maker.input[2]:
            return _constant(view, maker.input[2], "the zero point of its input").dtype
        stated = scale_attributes(maker).output_dtype or TensorProto.UINT8
    elif (array := _value(view, tensor)) is not None:
        return array.dtype
    if stated not in NUMPY_TYPES:
        raise NotIntegerError(f"the type of {tensor!r} is not known to have 8 bits")
    return NUMPY_TYPES[stated][0]


def _behind(view: GraphView, index: int) -> tuple[tuple[int, ...], int]:
    """Indices of the activations behind a convolution, and of the `QuantizeLinear` that all of them lead to."""
    tensor = view.nodes[index].output[0]
    passed: list[int] = []
    while True:
        if tensor in view.kept:
            raise NotIntegerError("its result is an output of the model before it is quantised")
        readers = view.readers[tensor]
        if len(readers) != 1:
            raise NotIntegerError(f"its result is read {len(readers)} times before it is quantised")
        if readers[0] <= max(passed, default=index):
            raise NotIntegerError("its result is read before it is computed")
        node = view.nodes[readers[0]]
        if is_quantize(node) and node.input[0] == tensor:
            return tuple(passed), readers[0]
        known = node.domain in ONNX_DOMAINS and len(node.output) == 1 and node.input[0] == tensor
        if not known or not isinstance(activation_step(view, node), Relu | Clip):
            raise NotIntegerError(f"its result goes to {node.op_type} before it is quantised")
        passed.append(readers[0])
        tensor = node.output[0]


def _filters(view: GraphView, w: Scaled, axis: int) -> np.ndarray:
    """The weights less their zero points, int64 (K, terms)."""
    stored = _constant(view, w.tensor, "the weights")
    if stored.ndim - 2 not in AXIS_NAMES or stored.dtype != w.zero.dtype:
        raise NotIntegerError(f"its weights are {stored.dtype} of shape {stored.shape}")
    if w.scale.ndim and (axis % stored.ndim or w.scale.shape != stored.shape[:1]):
        raise NotIntegerError(f"its weights have {w.scale.size} scales along axis {axis}")
    require_memory(32 * stored.size, "the weights as whole numbers")
    zero = w.zero.astype(np.int64).reshape(-1, *(1,) * (stored.ndim - 1))
    return (stored.astype(np.int64) - zero).reshape(len(stored), -1)


def _check_multiplier(x: Scaled, w: Scaled, y: Scaled) -> None:
    """The scales give a multiplier that float32 holds with full precision."""
    product = x.scale.astype(np.float64) * w.scale
    multiplier = product / y.scale
    limit = float(np.finfo(np.float32).max)
    if not all((each >= _TINY).all() and (each <= limit).all() for each in (product, multiplier)):
        raise NotIntegerError("its scales together are too large or too small for float32")


def _bias(
    view: GraphView, node: NodeProto, x: Scaled, w: Scaled, y: Scaled, channels: int
) -> tuple[np.ndarray | None, tuple[int, ...]]:
    """The bias in steps of the sums, and the index of the node that made real numbers of it, if there is one."""
    if len(node.input) < 3 or not node.input[2]:
        return None, ()
    step = x.scale.astype(np.float64) * w.scale.astype(np.float64)
    maker = view.makers.get(node.input[2])
    before = () if maker is None or not is_dequantize(maker) else (view.places[node.input[2]],)
    exact = None if maker is None or not before else _counted(view, maker, step)
    real = _constant(view, node.input[2], "the bias")
    if real.shape != (channels,) or real.dtype != np.float32:
        raise NotIntegerError(f"its bias is {real.dtype} of shape {real.shape}")
    steps = real / step if exact is None else exact
    whole = np.rint(steps)
    if not (np.abs(whole) < 2.0**31).all():
        raise NotIntegerError("its bias does not fit 32 bits")
    moved = float((np.abs(whole - steps) * step / y.scale).max(initial=0))
    if moved > BIAS_STEPS:
        raise NotIntegerError(f"rounding its bias would change results by {moved:.2g} steps")
    return whole.astype(np.int32), before


def _counted(view: GraphView, node: NodeProto, step: np.ndarray) -> np.ndarray | None:
    """A bias that is stored in steps of the sums already, float64 (K,); None where it is not."""
    stored = _constant(view, node.input[0], "the bias")
    scale = _constant(view, node.input[1], "the scale of its bias")
    has_zero = len(node.input) == 3 and bool(node.input[2])
    zero = _constant(view, node.input[2], "the zero point of its bias") if has_zero else np.zeros((), np.int32)
    if stored.dtype != np.int32 or stored.ndim != 1 or scale.size not in (1, len(stored)) or zero.any():
        return None
    near = np.abs(scale.reshape(-1).astype(np.float64) / step - 1) <= _SAME_SCALE
    return stored.astype(np.float64) if near.all() else None


def _check_sums(x: Scaled, w: Scaled, filters: np.ndarray, bias: np.ndarray | None) -> None:
    """No sum leaves 32 bits, where the integer form would wrap around and the float form would not."""
    low, high = x.limits
    most = max(int(x.zero) - low, high - int(x.zero))
    sums = np.abs(filters).sum(axis=1) * most + (0 if bias is None else np.abs(bias.astype(np.int64)))
    if (sums >= 1 << 31).any():
        raise NotIntegerError("its sums may overflow 32 bits")


def _clip(view: GraphView, activations: tuple[int, ...], y: Scaled) -> tuple[int, int]:
    """What activations leave of the stored range: each takes both ends to where it takes any number."""
    low, high = y.limits
    for index in activations:
        step = activation_step(view, view.nodes[index])
        bounds = step if isinstance(step, Clip) else Clip(low=0.0)
        least = y.limits[0] if bounds.low is None else y.stored(bounds.low)
        most = y.limits[1] if bounds.high is None else y.stored(bounds.high)
        low = min(max(low, least), most)
        high = min(max(high, least), most)
    return low, high


def _constant(view: GraphView, name: str, what: str) -> np.ndarray:
    array = _value(view, name)
    if array is None:
        raise NotIntegerError(f"not constant: {what}")
    return array


def _value(view: GraphView, name: str) -> np.ndarray | None:
    """A constant of the graph; None where it is none, `NotIntegerError` where it cannot be read."""
    try:
        return view.constants.value(name)
    except ConvcError as error:  # whoever computes the node says what is wrong with it
        raise NotIntegerError(f"{name!r} cannot be read: {error.message}") from None
