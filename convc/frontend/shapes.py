"""The tensors of a graph as they are known before it runs: element types, extents, and values that follow of extents.

`convc.frontend.extents` walks the graph; here is how a model is read for it, and what the others see of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import onnx
from onnx import TypeProto

from convc.frontend.body_extents import body_types
from convc.frontend.constants import Constants
from convc.frontend.convolution_nodes import is_convolution
from convc.frontend.extents import Extents
from convc.frontend.node_types import NodeTypes, opsets_of, shape_of
from convc.frontend.open_extents import named_extents

_SAID = 3
"""Contradictions that are said one by one."""


class ValueType(msgspec.Struct, frozen=True, kw_only=True):
    """Type of a tensor as far as it is known: ONNX element type (0: unknown), extents (None: all, or one, unknown)."""

    element_type: int
    shape: tuple[int | None, ...] | None


UNKNOWN = ValueType(element_type=0, shape=None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """The tensors of a graph, as far as they are known before it runs.

    Attributes:
        types: of its tensors, by name; those of which nothing is known are left out.
        extents: the walk that found them: causes, subgraphs.
        stale: sentences on what the model says of tensors and its nodes do not make, or that cannot be checked.
    """

    types: Mapping[str, ValueType]
    extents: Extents
    stale: tuple[str, ...] = field(default=())


def infer_facts(
    model: onnx.ModelProto,
    constants: Constants,
    batch: int | None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Facts:
    """Find types and extents in the main graph; ``constants`` learn what follows of the extents of its inputs.

    Args:
        model: whose graph it is; its nodes are in an order in which they can run.
        constants: of the graph.
        batch: replaces the first extent of every 4-D graph input that is not a constant, and that of a 3-D or 5-D one
            where it is open.
        shapes: of graph inputs, by name, in place of those that the model states.
    """
    graph = model.graph
    extents = Extents(NodeTypes(opsets_of(model), model.ir_version), constants, body_types)
    channels = _channels(graph)
    settled: list[tuple[TypeProto, tuple[int, ...]]] = []
    for value in graph.input:
        if value.name in constants.initializers:
            continue
        asked = (shapes or {}).get(value.name)
        kind = _input_type(value.type, None if value.name in constants.bound else batch, asked)
        extents.add_input(value.name, kind, channels.get(value.name, 0))
        shape = shape_of(kind)
        if shape is not None and all(extent is not None for extent in shape):
            settled.append((value.type, tuple(extent or 0 for extent in shape)))
    for tensor in graph.initializer:
        if tensor.name in constants.initializers:
            extents.add_tensor(tensor.name, tensor)
    extents.walk(graph, (*graph.value_info, *graph.output), named_extents(settled))
    constants.learn({name: value for name, value in extents.values.items() if name not in constants.initializers})
    said = (*_said(extents.stale), *_believed(graph, extents))
    return Facts(types=types_of(extents), extents=extents, stale=said)


def infer_types(
    model: onnx.ModelProto,
    constants: Constants,
    batch: int | None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Mapping[str, ValueType]:
    """Types of the tensors of the main graph, by name; see `infer_facts`."""
    return infer_facts(model, constants, batch, shapes).types


def types_of(extents: Extents) -> dict[str, ValueType]:
    """Types of the tensors of one graph and of those around it, by name."""
    around = {} if extents.outer is None else types_of(extents.outer)
    return around | {
        name: ValueType(element_type=kind.tensor_type.elem_type, shape=shape_of(kind))
        for name, kind in extents.types.items()
        if kind.HasField("tensor_type")
    }


def _channels(graph: onnx.GraphProto) -> dict[str, int]:
    """Channels of tensors that a convolution with stored weights reads, by name."""
    dims = {tensor.name: tensor.dims for tensor in graph.initializer}
    found: dict[str, int] = {}
    for node in graph.node:
        w = dims.get(node.input[1], ()) if node.op_type in ("Conv", "ConvTranspose") and len(node.input) > 1 else ()
        if len(w) > 1:
            groups = next((each.i for each in node.attribute if each.name == "group"), 1)
            found.setdefault(node.input[0], w[0] if node.op_type == "ConvTranspose" else w[1] * groups)
    return found


def _input_type(stated: TypeProto, batch: int | None, shape: tuple[int, ...] | None) -> TypeProto:
    """The type of an input; ``batch`` replaces the first extent of 4-D ones and open ones of others, ``shape`` all."""
    kind = TypeProto()
    kind.CopyFrom(stated)
    if not kind.HasField("tensor_type"):
        return kind
    dims = kind.tensor_type.shape.dim
    if batch is not None and (len(dims) == 4 or (len(dims) in (3, 5) and not dims[0].HasField("dim_value"))):
        dims[0].dim_value = batch
    if shape is not None:
        kind.tensor_type.ClearField("shape")
        kind.tensor_type.shape.SetInParent()
        for extent in shape:
            kind.tensor_type.shape.dim.add(dim_value=extent)
    return kind


def _believed(graph: onnx.GraphProto, extents: Extents) -> list[str]:
    """A sentence where convolutions are read with extents that the model says, and that cannot be checked."""
    given = [node.input[0] for node in graph.node if is_convolution(node) and node.input]
    named = list(dict.fromkeys(name for name in given if extents.is_believed(name)))
    more = f" and of {len(named) - 1} more" if len(named) > 1 else ""
    return (
        [f"the extents of {named[0]!r}{more} are those that the model declares: shape inference does not give them"]
        if named
        else []
    )


def _said(stale: list[str]) -> tuple[str, ...]:
    """The first contradictions, and how many more there are."""
    shown = [f"{sentence}: that is taken" for sentence in stale[:_SAID]]
    if len(stale) > _SAID:
        shown.append(f"{len(stale) - _SAID} more declared types differ from what the nodes compute")
    return tuple(shown)
