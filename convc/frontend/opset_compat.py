"""Nodes of older operator sets, where `onnx.reference` does not read them as their operator set defines them.

Five things differ. `BatchNormalization` of operator sets 7 to 13 is inference where it has one output; the reference
mixes in the statistics of the batch (a ``momentum`` that is there by default makes it think of training). Such a node
is read as one of operator set 15, where ``training_mode`` 0 says the same. A default that changed (the axis of
`Softmax` was 1 and became -1) is written into the node. And `Softmax`, `LogSoftmax` and `Hardmax` looked at all axes
from ``axis`` on as one before operator set 13: such a node becomes `Flatten`, the operator along the second axis, and
`Reshape` back. `DequantizeLinear` of operator sets 10 to 18, which the reference does not have, is that of set 19 for
fewer types. `Resize` of operator set 10 is asymmetric and takes the pixel in front, which are attributes of the newer.

Source: ONNX, "Operator Schemas" and "Changelog"; its own version converter does the same.
"""

from __future__ import annotations

import onnx
from onnx import NodeProto, helper

_FLATTENING = ("Softmax", "LogSoftmax", "Hardmax")
_FLATTENS_BEFORE = 13


def as_defined(node: NodeProto, opset: int) -> tuple[list[NodeProto], int]:
    """Nodes of the standard domain that mean on the host what ``node`` means in ``opset``, and their operator set.

    Names of tensors in between end in ``/flat``, ``/shape`` and ``/made`` behind the output's.
    """
    if node.op_type == "BatchNormalization" and 7 <= opset < 14 and len(node.output) == 1:
        given = {attribute.name: attribute for attribute in node.attribute}
        if "spatial" not in given or given["spatial"].i == 1:
            inference = helper.make_node(node.op_type, node.input, node.output, node.name, training_mode=0)
            inference.attribute.extend(given[name] for name in ("epsilon", "momentum") if name in given)
            return [inference], 15
    if node.op_type == "DequantizeLinear" and 10 <= opset < 19:
        return [node], 19
    if node.op_type == "Resize" and opset == 10:
        resized = helper.make_node(
            node.op_type,
            [node.input[0], "", node.input[1]],
            node.output,
            node.name,
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        resized.attribute.extend(node.attribute)
        return [resized], 13
    node = _with_defaults(node, opset)
    if node.op_type not in _FLATTENING or opset >= _FLATTENS_BEFORE:
        return [node], opset
    x = node.input[0]
    y = node.output[0]
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    flattened = [
        helper.make_node("Shape", [x], [f"{y}/shape"]),
        helper.make_node("Flatten", [x], [f"{y}/flat"], axis=axis),
        helper.make_node(node.op_type, [f"{y}/flat"], [f"{y}/made"], axis=1),
        helper.make_node("Reshape", [f"{y}/made", f"{y}/shape"], [y]),
    ]
    return flattened, opset


def _with_defaults(node: NodeProto, opset: int) -> NodeProto:
    """The node, with every attribute that it leaves out and whose default is another one today."""
    try:
        then = onnx.defs.get_schema(node.op_type, opset, "").attributes
        now = onnx.defs.get_schema(node.op_type, "").attributes
    except onnx.defs.SchemaError:
        return node
    present = {attribute.name for attribute in node.attribute}
    changed: list[onnx.AttributeProto] = []
    for name in then.keys() & now.keys() - present:
        default = then[name].default_value
        if default.type and default != now[name].default_value:  # type 0: the attribute has no default
            changed.append(default)
    if not changed:
        return node
    explicit = NodeProto()
    explicit.CopyFrom(node)
    explicit.attribute.extend(changed)
    return explicit
