"""Small questions about nodes and types that several parts of a graph ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper

from convc.errors import NodeError
from convc.frontend.model_file import subgraphs


def node_place(node: NodeProto, name: str) -> str:
    """The node as the place of an error."""
    return f"node {name!r} ({node.op_type})"


def refuse_external(nodes: Iterable[NodeProto], where: str) -> None:
    """Raise `NodeError` where a tensor inside nodes lies in a file: the host would look for that in any folder."""
    if any(tensor.data_location == TensorProto.EXTERNAL for node in nodes for tensor in _tensors(node)):
        raise NodeError("external data inside a node are not read", where=where)


def needed(node: NodeProto) -> list[str]:
    """Names of all tensors that a node reads, those that its subgraphs take from around them included; no repeats."""
    return list(dict.fromkeys([*filter(None, node.input), *_captured(node)]))


def _captured(node: NodeProto) -> Iterator[str]:
    for graph in subgraphs(node):
        yield from free_names(graph)


def free_names(graph: GraphProto) -> Iterator[str]:
    """Names that a subgraph uses and does not make."""
    made = {value.name for value in (*graph.input, *graph.initializer)}
    made |= {tensor.values.name for tensor in graph.sparse_initializer}
    for node in graph.node:
        yield from (name for name in needed(node) if name not in made)
        made |= set(node.output)
    yield from (value.name for value in graph.output if value.name not in made)


def element_dtype(element_type: int) -> np.dtype | None:
    """numpy's type for an ONNX element type; None where it has none."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(element_type))
    except (KeyError, ValueError, TypeError):
        return None


def _tensors(node: NodeProto) -> Iterator[TensorProto]:
    """Tensors among the attributes of a node, those in its subgraphs included."""
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
    for graph in subgraphs(node):
        yield from graph.initializer
        for inner in graph.node:
            yield from _tensors(inner)


def first_line(error: Exception) -> str:
    """The kind of an exception and the first line of what it says, at most 300 characters of it."""
    lines: Sequence[str] = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
