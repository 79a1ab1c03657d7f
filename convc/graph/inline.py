"""Functions of a model, put in the place of their calls.

Exporters write repeated parts of a network as functions (PyTorch's does for modules). Their convolutions shall run from
PTX like all others, so calls are replaced by what they call, by onnx's own inliner. What it leaves (a function written
for another operator set) runs on the host as one node.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import inliner

from convc.errors import ModelError
from convc.frontend.onnx_reader import is_convolution


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with calls of its functions replaced; the same object where it has none."""
    if not model.functions:
        return model
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # the extension module raises several unrelated types
        lines = str(error).strip().splitlines()
        raise ModelError(f"the functions of the model cannot be put in place: {lines[0] if lines else ''}") from None


def hidden_convolutions(node: onnx.NodeProto, functions: dict[tuple[str, str], onnx.FunctionProto]) -> int:
    """Convolutions inside a node: in its subgraphs, and in the function that it calls (each counted once)."""
    return sum(map(is_convolution, _inside(node, functions, frozenset())))


def _inside(
    node: onnx.NodeProto, functions: dict[tuple[str, str], onnx.FunctionProto], seen: frozenset[tuple[str, str]]
) -> Iterator[onnx.NodeProto]:
    bodies = [attribute.g.node for attribute in node.attribute if attribute.HasField("g")]
    bodies += [graph.node for attribute in node.attribute for graph in attribute.graphs]
    key = (node.domain, node.op_type)
    if key in functions and key not in seen:
        bodies.append(functions[key].node)
        seen = seen | {key}
    for body in bodies:
        for inner in body:
            yield inner
            yield from _inside(inner, functions, seen)
