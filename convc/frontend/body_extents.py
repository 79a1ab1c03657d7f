"""Types and extents inside the subgraphs of `If`, `Loop` and `Scan`, and what follows of them for the node itself.

A body is walked like a graph of its own (`convc.frontend.extents`). What a loop carries may change its extents from one
iteration to the next: then they are not known inside it, which a second walk finds. Of an `If` whose condition is known
only the branch that runs counts.

Source: ONNX operators, ``If``, ``Loop``, ``Scan`` (of operator set 9 and later; the older one has a batch).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, TypeProto, helper

from convc.frontend.constants import Constants
from convc.frontend.extents import Extents
from convc.frontend.model_file import subgraphs
from convc.frontend.node_types import shape_of

Kinds = list[TypeProto]
Inside = tuple[dict[str, TypeProto], list[Extents]]


def body_types(around: Extents, node: NodeProto, graphs: Sequence[GraphProto]) -> Inside:
    """Types that a node with subgraphs makes, and the tensors inside of each of them.

    Args:
        around: of the graph that the node is in.
        node: whose graphs these are.
        graphs: in the order of `convc.frontend.model_file.subgraphs`.

    Raises:
        NotInferredError: of an operator that is none of the three, and that ONNX does not know.
    """
    makers = {"If": _if, "Loop": _loop, "Scan": _scan}
    maker = makers.get(node.op_type)
    if maker is not None and (node.op_type != "Scan" or around.opset >= 9):
        return maker(around, node, graphs)
    walked = [_walked(around, graph, []) for graph in graphs]
    return around.infer(node, captured_by(graphs)), walked


def captured_by(graphs: Sequence[GraphProto]) -> list[str]:
    """Names that subgraphs read, at any depth; some are their own."""
    return list(dict.fromkeys(name for graph in graphs for name in _read(graph)))


def _read(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from filter(None, node.input)
        for inner in subgraphs(node):
            yield from _read(inner)
    yield from (value.name for value in graph.output)


def _walked(around: Extents, graph: GraphProto, inputs: Kinds, values: Sequence[np.ndarray | None] = ()) -> Extents:
    """A body with inputs of these types; what the body itself says of its inputs counts where they are not known."""
    constants = Constants(graph, around.constants.folder, {}, opset=around.opset, outer=around.constants)
    child = around.child(constants)
    for at, value in enumerate(graph.input):
        known = inputs[at] if at < len(inputs) else TypeProto()
        child.add_carried(value.name, known if known.WhichOneof("value") else value.type)
        known_value = values[at] if at < len(values) else None
        if known_value is not None:
            child.values[value.name] = known_value
    for tensor in graph.initializer:
        child.add_tensor(tensor.name, tensor)
    child.walk(graph, graph.value_info)
    return child


def _results(child: Extents, graph: GraphProto) -> Kinds:
    """Types of what a body gives."""
    return [child.type_of(value.name) or value.type for value in graph.output]


def _if(around: Extents, node: NodeProto, graphs: Sequence[GraphProto]) -> Inside:
    names = [attribute.name for attribute in node.attribute if attribute.HasField("g")]
    walked = [_walked(around, graph, []) for graph in graphs]
    condition = around.value_of(node.input[0]) if node.input else None
    kinds = [_results(child, graph) for child, graph in zip(walked, graphs, strict=True)]
    if isinstance(condition, np.ndarray) and condition.size == 1 and len(names) == len(kinds):
        taken = "then_branch" if condition.reshape(-1)[0] else "else_branch"
        kinds = [kind for name, kind in zip(names, kinds, strict=True) if name == taken] or kinds
        branch = names.index(taken) if taken in names else 0
        for name, value in zip(node.output, graphs[branch].output, strict=False):
            known = walked[branch].value_of(value.name)
            around.keep([name], [] if known is None else [known])
    made = [_common(*pair) for pair in zip(*kinds, strict=False)]
    return dict(zip(node.output, made, strict=False)), walked


def _loop(around: Extents, node: NodeProto, graphs: Sequence[GraphProto]) -> Inside:
    graph = graphs[0]
    trips = around.value_of(node.input[0]) if node.input and node.input[0] else None
    has_condition = len(node.input) > 1 and bool(node.input[1])
    condition = around.value_of(node.input[1]) if has_condition else np.array(True)
    goes_on = isinstance(condition, np.ndarray) and bool(condition.all())
    flags = [None, np.array(True)] if goes_on else []
    first = [_scalar(TensorProto.INT64), _scalar(TensorProto.BOOL)]
    carried = [around.type_of(name) or TypeProto() for name in node.input[2:]]
    child, carried = _carried(around, graph, first, carried, [], flags, 1)
    results = _results(child, graph)[1:]
    last = child.value_of(graph.output[0].name) if graph.output else None
    always = goes_on and isinstance(last, np.ndarray) and bool(last.all()) and isinstance(trips, np.ndarray)
    count = int(trips.reshape(-1)[0]) if always and isinstance(trips, np.ndarray) and trips.size == 1 else None
    made = carried + [_stacked(kind, count, 0) for kind in results[len(carried) :]]
    return dict(zip(node.output, made, strict=False)), [child]


def _scan(around: Extents, node: NodeProto, graphs: Sequence[GraphProto]) -> Inside:
    graph = graphs[0]
    given = {attribute.name: attribute for attribute in node.attribute}
    scanned = given["num_scan_inputs"].i if "num_scan_inputs" in given else 0
    states = len(node.input) - scanned
    kinds = [around.type_of(name) or TypeProto() for name in node.input]
    axes = list(given["scan_input_axes"].ints) if "scan_input_axes" in given else [0] * scanned
    slices: Kinds = []
    length: int | None = None
    for kind, axis in zip(kinds[states:], axes, strict=False):
        extent, part = _sliced(kind, axis)
        length = extent if length is None else length
        slices.append(part)
    child, carried = _carried(around, graph, [], kinds[:states], slices, [], 0)
    results = _results(child, graph)
    out_axes = list(given["scan_output_axes"].ints) if "scan_output_axes" in given else [0] * len(results)
    stacked = [_stacked(kind, length, axis) for kind, axis in zip(results[states:], out_axes, strict=False)]
    return dict(zip(node.output, carried + stacked, strict=False)), [child]


def _carried(
    around: Extents,
    graph: GraphProto,
    first: Kinds,
    carried: Kinds,
    others: Kinds,
    flags: Sequence[np.ndarray | None],
    skip: int,
) -> tuple[Extents, Kinds]:
    """Walk a body until what is carried has the same type before and behind it; ``skip``: results in front of these."""
    while True:
        child = _walked(around, graph, [*first, *carried, *others], flags)
        results = _results(child, graph)[skip : skip + len(carried)]
        wider = [_common(before, after) for before, after in zip(carried, results, strict=False)]
        wider += carried[len(wider) :]
        if all(_same(before, after) for before, after in zip(carried, wider, strict=True)):
            return child, carried
        carried = wider  # an extent less is known each time, or none is left


def _same(one: TypeProto, other: TypeProto) -> bool:
    return shape_of(one) == shape_of(other) and one.WhichOneof("value") == other.WhichOneof("value")


def _common(one: TypeProto, other: TypeProto | None = None) -> TypeProto:
    """What two types have in common."""
    own = TypeProto()
    own.CopyFrom(one)
    if other is None or not one.HasField("tensor_type"):
        return own
    if not other.HasField("tensor_type") or other.tensor_type.elem_type != one.tensor_type.elem_type:
        return TypeProto()
    mine = shape_of(one)
    theirs = shape_of(other)
    if mine is None or theirs is None or len(mine) != len(theirs):
        own.tensor_type.ClearField("shape")
        return own
    for dim, extent, told in zip(own.tensor_type.shape.dim, mine, theirs, strict=True):
        if extent != told or extent is None:
            dim.Clear()
    return own


def _sliced(kind: TypeProto, axis: int) -> tuple[int | None, TypeProto]:
    """The extent of an axis, and the type of a slice across it."""
    shape = shape_of(kind)
    if shape is None or not -len(shape) <= axis < len(shape):
        return None, TypeProto()
    rest = list(shape)
    return rest.pop(axis), helper.make_tensor_type_proto(kind.tensor_type.elem_type, rest)


def _stacked(kind: TypeProto, count: int | None, axis: int) -> TypeProto:
    """The type of ``count`` tensors side by side."""
    shape = shape_of(kind)
    if shape is None:
        own = TypeProto()
        own.CopyFrom(kind)
        return own
    whole = list(shape)
    whole.insert(axis if axis >= 0 else len(whole) + 1 + axis, count)
    return helper.make_tensor_type_proto(kind.tensor_type.elem_type, whole)


def _scalar(element_type: int) -> TypeProto:
    return helper.make_tensor_type_proto(element_type, [])
