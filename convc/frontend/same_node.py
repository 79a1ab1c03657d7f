"""Whether a node means the same in another operator set, so that it can be put there as it is.

Most versions of an operator differ in the types that it takes. Such a node can be read by a newer version, which takes
more; by an older one it can where nothing else was added, as for the operators of `_ANY_VERSION`.

Source: ONNX, "Operator Schemas" and "Changelog".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, numpy_helper

_CONVOLUTIONS = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv")
"""Operators whose versions differ in types alone, and in words."""

_ANY_VERSION = frozenset((
    "Abs", "Add", "Div", "Exp", "GlobalAveragePool", "Identity", "If", "LeakyRelu", "Log", "Loop", "Mul", "Neg", "Relu",
    "Sigmoid", "Sqrt", "Sub", "Tanh", "Transpose",
))  # fmt: skip
"""Operators of which an older version reads a node of a newer one; from operator set 7 on."""

_OLDEST = 7


def as_in(node: NodeProto, own: int, target: int) -> NodeProto | None:
    """The node that means in one operator set what a node means in another; None where there is none.

    Args:
        node: of the standard domain, not yet without references to attributes.
        own, target: operator sets.
    """
    if node.op_type == "Constant":
        return _constant(node)
    try:
        written = onnx.defs.get_schema(node.op_type, own, "")
        read = onnx.defs.get_schema(node.op_type, target, "")
    except onnx.defs.SchemaError:
        return None
    if written.since_version == read.since_version:
        return node
    if written.deprecated or read.deprecated or min(own, target) < _OLDEST:
        return None
    if node.op_type == "BatchNormalization" and own < target:
        return node if _is_inference(node) else None
    like = node.op_type in _CONVOLUTIONS or (
        _signature(written) == _signature(read) and (own < target or node.op_type in _ANY_VERSION)
    )
    return node if like else None


def _constant(node: NodeProto) -> NodeProto | None:
    """A `Constant` in the form that every operator set has."""
    if len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    types = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if attribute.ref_attr_name or attribute.name not in types:
        return node if attribute.name == "value" else None
    value = np.array(onnx.helper.get_attribute_value(attribute), types[attribute.name])
    made = NodeProto()
    made.CopyFrom(node)
    made.attribute[0].CopyFrom(
        AttributeProto(name="value", type=AttributeProto.TENSOR, t=numpy_helper.from_array(value))
    )
    return made


def _is_inference(node: NodeProto) -> bool:
    """Whether a BatchNormalization of an older operator set is inference, as one of a newer set is by default."""
    given = {attribute.name: attribute.i for attribute in node.attribute}
    return len([name for name in node.output if name]) == 1 and given.keys() <= {"epsilon", "momentum"}


def _signature(schema: Any) -> tuple[object, ...]:
    """What a version of an operator has, but for types: attributes with their defaults, inputs, outputs."""
    attributes = tuple(
        (name, str(attribute.type), attribute.required, attribute.default_value.SerializeToString(deterministic=True))
        for name, attribute in sorted(schema.attributes.items())
    )
    sides = ((schema.inputs, schema.min_input), (schema.outputs, schema.min_output))
    return attributes, tuple((tuple(str(formal.option) for formal in side), least) for side, least in sides)
