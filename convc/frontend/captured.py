"""The tensors that a node reads: its inputs, and those that its subgraphs take from around them."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto, NodeProto

from convc.frontend.model_file import subgraphs


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
