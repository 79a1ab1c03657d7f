"""``CausalConvWithState``: a depthwise convolution of a row behind its own past, written out as the nodes that it is.

ONNX defines the operator by a function: Concat of the past state and the input, Conv, an activation, and a Slice that
is the next state. With that body in its place the Conv is compiled like any other, and the rest runs on the host.
Source: the operator's schema, operator set 27, whose own function body is what is put there, by onnx's inliner.
"""

# The stubs of onnx lack OpSchema.get_context_dependent_function.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import onnx
from onnx import inliner

from convc.frontend.model_file import ONNX_DOMAINS, opset_of

NAME = "CausalConvWithState"
DOMAIN = "convc.written_out"
"""Of the functions that stand for a moment between a call and its body."""


def expand_causal_conv(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each `CausalConvWithState` of its graph replaced.

    It is the same object where there is none, or where onnx refuses one: the node then runs on the host.
    """
    if not any(map(_is_causal, model.graph.node)):
        return model
    try:
        called = _with_functions(model)
        names = [(function.domain, function.name) for function in called.functions if function.domain == DOMAIN]
        whole = inliner.inline_selected_functions(called, names)
    except Exception:  # the extension module raises several unrelated types; the nodes then run on the host
        return model
    known = {name for node in model.graph.node for name in node.output}
    made = [node for node in whole.graph.node if node.op_type == "Conv" and node.output[0] not in known]
    for call, node in zip(filter(_is_causal, model.graph.node), made, strict=False):
        node.name = call.name or call.output[0]
    return whole


def _with_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which each such node calls a function of its own, the body that its schema gives for its inputs."""
    called = onnx.ModelProto()
    called.CopyFrom(model)
    types = _types(model)
    opset = opset_of(model) or 0
    schema: Any = onnx.defs.get_schema(NAME, opset)
    for node in filter(_is_causal, called.graph.node):
        given = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
        body = schema.get_context_dependent_function(node.SerializeToString(), given)
        function = onnx.FunctionProto.FromString(body)
        function.domain = DOMAIN
        function.name = f"{NAME}_{len(called.functions)}"
        node.domain = function.domain
        node.op_type = function.name
        called.functions.append(function)
    called.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return called


def _types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Types of the graph's tensors, as far as they are known."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {
        tensor.name: onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims) for tensor in graph.initializer
    }
    return types | {value.name: value.type for value in (*graph.input, *graph.value_info)}


def _is_causal(node: onnx.NodeProto) -> bool:
    return node.op_type == NAME and node.domain in ONNX_DOMAINS
