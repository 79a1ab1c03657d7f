"""Graphs whose nodes are not in an order in which they can run, sorted.

ONNX asks for that order, and onnxruntime takes any: models that a converter has appended nodes to run there. They are
read as if their nodes stood where they can: each behind those whose outputs it reads, else in the order of the file.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, MutableSequence, Sequence

import onnx
from onnx import GraphProto, NodeProto

from convc.errors import ModelError
from convc.frontend.model_file import subgraphs
from convc.support.memory import require_memory

_SHOWN = 3
"""Nodes of a circle that are named."""


def sorted_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the nodes of all its graphs and functions in order; the same object where they are.

    Raises:
        ModelError: nodes read one another's outputs in a circle.
        LimitError: a copy of the model does not fit into memory.
    """
    bodies = (model.graph.node, *(function.node for function in model.functions))
    if all(map(_is_sorted, bodies)):
        return model
    require_memory(2 * model.ByteSize(), "a copy of the model with its nodes in order")
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _sort(made.graph.node, "the graph")
    for function in made.functions:
        _sort(function.node, f"function {function.name!r}")
    return made


def reads(node: NodeProto) -> Iterator[str]:
    """Tensors that a node reads, also inside its subgraphs; some of these are their own."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        yield from _read_inside(graph)


def _read_inside(graph: GraphProto) -> Iterator[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    for node in graph.node:
        yield from (name for name in reads(node) if name not in own)
    yield from (value.name for value in graph.output if value.name not in own)


def _is_sorted(nodes: Sequence[NodeProto]) -> bool:
    """Whether none of these nodes, or of those inside them, reads what a later node makes."""
    later = {name for node in nodes for name in node.output if name}
    for node in nodes:
        if any(name in later for name in reads(node)):
            return False
        later.difference_update(node.output)
        if not all(_is_sorted(graph.node) for graph in subgraphs(node)):
            return False
    return True


def _sort(nodes: MutableSequence[NodeProto], where: str) -> None:
    """Put nodes in order, in place: the first in the file of those that can run comes first."""
    listed = list(nodes)
    maker = {name: at for at, node in enumerate(listed) for name in node.output if name}
    waits = [{maker[name] for name in reads(node) if name in maker} for node in listed]
    readers: list[list[int]] = [[] for _ in listed]
    for at, others in enumerate(waits):
        for other in others:
            readers[other].append(at)
    left = [len(others) for others in waits]
    ready = [at for at, count in enumerate(left) if not count]
    order: list[int] = []
    while ready:
        at = heapq.heappop(ready)
        order.append(at)
        for reader in readers[at]:
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(listed):
        circle = [listed[at] for at in _circle(waits, {at for at, count in enumerate(left) if count})]
        named = ", ".join(repr(node.name or next(iter(node.output), node.op_type)) for node in circle[:_SHOWN])
        more = f" and {len(circle) - _SHOWN} more" if len(circle) > _SHOWN else ""
        raise ModelError(f"the graph has a cycle: {named}{more}", where=where)
    copies = [NodeProto.FromString(listed[at].SerializeToString()) for at in order]
    for node in copies:
        for graph in subgraphs(node):
            _sort(graph.node, f"a graph inside node {node.name or node.op_type!r}")
    del nodes[:]
    nodes.extend(copies)


def _circle(waits: Sequence[set[int]], stuck: set[int]) -> list[int]:
    """Nodes of one circle, given that each of those that are stuck waits for another such."""
    path: list[int] = []
    at = min(stuck)
    while at not in path:
        path.append(at)
        at = min(waits[at] & stuck)
    return path[path.index(at) :]
