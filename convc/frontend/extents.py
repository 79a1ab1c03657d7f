"""Types and extents of all tensors of a graph, and the values of what its nodes compute of extents.

The graph is walked once, node by node, in its order. ONNX's own inference says what types a node makes
(`convc.frontend.node_types`); where `Shape` or `Size` is taken of a tensor of known extents the result is a constant,
and so is what nodes make of that (`convc.frontend.shape_values`), which inference of later nodes is given.

What the model itself says of a tensor (``value_info``, and the types of outputs) may be left over from an edit: it is
believed only where nothing can be computed, and a contradiction is kept, to be said (`complete`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto

from convc.errors import ConvcError
from convc.frontend.constants import Constants
from convc.frontend.contrib_shapes import as_standard
from convc.frontend.corrected_extents import CORRECTED, corrected_extents
from convc.frontend.model_file import ONNX_DOMAINS, subgraphs
from convc.frontend.node_types import SMALL, NodeTypes, NotInferredError, as_data, is_settled, shape_of
from convc.frontend.open_extents import Cause, stated_type, without_placeholders
from convc.frontend.shape_values import Partial, Value, node_values, shape_value
from convc.frontend.tensors import type_name

_FEW = 16
"""Floating-point results of at most this many elements may be on the way to an extent."""
_CAUSES = 4
"""Causes that are kept of a tensor: a message names a few."""
_WHOLE = frozenset((TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8))

LookInside = Callable[["Extents", NodeProto, Sequence[GraphProto]], tuple[dict[str, TypeProto], list["Extents"]]]
"""Types that a node with subgraphs makes, and the tensors inside of each of them."""


class Extents:
    """The tensors of one graph: types, values that follow of extents, and causes of what is not known.

    Args:
        nodes: infers the types of nodes.
        constants: of the graph.
        look_inside: walks the subgraphs of a node (`convc.frontend.body_extents.body_types`).
        outer: of the graph around a subgraph.

    Attributes:
        types: by name.
        values: of small tensors that are constant, or computed of extents and constants, by name.
        causes: of tensors whose extents stay unknown, why.
        doubts: of tensors that are computed of such, why their values are not known.
        stale: sentences on what the model says and its nodes do not make.
        believed: tensors whose extents only the model states.
        bodies: what is known of the subgraphs of a node, by its place in the graph and their place in it.
    """

    def __init__(
        self, nodes: NodeTypes, constants: Constants, look_inside: LookInside, outer: Extents | None = None
    ) -> None:
        self.constants = constants
        self._nodes = nodes
        self._look_inside = look_inside
        self.outer = outer
        self._partial: dict[str, Partial] = {}
        self._absent: set[str] = set()
        self._data: dict[str, TensorProto | None] = {}
        self._stated: dict[str, TypeProto] = {}
        self.types: dict[str, TypeProto] = {}
        self.values: dict[str, np.ndarray] = {}
        self.causes: dict[str, tuple[Cause, ...]] = {}
        self.doubts: dict[str, tuple[Cause, ...]] = {}
        self.stale: list[str] = []
        self.believed: set[str] = set()
        self.bodies: dict[tuple[int, int], Extents] = {}

    @property
    def opset(self) -> int:
        """Version of the standard operators; 0 where there are none."""
        return self._nodes.opsets.get("", 0)

    def child(self, constants: Constants) -> Extents:
        """The tensors of a subgraph of a node of this graph, not walked yet."""
        return Extents(self._nodes, constants, self._look_inside, self)

    def add_input(self, name: str, kind: TypeProto, channels: int = 0) -> None:
        """A graph input, with the type that it has in this reading; ``channels``: that a convolution asks of it."""
        self.types[name] = without_placeholders(kind)
        if not is_settled(self.types[name]):
            self.causes[name] = (Cause(input=name, shape=shape_of(self.types[name]), channels=channels),)

    def add_carried(self, name: str, kind: TypeProto) -> None:
        """An input of a subgraph, which is unknown outside of it."""
        self.add_input(name, kind)
        if name in self.causes:
            reason = "its extents change between iterations, or are unknown outside of the loop"
            self.causes[name] = (Cause(node=name, op_type="input of a body", reason=reason),)

    def add_tensor(self, name: str, tensor: TensorProto) -> None:
        """A constant, whose value is read on demand."""
        kind = TypeProto()
        kind.tensor_type.elem_type = tensor.data_type
        kind.tensor_type.shape.SetInParent()
        for extent in tensor.dims:
            kind.tensor_type.shape.dim.add(dim_value=extent)
        self.types[name] = kind

    def walk(self, graph: GraphProto, stated: Iterable[ValueInfoProto], named: Mapping[str, int] | None = None) -> None:
        """Go through the nodes of a graph.

        Args:
            graph: whose inputs and initializers were added.
            stated: what the model says of other tensors.
            named: what names of extents stand for.
        """
        self._stated = {value.name: stated_type(value.type, named or {}) for value in stated}
        for place, node in enumerate(graph.node):
            if node.op_type == "Constant" and node.domain in ONNX_DOMAINS and len(node.output) == 1:
                self._constant(place, node)
            else:
                self._visit(place, as_standard(node))

    def type_of(self, name: str) -> TypeProto | None:
        """The type of a tensor of this graph or of one around it."""
        found = self.types.get(name)
        return self.outer.type_of(name) if found is None and self.outer is not None else found

    def value_of(self, name: str) -> Value | None:
        """The value of a small tensor of this graph or of one around it; None where it is not known."""
        if name in self.values:
            return self.values[name]
        if name in self._partial or name in self._absent:
            return self._partial.get(name)
        if name not in self.types:
            return self.outer.value_of(name) if self.outer is not None else None
        array = self._stored(name)
        if array is None:
            self._absent.add(name)
        else:
            self.values[name] = array
        return array

    def why(self, name: str) -> tuple[Cause, ...]:
        """Causes of unknown extents of a tensor; empty where all are known."""
        if name not in self.types and self.outer is not None:
            return self.outer.why(name)
        return self.causes.get(name, ())

    def doubts_of(self, name: str) -> tuple[Cause, ...]:
        """Tensors of unknown extents that a tensor is computed of, though its own may be known: why theirs are not."""
        if name not in self.types and self.outer is not None:
            return self.outer.doubts_of(name)
        return self.doubts.get(name, ())

    def is_believed(self, name: str) -> bool:
        """Whether only the model states its extents."""
        if name not in self.types and self.outer is not None:
            return self.outer.is_believed(name)
        return name in self.believed

    def infer(self, node: NodeProto, captured: Iterable[str] = ()) -> dict[str, TypeProto]:
        """Types that ONNX's inference gives a node; `NotInferredError` where it says nothing."""
        names = [name for name in (*node.input, *captured) if name]
        found = {name: kind for name in names if (kind := self.type_of(name)) is not None}
        data = {name: tensor for name in node.input if (tensor := self._tensor(name)) is not None}
        made = self._nodes.infer(node, found, data)
        if node.op_type in CORRECTED and node.domain in ONNX_DOMAINS:
            self._correct(node, made)
        return made

    def _correct(self, node: NodeProto, made: dict[str, TypeProto]) -> None:
        """Put other extents in the place of those that inference is known to have wrong."""
        inputs = [self.type_of(name) if name else None for name in node.input]
        shapes = [shape_of(kind) for kind in inputs]
        whole = [None if shape is None or None in shape else tuple(e or 0 for e in shape) for shape in shapes]
        values = [self.value_of(name) if name else None for name in node.input]
        known = [value if isinstance(value, np.ndarray) else None for value in values]
        shape = corrected_extents(node, whole, known)
        for name in node.output if shape is not None else ():
            if name in made:  # also the indices of a MaxPool
                made[name].tensor_type.shape.CopyFrom(
                    TensorShapeProto(dim=[TensorShapeProto.Dimension(dim_value=extent) for extent in shape or ()])
                )

    def _stored(self, name: str) -> np.ndarray | None:
        """The value of an initializer or of an input that counts as constant, where it is small."""
        if name not in self.constants.initializers and name not in self.constants.bound:
            return None
        if not _is_small(self.types[name]):
            return None
        try:
            return self.constants.value(name)
        except ConvcError:  # of a type that is not read: no operator takes extents from it
            return None

    def _constant(self, place: int, node: NodeProto) -> None:
        """The type of a `Constant`, and its value where it is small; one that is large is not copied."""
        name = node.output[0]
        tensor = next((each.t for each in node.attribute if each.name == "value"), None)
        if tensor is None:
            self._visit(place, node)
        else:
            self.add_tensor(name, tensor)
        if tensor is None or math.prod(tensor.dims) <= SMALL:
            try:
                self.keep([name], [self.constants.of_constant(node)])
            except ConvcError:  # of a type that is not read
                self._absent.add(name)

    def _visit(self, place: int, node: NodeProto) -> None:
        """Find out what a node makes."""
        graphs = subgraphs(node)
        reason = ""
        made: dict[str, TypeProto] = {}
        try:
            made = self._of_bodies(place, node, graphs) if graphs else self.infer(node)
        except NotInferredError as error:
            reason = str(error)
        self._settle(node, made, reason)
        if node.domain in ONNX_DOMAINS and not graphs:
            self._evaluate(node)

    def _of_bodies(self, place: int, node: NodeProto, graphs: Sequence[GraphProto]) -> dict[str, TypeProto]:
        """What a node with subgraphs makes."""
        if not self._nodes.has_budget():
            raise NotInferredError("its subgraphs are nested too deeply")
        made, walked = self._look_inside(self, node, graphs)
        self.bodies |= {(place, at): child for at, child in enumerate(walked)}
        return made

    def _tensor(self, name: str) -> TensorProto | None:
        """A value as inference of a node takes it."""
        if name not in self._data:
            value = self.value_of(name) if name else None
            self._data[name] = as_data(value) if isinstance(value, np.ndarray) else None
        return self._data[name]

    def _settle(self, node: NodeProto, made: Mapping[str, TypeProto], reason: str) -> None:
        """Keep what a node makes, completed by what the model says, and why something of it is not known."""
        inherited = any(self.is_believed(name) for name in node.input if name)
        causes = self._union(node, self.why)
        doubts = tuple(dict.fromkeys((*causes, *self._union(node, self.doubts_of))))[:_CAUSES]
        own = Cause(node=node.name or next(filter(None, node.output), ""), op_type=node.op_type, reason=reason)
        for name in filter(None, node.output):
            kind = made.get(name, TypeProto())
            believed = inherited
            if name in self._stated:
                completed = complete(kind, self._stated[name], name)
                believed = believed or completed.believed
                if completed.contradiction:
                    self.stale.append(completed.contradiction)
            self.types[name] = kind
            if believed:
                self.believed.add(name)
            if doubts:
                self.doubts[name] = doubts
            if not is_settled(kind):
                self.causes[name] = causes or (() if reason else doubts) or (own,)

    def _union(self, node: NodeProto, of: Callable[[str], tuple[Cause, ...]]) -> tuple[Cause, ...]:
        return tuple(dict.fromkeys(cause for name in node.input if name for cause in of(name)))[:_CAUSES]

    def _evaluate(self, node: NodeProto) -> None:
        """Compute what a node makes, where that is a few numbers and what it is given is known."""
        if node.op_type in ("Shape", "Size") and node.output and node.input:
            shape = shape_of(self.type_of(node.input[0]))
            made = None if shape is None else shape_value(node, shape)
            self.keep([node.output[0]], [] if made is None else [made])
            return
        names = [name for name in node.output if name]
        if not self.opset or not all(_is_small(self.types[name]) for name in names):
            return
        given = [self.value_of(name) if name else None for name in node.input]
        if all(value is not None for name, value in zip(node.input, given, strict=True) if name):
            self.keep(names, node_values(node, self.opset, given) or [])

    def keep(self, names: Sequence[str], made: Sequence[Value]) -> None:
        """Keep values of tensors that are small."""
        for name, value in zip(names, made, strict=False):
            if isinstance(value, Partial):
                self._partial[name] = value
            elif value.size <= SMALL:
                self.values[name] = np.asarray(value)  # numpy makes scalars of arrays without axes


def _is_small(kind: TypeProto) -> bool:
    """Whether a tensor may hold extents, or what is on the way to some."""
    shape = shape_of(kind)
    most = SMALL if kind.tensor_type.elem_type in _WHOLE else _FEW
    return shape is not None and None not in shape and math.prod(extent or 0 for extent in shape) <= most


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A type that was completed.

    Attributes:
        believed: whether some extent is what the model says, and nothing else says it.
        contradiction: what the model says against what its nodes make; empty where they agree.
    """

    believed: bool = False
    contradiction: str = ""


def complete(kind: TypeProto, stated: TypeProto, name: str) -> Completed:
    """Add to the type of a tensor what the model says of it and nodes leave open; ``kind`` is changed."""
    if kind.WhichOneof("value") is None:
        kind.CopyFrom(stated)
        return Completed(believed=shape_of(stated) is not None)
    if not (kind.HasField("tensor_type") and stated.HasField("tensor_type")):
        return Completed()
    own = kind.tensor_type
    said = stated.tensor_type
    if own.elem_type and said.elem_type and own.elem_type != said.elem_type:
        return _contradicted(name, type_name(said.elem_type), type_name(own.elem_type))
    own.elem_type = own.elem_type or said.elem_type
    theirs = shape_of(stated)
    if theirs is None:
        return Completed()
    mine = shape_of(kind)
    if mine is None:
        own.shape.CopyFrom(said.shape)
        return Completed(believed=True)
    differ = [None not in pair and pair[0] != pair[1] for pair in zip(mine, theirs, strict=False)]
    if len(mine) != len(theirs) or any(differ):
        return _contradicted(name, _shown(theirs), _shown(mine))
    believed = False
    for at, (extent, told) in enumerate(zip(mine, theirs, strict=True)):
        if extent is None and told is not None:
            own.shape.dim[at].dim_value = told
            believed = True
    return Completed(believed=believed)


def _contradicted(name: str, said: str, made: str) -> Completed:
    return Completed(contradiction=f"the model declares {name!r} as {said}, its nodes compute {made}")


def _shown(shape: tuple[int | None, ...]) -> str:
    return f"[{', '.join('?' if extent is None else str(extent) for extent in shape)}]"
