"""The convolutions of a graph and of the graphs inside its nodes: read, fused, or left out with the reason.

What only a run knows (extents that follow from data, weights that are computed of an input) is no mistake of the model:
such a convolution is left out by name, and the others are compiled. So is one whose result is empty, or its bias alone:
that needs no kernel. What contradicts itself is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import GraphProto, NodeProto

from convc.errors import ConvcError
from convc.frontend.constants import Constants
from convc.frontend.convolution_nodes import (
    NO_GEMM,
    NOT_A_CONVOLUTION,
    OPTIMISED,
    is_convolution,
    is_optimised,
    node_names,
)
from convc.frontend.extents import Extents
from convc.frontend.fusion import fuse as fuse_nodes
from convc.frontend.model_file import subgraphs
from convc.frontend.node_reader import NodeReader, OpenError
from convc.frontend.shapes import types_of
from convc.ir.network import ConvNode, SkippedNode


@dataclass(slots=True, kw_only=True)
class Found:
    """Convolutions of a graph, and nodes that are left out.

    Attributes:
        convs: convolutions in an order in which they can be run, those inside of nodes where the node stands.
        skipped: nodes of the main graph that are not compiled, and convolutions inside of others that are not.
        refused: errors of convolutions that contradict themselves.
        assumed: sentences on what was taken for what only a run knows.
        open: errors of those of which only a run knows enough, or that need no kernel.
    """

    convs: list[ConvNode] = field(default_factory=list)
    skipped: list[SkippedNode] = field(default_factory=list)
    refused: list[ConvcError] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    open: list[OpenError] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphReader:
    """Reads graphs in one way.

    Attributes:
        operands: see `convc.frontend.node_reader.operand_types`.
        fuse: let convolutions take in the nodes behind them.
        file: of the model, for messages.
        taken: nodes that an integer convolution does as well, by its name.
        real_for: tensors that were dequantised for a convolution that stays floating-point, and why it does.
    """

    operands: Mapping[str, str]
    fuse: bool
    file: str = "MODEL"
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    real_for: Mapping[str, str] = field(default_factory=dict[str, str])

    def read(self, graph: GraphProto, extents: Extents, constants: Constants, prefix: str = "") -> Found:
        """Read a graph.

        Args:
            graph: the main graph, or one inside of a node.
            extents: what is known of it.
            constants: of the graph.
            prefix: of the names of its nodes; empty for the main graph.
        """
        found = Found()
        names = [prefix + name for name in node_names(graph.node)]
        types = types_of(extents)
        convs: dict[int, ConvNode] = {}
        skipped: dict[int, SkippedNode] = {}
        placed: list[tuple[int, ConvNode]] = []
        for index, (node, name) in enumerate(zip(graph.node, names, strict=True)):
            if not is_convolution(node):
                skipped[index] = SkippedNode(name=name, op_type=node.op_type, reason=self._reason(node))
                placed += [(index, conv) for conv in self._inside(index, node, name, extents, found)]
                continue
            try:
                reader = NodeReader(node, name, types, constants, extents, self.file)
                convs[index] = dataclasses.replace(reader.read(self.operands), fused=self.taken.get(name, ()))
                found.assumed += reader.assumed
            except OpenError as error:
                found.open.append(error)
                skipped[index] = SkippedNode(name=name, op_type=node.op_type, reason=error.reason)
            except ConvcError as error:
                found.refused.append(error)
                skipped[index] = SkippedNode(name=name, op_type=node.op_type, reason=error.message)
        if self.fuse:
            for each in fuse_nodes(graph, names, convs, types, constants):
                placed.append((each.position, each.conv))
                for index in each.taken:
                    del skipped[index]
        else:
            placed += convs.items()
        found.convs = [conv for _, conv in sorted(placed, key=lambda pair: pair[0])]
        found.skipped += [skipped[index] for index in sorted(skipped)]
        return found

    def _reason(self, node: NodeProto) -> str:
        """Why a node that is none of ONNX's convolutions is not compiled."""
        if node.op_type == "DequantizeLinear" and node.output and node.output[0] in self.real_for:
            return self.real_for[node.output[0]]
        if is_optimised(node):
            return OPTIMISED
        return NO_GEMM.get(node.op_type, NOT_A_CONVOLUTION)

    def _inside(self, place: int, node: NodeProto, name: str, around: Extents, found: Found) -> list[ConvNode]:
        """The convolutions in the graphs of a node; what is refused there is left out, since the host runs it."""
        made: list[ConvNode] = []
        labels = [attribute.name for attribute in node.attribute if attribute.HasField("g")]
        for at, graph in enumerate(subgraphs(node)):
            child = around.bodies.get((place, at))
            if child is None:
                continue
            label = labels[at] if at < len(labels) else f"graph{at}"
            inner = dataclasses.replace(self, taken={}, real_for={})
            part = inner.read(graph, child, child.constants, f"{name}/{label}/")
            made += part.convs
            found.assumed += part.assumed
            found.skipped += [each for each in part.skipped if each.reason != NOT_A_CONVOLUTION]
        return made
