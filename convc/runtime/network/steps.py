"""Steps of a run of a graph: a node each, or a convolution with the nodes that its kernel does.

What a convolution can take in follows from the constants and from the shapes of what the run is given
(`convc.frontend.fusion`). Such a step stands where the last of its nodes stood. It keeps them all: where its kernel
cannot be made, or other shapes arrive than shape inference said, they run one by one as if nothing were fused.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto, NodeProto

from convc.build.folder import Layer
from convc.errors import ModelError
from convc.frontend.onnx_reader import read_fused
from convc.ir import dtypes
from convc.ir.network import ConvNode, TensorRef
from convc.runtime.network.constants import StartValues
from convc.runtime.network.device_tensor import PackedTensor
from convc.runtime.network.node_info import needed
from convc.support.arrays import is_array

Named = tuple[str, NodeProto]
"""A node and its name, which is unique in the graph."""


@dataclass(slots=True, eq=False)
class NodeGroup:
    """One step.

    Attributes:
        nodes: those it does, in their order; the convolution is the first.
        conv: what the kernel computes; None for a node that is run by itself.
        layer: the kernel and its packed weights, once they are made.
        split: the kernel cannot be made, so that the nodes run one by one.
    """

    nodes: tuple[Named, ...]
    conv: ConvNode | None = None
    layer: Layer | None = None
    split: bool = False

    @property
    def name(self) -> str:
        """Of the first node."""
        return self.nodes[0][0]

    @property
    def reads(self) -> list[str]:
        """Tensors that it needs from before it, whichever way it runs."""
        inside = set(self.inside)
        return list(dict.fromkeys(name for _, node in self.nodes for name in needed(node) if name not in inside))

    @property
    def inside(self) -> list[str]:
        """Tensors that one of its nodes makes for another."""
        return [output for _, node in self.nodes[:-1] for output in node.output if output]

    @property
    def writes(self) -> list[str]:
        """Tensors that others may read."""
        return list(self.nodes[-1][1].output)

    def fits(self, values: Mapping[str, Value]) -> bool:
        """Whether the tensors that the kernel reads have come, with the shapes and types that it was made for."""
        return self.conv is not None and all(_fits(values.get(read.name), read) for read in self.conv.inputs)


def plain_steps(nodes: Iterable[Named]) -> list[NodeGroup]:
    """Every node by itself."""
    return [NodeGroup((named,)) for named in nodes]


def fused_steps(
    nodes: Sequence[Named],
    model: ModelProto,
    start: StartValues,
    shapes: Mapping[str, tuple[int, ...]],
    fed: Container[str],
    operand: str | None,
    precision: str | None,
) -> list[NodeGroup]:
    """Convolutions with what they take in; every other node by itself.

    Args:
        nodes: of the main graph, with their names.
        shapes: of the inputs whose extents the model leaves open.
        fed: initializers that the run is given other values for.
        operand, precision: see `convc.frontend.onnx_reader.read_fused`.
    """
    try:
        found = read_fused(model, start.constants_without(fed), shapes, operand, precision)
    except ModelError:  # without shapes nothing can be fused
        return plain_steps(nodes)
    index_of = {name: index for index, (name, _) in enumerate(nodes)}
    steps: dict[int, NodeGroup] = {index: NodeGroup((named,)) for index, named in enumerate(nodes)}
    for fused in found:
        first = index_of[fused.conv.name]
        for index in (first, *fused.taken):
            del steps[index]
        steps[fused.position] = NodeGroup(tuple(nodes[index] for index in (first, *fused.taken)), fused.conv)
    return [steps[index] for index in sorted(steps)]


def last_uses(steps: Sequence[NodeGroup], kept: Container[str]) -> dict[int, list[str]]:
    """Tensors that can be let go after each step, by its index; those in ``kept`` never."""
    last = {name: index for index, step in enumerate(steps) for name in (*step.reads, *step.writes)}
    uses: dict[int, list[str]] = {}
    for name, index in last.items():
        if name not in kept:
            uses.setdefault(index, []).append(name)
    return uses


def _fits(value: Value, expected: TensorRef) -> bool:
    if not (is_array(value) or isinstance(value, PackedTensor)):
        return False
    return value.shape == expected.shape and value.dtype == dtypes.BY_NAME[expected.dtype].storage


Value = Any
"""An array, a list of arrays (a sequence), or None (an empty optional)."""


def describe_value(value: Value) -> str:
    """``float32 [1, 1000]``; the kind of a value that is no array."""
    return f"{value.dtype.name} {list(value.shape)}" if is_array(value) else type(value).__name__
