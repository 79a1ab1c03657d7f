"""Convolutions that run on the host, inside a node: in a branch, a loop, or a function that is still called."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from convc.frontend.model_file import subgraphs
from convc.frontend.onnx_reader import is_convolution


def hidden_convolutions(node: onnx.NodeProto, functions: dict[tuple[str, str], onnx.FunctionProto]) -> int:
    """Convolutions inside a node: in its subgraphs, and in the function that it calls (once for each call)."""
    return sum(map(is_convolution, _inside(node, functions, frozenset())))


def _inside(
    node: onnx.NodeProto, functions: dict[tuple[str, str], onnx.FunctionProto], seen: frozenset[tuple[str, str]]
) -> Iterator[onnx.NodeProto]:
    """Every node inside a node, at any depth; a function inside itself is not entered again."""
    bodies = [graph.node for graph in subgraphs(node)]
    key = (node.domain, node.op_type)
    if key in functions and key not in seen:
        bodies.append(functions[key].node)
        seen = seen | {key}
    for body in bodies:
        for inner in body:
            yield inner
            yield from _inside(inner, functions, seen)
