"""Quantised models as exporters write them (QDQ), with their convolutions of real numbers made ones of whole numbers.

What `convc.frontend.qdq_pattern` finds is written back as the nodes that it stands for: a ``QLinearConv`` in the place
of the `QuantizeLinear`, and behind it a `Clip` of whole numbers where activations do more than saturation does. Nodes
that are no longer read go. All else stays: a convolution that is not recognised runs as the floating-point one that
it is, and why is kept, to be said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper

from convc.frontend.constants import Constants
from convc.frontend.graph_view import GraphView
from convc.frontend.model_file import ONNX_DOMAINS, opset_of
from convc.frontend.qdq_pattern import IntegerConv, NotIntegerError, integer_conv, is_quantised
from convc.support.memory import require_memory

_CLIP_OPSET = 12
"""Since when `Clip` takes 8-bit numbers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Integers:
    """A model whose quantised convolutions are integer convolutions.

    Attributes:
        model: with names for all its nodes; the one that was given where nothing changed.
        source: the one that was given.
        taken: the nodes that each of them does as well, by the name of the convolution.
        floating: why others stay floating-point, by name.
        assumes: initializers whose values were looked at.
    """

    model: onnx.ModelProto
    source: onnx.ModelProto
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    floating: Mapping[str, str] = field(default_factory=dict[str, str])
    assumes: frozenset[str] = frozenset()


def integer_convolutions(model: onnx.ModelProto, names: Sequence[str], constants: Constants) -> Integers:
    """The model with every convolution that is recognised written as an integer convolution.

    Args:
        model: it is not changed.
        names: of its nodes, one each.
        constants: of its graph.

    Raises:
        LimitError: a copy of the model, or weights in 64 bits, do not fit into memory.
    """
    if not any(node.op_type == "DequantizeLinear" for node in model.graph.node):
        return Integers(model=model, source=model)
    view = GraphView(model.graph, list(names), {}, constants)
    types = _stated_types(model.graph)
    opset = opset_of(model) or 0
    found: list[IntegerConv] = []
    floating: dict[str, str] = {}
    for index, node in enumerate(model.graph.node):
        convolution = node.op_type in ("Conv", "ConvTranspose") and node.domain in ONNX_DOMAINS
        if not convolution or not is_quantised(view, node):
            continue
        try:
            conv = integer_conv(view, index, types)
            _check_opset(conv, opset)
            found.append(conv)
        except NotIntegerError as error:
            floating[names[index]] = str(error)
    if not found:
        return Integers(model=model, source=model, floating=floating)
    return _rewritten(model, view, found, floating)


def _check_opset(conv: IntegerConv, opset: int) -> None:
    if opset < 10:
        raise NotIntegerError(f"operator set {opset} has no QLinearConv")
    if conv.clip != conv.y.limits and opset < _CLIP_OPSET:
        raise NotIntegerError(f"its activation is no saturation, and operator set {opset} has no Clip of whole numbers")


def _rewritten(model: onnx.ModelProto, view: GraphView, found: list[IntegerConv], floating: dict[str, str]) -> Integers:
    """The model with new nodes for all that was found."""
    require_memory(2 * model.ByteSize(), "the model with its integer convolutions")
    names = view.names
    last = {conv.last: conv for conv in found}
    gone = {index for conv in found for index in (conv.index, *conv.activations, conv.last)}
    gone |= _unread(view, found, gone)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    del graph.node[:]
    known = {tensor.name for tensor in model.graph.initializer} | {value.name for value in model.graph.input}
    known |= set(view.makers)
    for index, node in enumerate(model.graph.node):
        if index in last:
            graph.node.extend(_Writer(view, last[index], known).nodes(graph))
        elif index not in gone:
            graph.node.append(node)
            graph.node[-1].name = names[index]
    taken: dict[str, tuple[str, ...]] = {}
    said: set[int] = set()
    for conv in found:
        mine = sorted({*(index for index in conv.before if index in gone), *_done(conv), conv.last} - said)
        said.update(mine)
        taken[names[conv.index]] = tuple(names[index] for index in mine)
    return Integers(model=made, source=model, taken=taken, floating=floating, assumes=_assumed(view, found))


def _done(conv: IntegerConv) -> tuple[int, ...]:
    """Activations that saturation does."""
    return conv.activations if conv.clip == conv.y.limits else conv.activations[:-1]


def _unread(view: GraphView, found: list[IntegerConv], gone: set[int]) -> set[int]:
    """Nodes in front of convolutions whose results are no longer read."""
    before = {index for conv in found for index in conv.before}
    return {
        index
        for index in before
        if view.nodes[index].output[0] not in view.kept and gone.issuperset(view.readers[view.nodes[index].output[0]])
    }


def _assumed(view: GraphView, found: list[IntegerConv]) -> frozenset[str]:
    """Initializers that constants of the convolutions come from."""
    initial = set(view.constants.initializers)
    reached: set[str] = set()
    left = [name for conv in found for name in _constants(view, conv)]
    while left:
        name = left.pop()
        if name in reached or not name:
            continue
        reached.add(name)
        if name in view.makers:
            left += view.makers[name].input
    return frozenset(reached & initial)


def _constants(view: GraphView, conv: IntegerConv) -> Iterator[str]:
    """The inputs of nodes around a convolution that were read as constants; not those that carry activations."""
    node = view.nodes[conv.index]
    yield from node.input[1:]
    yield from view.makers[node.input[0]].input[1:]
    yield from view.nodes[conv.last].input[1:]
    for index in conv.activations:
        yield from view.nodes[index].input[1:]


class _Writer:
    """Writes one convolution; names that start with its own are free to use once they are not among the known."""

    def __init__(self, view: GraphView, conv: IntegerConv, known: set[str]) -> None:
        self.view = view
        self.conv = conv
        self.known = known

    def nodes(self, graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        """The nodes; their constants are added to the graph."""
        conv = self.conv
        node = self.view.nodes[conv.index]
        output = self.view.nodes[conv.last].output[0]
        clips = conv.clip != conv.y.limits
        parameters = {
            "x_scale": conv.x.scale,
            "x_zero_point": conv.x.zero,
            "w_scale": conv.w.scale,
            "w_zero_point": conv.w.zero,
            "y_scale": conv.y.scale,
            "y_zero_point": conv.y.zero,
        }
        if conv.bias is not None:
            parameters["bias"] = conv.bias
        given = {what: self._constant(graph, what, array) for what, array in parameters.items()}
        inputs = [conv.x.tensor, given["x_scale"], given["x_zero_point"]]
        inputs += [conv.w.tensor, given["w_scale"], given["w_zero_point"], given["y_scale"], given["y_zero_point"]]
        inputs += [given["bias"]] if conv.bias is not None else []
        made = self._free("linear") if clips else output
        linear = onnx.helper.make_node("QLinearConv", inputs, [made], self.view.names[conv.index])
        linear.attribute.extend(node.attribute)
        yield linear
        if clips:
            bounds = np.array(conv.clip, conv.y.zero.dtype)
            limits = [self._constant(graph, what, bound) for what, bound in zip(("low", "high"), bounds, strict=True)]
            yield onnx.helper.make_node("Clip", [made, *limits], [output], self.view.names[conv.activations[-1]])

    def _constant(self, graph: onnx.GraphProto, what: str, array: np.ndarray) -> str:
        name = self._free(what)
        graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _free(self, what: str) -> str:
        """A name that no tensor has yet."""
        name = f"{self.view.names[self.conv.index]}/{what}"
        while name in self.known:
            name += "_"
        self.known.add(name)
        return name


def _stated_types(graph: onnx.GraphProto) -> dict[str, int]:
    values = (*graph.input, *graph.value_info, *graph.output)
    return {value.name: value.type.tensor_type.elem_type for value in values if value.type.HasField("tensor_type")}
