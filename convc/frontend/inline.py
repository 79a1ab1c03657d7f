"""Functions of a model, put in the place of their calls.

Exporters write repeated parts of a network as functions (PyTorch's does for modules). Their convolutions shall run from
PTX like all others, so calls are replaced by what they call, by onnx's own inliner. What it leaves (a function written
for another operator set) runs on the host as one node.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import inliner

from convc.errors import ConvcError, ModelError
from convc.frontend.expand_causal import expand_causal_conv
from convc.frontend.model_file import check_header, subgraphs
from convc.frontend.order import sorted_model

MAX_NODES = 1_000_000
"""A few functions that call one another can stand for more nodes than memory holds."""


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Put nodes in order, replace the calls of a model's functions, and write causal convolutions out.

    The same object comes back where there is nothing to do.

    Raises:
        ModelError: a function calls itself, stands for too many nodes, or cannot be put in the place of its calls; or
            nodes read one another's outputs in a circle.
    """
    model = sorted_model(model)
    if not model.functions:
        return expand_causal_conv(model)
    try:
        _check_size(model)
    except RecursionError:
        raise ModelError("the functions of the model call one another too deeply") from None
    try:
        whole = expand_causal_conv(inliner.inline_local_functions(model))
        check_header(whole, oldest_opset=0)  # names of the functions are names of the graph now
    except ConvcError:
        raise
    except Exception as error:  # the extension module raises several unrelated types
        lines = str(error).strip().splitlines()
        raise ModelError(f"the functions of the model cannot be put in place: {lines[0] if lines else ''}") from None
    return whole


def _check_size(model: onnx.ModelProto) -> None:
    """Raise `ModelError` where functions call themselves, or expand to more nodes than any network has."""
    functions = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    open_calls: set[tuple[str, str]] = set()

    def size(nodes: Iterable[onnx.NodeProto]) -> int:
        """Nodes that these stand for."""
        return sum(_expanded(node) for node in nodes)

    def _expanded(node: onnx.NodeProto) -> int:
        """Nodes that one node stands for."""
        count = 1 + sum(size(graph.node) for graph in subgraphs(node))
        key = (node.domain, node.op_type)
        if key not in functions:
            return count
        if key in open_calls:
            raise ModelError(f"the function {node.op_type!r} calls itself")
        if key not in sizes:
            open_calls.add(key)
            sizes[key] = size(functions[key].node)
            open_calls.remove(key)
        return count + sizes[key]

    total = size(model.graph.node)
    if total > MAX_NODES:
        raise ModelError(f"with its functions in place the model has {total} nodes, more than {MAX_NODES}")
