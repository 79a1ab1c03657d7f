"""What a fusion pass asks of a graph: who reads a tensor, what is constant, and which nodes are still free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
from onnx import GraphProto, NodeProto

from convc.errors import ConvcError
from convc.frontend.constants import Constants
from convc.frontend.expand_gradients import RELU_GRAD
from convc.frontend.model_file import ONNX_DOMAINS, subgraphs
from convc.frontend.shapes import ValueType
from convc.ir import dtypes

FLOATS = {dtype.storage for dtype in (dtypes.F16, dtypes.BF16, dtypes.F32)}


class GraphView:
    """The graph, and which of its nodes are still free."""

    def __init__(
        self, graph: GraphProto, names: list[str], types: Mapping[str, ValueType], constants: Constants
    ) -> None:
        """Look at a graph.

        Args:
            graph: the graph.
            names: of its nodes, one each.
            types: of its tensors, as far as they are known.
            constants: of the graph.
        """
        self.nodes = graph.node
        self.names = names
        self.types = types
        self.constants = constants
        self.makers = {name: node for node in graph.node for name in node.output if name}
        self.places = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
        self.readers: dict[str, list[int]] = defaultdict(list)
        for index, node in enumerate(graph.node):
            for name in _read_by(node):
                self.readers[name].append(index)
        self.kept = {value.name for value in graph.output}
        self.taken: set[int] = set()

    def next_nodes(self, tensor: str) -> list[int]:
        """Nodes that read a tensor, one entry for each time; none where the tensor must stay, or one is taken."""
        readers = self.readers[tensor]
        free = tensor not in self.kept and not self.taken.intersection(readers)
        return readers if free and all(map(_known, (self.nodes[i] for i in readers))) else []

    def constant(self, name: str) -> np.ndarray | None:
        """A constant in float64, also behind one `Unsqueeze`; None where it is none, or of no floating-point type."""
        maker = self.makers.get(name)
        axes: tuple[int, ...] | None = ()
        try:
            if maker is not None and maker.op_type == "Unsqueeze" and maker.domain in ONNX_DOMAINS:
                name = maker.input[0] if maker.input else name
                axes = self._axes(maker)
            array = self.constants.value(name)
            if array is None or axes is None or array.dtype not in FLOATS:
                return None
            return np.expand_dims(array, axes).astype(np.float64)
        except (ConvcError, ValueError, OverflowError):  # what is wrong with it is for whoever computes the node to say
            return None

    def _axes(self, node: NodeProto) -> tuple[int, ...] | None:
        """Axes of an `Unsqueeze`, from its attribute or (since opset 13) its constant second input."""
        if len(node.input) == 2:
            axes = self.constants.value(node.input[1])
            return None if axes is None or axes.dtype.kind != "i" else tuple(int(axis) for axis in axes.reshape(-1))
        return next((tuple(each.ints) for each in node.attribute if each.name == "axes"), None)


def _known(node: NodeProto) -> bool:
    """Whether it is an operator of ONNX, or one of onnxruntime's that a kernel takes in."""
    return node.domain in ONNX_DOMAINS or (node.op_type, node.domain) == RELU_GRAD


def _read_by(node: NodeProto) -> Iterator[str]:
    """Tensors that a node reads, those of its subgraphs included (once for each time)."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from _read_by(inner)
        yield from (value.name for value in graph.output)


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
