"""Operators of onnxruntime's own domain, for shape inference: a standard one whose result has the same type and shape.

onnxruntime's quantiser writes whole networks in its operators of 8-bit numbers (the QOperator form), of which ONNX's
shape inference knows nothing; behind the first of them no convolution would have a shape. Only shapes are taken from
what stands here: the nodes themselves run as they are.
Source: onnxruntime, "Contrib Operators"; the 8-bit result has the type of the first tensor.
"""

from __future__ import annotations

from onnx import NodeProto, helper

from convc.frontend.expand_gradients import gradient_of
from convc.frontend.model_file import ONNX_DOMAINS

DOMAIN = "com.microsoft"

_LIKE = {
    "ReluGrad": ("Identity", (0,)),
    "FusedConv": ("Conv", (0, 1, 2)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearLeakyRelu": ("Identity", (0,)),
    "QLinearSigmoid": ("Identity", (0,)),
    "QLinearSoftmax": ("Identity", (0,)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "QuantizeLinear": ("QuantizeLinear", (0, 1, 2)),
    "DequantizeLinear": ("DequantizeLinear", (0, 1, 2)),
}
"""The standard operator, and which of the inputs it gets."""

_CONVOLVING = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_POOLING = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def as_standard(node: NodeProto) -> NodeProto:
    """A node whose result has the type and shape of ``node``'s; the same one where none is known.

    One with pixels in front of channels (``channels_last``) is not: ONNX has no such pooling.
    """
    if gradient_of(node) is not None and len(node.input) == 3:
        return helper.make_node("Identity", node.input[2:], node.output)
    if node.op_type == "STFT" and node.domain in ONNX_DOMAINS:
        return _with_one_side(node)
    if node.domain != DOMAIN or len(node.output) != 1:
        return node
    given = {attribute.name: attribute for attribute in node.attribute}
    if "channels_last" in given and given["channels_last"].i:
        return node
    if node.op_type == "QLinearConcat":  # scale and zero point of the result, then each tensor with its own
        like = helper.make_node("Concat", node.input[2::3], node.output)
        like.attribute.extend(given[name] for name in ("axis",) if name in given)
        return like
    if node.op_type not in _LIKE:
        return node
    kind, places = _LIKE[node.op_type]
    like = helper.make_node(kind, [node.input[place] for place in places if place < len(node.input)], node.output)
    taken = {"AveragePool": _POOLING, "Conv": _CONVOLVING}.get(kind, ())
    like.attribute.extend(given[name] for name in taken if name in given)
    return like


def _with_one_side(node: NodeProto) -> NodeProto:
    """An `STFT` that says ``onesided``: inference of onnx 1.23 takes 0 for its default, which is 1."""
    if any(attribute.name == "onesided" for attribute in node.attribute):
        return node
    like = NodeProto()
    like.CopyFrom(node)
    like.attribute.append(helper.make_attribute("onesided", 1))
    return like
