"""Functions of a model, put in the place of their calls.

Exporters write repeated parts of a network as functions (PyTorch's does for modules). Their convolutions shall run from
PTX like all others, so calls are replaced by what they call, at any depth and inside branches and loops too. Onnx's own
inliner leaves out the defaults of attributes (`FunctionProto.attribute_proto`), and functions of another operator set.

Of the latter a node that the operator set of the model reads as that of the function does (`convc.frontend.same_node`)
is put in its place. Any other stays behind a call, of a function that has this node alone and the operator set that it
was written for; the host runs it (`unwrapped`).

Source: ONNX IR, "Functions": formal parameters, attribute references and their defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

from convc.errors import ConvcError, ModelError
from convc.frontend.expand_causal import expand_causal_conv
from convc.frontend.expand_gradients import expand_gradients
from convc.frontend.graph_view import needed
from convc.frontend.model_file import check_header, subgraphs
from convc.frontend.order import sorted_model
from convc.frontend.same_node import as_in

MAX_NODES = 1_000_000
"""A few functions that call one another can stand for more nodes than memory holds."""

DOMAIN = "convc.other_operator_set"
"""Of the functions that stand for one node of another operator set than the model's."""

Key = tuple[str, str, str]
"""What a call names: domain, operator, overload."""


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Put nodes in order, replace the calls of a model's functions, and write causal convolutions and gradients out.

    The same object comes back where there is nothing to do.

    Raises:
        NodeError: a gradient has other inputs than dY, X and W.
        ModelError: a function calls itself, stands for too many nodes, or is called with more than it takes; or nodes
            read one another's outputs in a circle.
    """
    model = sorted_model(model)
    if all(_stays(function) for function in model.functions):
        return expand_gradients(expand_causal_conv(model))
    try:
        _check_size(model)
        whole = expand_gradients(expand_causal_conv(_Inliner(model).whole()))
        check_header(whole, oldest_opset=0)  # names of the functions are names of the graph now
    except RecursionError:
        raise ModelError("the functions of the model are nested too deeply") from None
    except ConvcError:
        raise
    except Exception as error:  # protobuf raises several unrelated types
        lines = str(error).strip().splitlines()
        raise ModelError(f"the functions of the model cannot be inlined: {lines[0] if lines else ''}") from None
    return whole


def unwrapped(
    node: NodeProto, function: FunctionProto, opsets: Mapping[str, int]
) -> tuple[NodeProto, Mapping[str, int]]:
    """The node that a call stands for, and its operator sets; the call itself where the function has more.

    Args:
        node: a call.
        function: what it calls.
        opsets: of the model, by domain.
    """
    if not _stays(function) or list(node.input) != list(function.input) or list(node.output) != list(function.output):
        return node, opsets
    return function.node[0], _opsets(function.opset_import)


def _stays(function: FunctionProto) -> bool:
    """Whether a function is one that was made here."""
    if function.domain != DOMAIN or len(function.node) != 1:
        return False
    (node,) = function.node
    return list(function.input) == needed(node) and list(function.output) == [name for name in node.output if name]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """Where nodes stand.

    Attributes:
        names: what tensors are called in the new graph; others keep their names.
        attributes: what references to attributes of the function mean.
        opsets: what the nodes were written for.
        target: the operator sets of where they are put.
        prefix: in front of names that are made, in a function; "" where names stay.
        calls: the names of the calls on the way, for messages.
    """

    names: dict[str, str]
    attributes: Mapping[str, AttributeProto]
    opsets: Mapping[str, int]
    target: dict[str, int]
    prefix: str = ""
    calls: tuple[str, ...] = field(default=())


class _Inliner:
    """Makes the model without calls."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._functions = {_key(function): function for function in model.functions}
        self._taken = set(_all_names(model.graph))
        self._kept: list[FunctionProto] = []

    def whole(self) -> onnx.ModelProto:
        """A copy of the model with its functions in place."""
        opsets = _opsets(self._model.opset_import)
        scope = _Scope(names={}, attributes={}, opsets=dict(opsets), target=opsets)
        nodes = self._placed(self._model.graph.node, scope)
        whole = onnx.ModelProto()
        whole.CopyFrom(self._model)
        del whole.functions[:]
        del whole.graph.node[:]
        whole.graph.node.extend(nodes)
        whole.functions.extend(self._kept)
        if self._kept:
            opsets[DOMAIN] = 1
        known = {_plain(entry.domain) for entry in whole.opset_import}
        whole.opset_import.extend(
            onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items() if domain not in known
        )
        return whole

    def _placed(self, nodes: Iterable[NodeProto], scope: _Scope) -> list[NodeProto]:
        """Nodes as they stand in the new graph, calls replaced."""
        placed: list[NodeProto] = []
        for node in nodes:
            function = self._functions.get(_key(node))
            if function is not None and not _stays(function):
                placed += self._body(self._renamed(node, scope, scope.target), function, scope)
            else:
                placed += self._one(node, scope)
        return placed

    def _body(self, call: NodeProto, function: FunctionProto, around: _Scope) -> list[NodeProto]:
        """What stands in the place of a call, whose names and attributes are those of the new graph."""
        own = call.name or next(filter(None, call.output), "") or call.op_type
        where = " > ".join((*around.calls, own))
        for what, given, formal in (("inputs", call.input, function.input), ("outputs", call.output, function.output)):
            if len(given) > len(formal):
                raise ModelError(
                    f"the function {function.name!r} has {len(formal)} {what}, and a call has {len(given)}", where=where
                )
        inputs = [*call.input, *[""] * (len(function.input) - len(call.input))]
        names = dict(zip(function.input, inputs, strict=True))
        attributes = {default.name: default for default in function.attribute_proto}
        attributes |= {given.name: given for given in call.attribute}
        scope = _Scope(
            names=names,
            attributes=attributes,
            opsets=_opsets(function.opset_import),
            target=around.target,
            prefix=own,
            calls=(*around.calls, own),
        )
        copies: list[NodeProto] = []
        for formal, given in zip(function.output, call.output, strict=False):
            if given and names.get(formal):  # an input that is handed on, or an output that is given twice
                copies.append(onnx.helper.make_node("Identity", [names[formal]], [given], f"{own}/{formal}"))
            elif given:
                names[formal] = given
        return [*self._placed(function.node, scope), *copies]

    def _one(self, node: NodeProto, scope: _Scope) -> list[NodeProto]:
        """A node that is no call, or what calls it in another operator set."""
        domain = _plain(node.domain)
        own = scope.opsets.get(domain)
        if own is not None:
            scope.target.setdefault(domain, own)
        target = scope.target.get(domain)
        if not scope.prefix or own is None or target is None or own == target:
            return [self._renamed(node, scope, scope.target)]
        if domain:
            return [self._renamed(node, scope, scope.target)]
        if node.op_type == "Constant":  # its attribute may be one of the function
            node = self._renamed(node, scope, scope.target)
            like = as_in(node, own, target)
            return [like or self._called(node, dict(scope.opsets))]
        like = as_in(node, own, target)
        if like is not None:
            return [self._renamed(like, scope, scope.target)]
        opsets = dict(scope.opsets)
        made = self._renamed(node, scope, opsets)
        return [self._called(made, opsets)]

    def _called(self, node: NodeProto, opsets: dict[str, int]) -> NodeProto:
        """A call of a function that has this node alone."""
        reads = needed(node)
        makes = [name for name in node.output if name]
        name = f"{node.op_type}_{len(self._kept)}"
        if any(_key(inner)[0] == DOMAIN for graph in subgraphs(node) for inner in graph.node):
            opsets[DOMAIN] = 1
        imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        self._kept.append(onnx.helper.make_function(DOMAIN, name, reads, makes, [node], imports))
        return onnx.helper.make_node(name, reads, makes, node.name, domain=DOMAIN)

    def _renamed(self, node: NodeProto, scope: _Scope, target: dict[str, int]) -> NodeProto:
        """A copy with the names of the new graph, its references to attributes resolved, and its subgraphs placed."""
        made = NodeProto()
        made.CopyFrom(node)
        del made.attribute[:]
        if scope.prefix:
            names = [self._name(name, scope) for name in node.input]
            while names and not names[-1]:
                names.pop()
            made.input[:] = names
            made.output[:] = [self._name(name, scope) for name in node.output]
            made.name = f"{scope.prefix}/{node.name}" if node.name else ""
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                made.attribute.append(self._attribute(attribute, scope, target))
            elif attribute.ref_attr_name in scope.attributes:
                given = made.attribute.add()
                given.CopyFrom(scope.attributes[attribute.ref_attr_name])
                given.name = attribute.name
        return made

    def _attribute(self, attribute: AttributeProto, scope: _Scope, target: dict[str, int]) -> AttributeProto:
        if not attribute.HasField("g") and not attribute.graphs:
            return attribute
        made = AttributeProto()
        made.CopyFrom(attribute)
        if attribute.HasField("g"):
            made.g.CopyFrom(self._graph(attribute.g, scope, target))
        del made.graphs[:]
        made.graphs.extend(self._graph(graph, scope, target) for graph in attribute.graphs)
        return made

    def _graph(self, graph: GraphProto, around: _Scope, target: dict[str, int]) -> GraphProto:
        """A subgraph: what it makes hides what has the same name around it."""
        names = dict(around.names)
        inner = _Scope(
            names=names,
            attributes=around.attributes,
            opsets=around.opsets,
            target=target,
            prefix=around.prefix,
            calls=around.calls,
        )
        made = GraphProto()
        made.CopyFrom(graph)
        del made.node[:]
        if around.prefix:
            own = [*made.input, *made.initializer, *(tensor.values for tensor in made.sparse_initializer)]
            for value in own:
                names.pop(value.name, None)
            for name in (name for node in graph.node for name in node.output):
                names.pop(name, None)
            for value in own:
                value.name = self._name(value.name, inner)
        made.node.extend(self._placed(graph.node, inner))
        if around.prefix:
            del made.value_info[:]  # they say nothing that inference does not find
            for value in made.output:
                value.name = self._name(value.name, inner)
        return made

    def _name(self, name: str, scope: _Scope) -> str:
        """What a tensor is called in the new graph; one that a function makes gets a name of its own."""
        if not name or not scope.prefix:
            return name
        if name not in scope.names:
            fresh = base = f"{scope.prefix}/{name}"
            count = 1
            while fresh in self._taken:
                count += 1
                fresh = f"{base}_{count}"
            self._taken.add(fresh)
            scope.names[name] = fresh
        return scope.names[name]


def _key(named: NodeProto | FunctionProto) -> Key:
    name = named.op_type if isinstance(named, NodeProto) else named.name
    return _plain(named.domain), name, named.overload


def _plain(domain: str) -> str:
    """The domain of the standard operators by its usual name."""
    return "" if domain == "ai.onnx" else domain


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {_plain(entry.domain): entry.version for entry in imports}


def _all_names(graph: GraphProto) -> Iterator[str]:
    for value in (*graph.input, *graph.initializer, *graph.output):
        yield value.name
    for node in graph.node:
        yield from node.input
        yield from node.output
        for inner in subgraphs(node):
            yield from _all_names(inner)


def _check_size(model: onnx.ModelProto) -> None:
    """Raise `ModelError` where functions call themselves, or expand to more nodes than any network has."""
    functions = {_key(function): function for function in model.functions}
    sizes: dict[Key, int] = {}
    open_calls: set[Key] = set()

    def size(nodes: Iterable[NodeProto]) -> int:
        """Nodes that these stand for."""
        return sum(_expanded(node) for node in nodes)

    def _expanded(node: NodeProto) -> int:
        """Nodes that one node stands for."""
        count = 1 + sum(size(graph.node) for graph in subgraphs(node))
        key = _key(node)
        if key not in functions:
            return count
        if key in open_calls:
            raise ModelError(f"the function {node.op_type!r} calls itself")
        if key not in sizes:
            open_calls.add(key)
            sizes[key] = size(functions[key].node)
            open_calls.remove(key)
        return count + sizes[key]

    total = size(model.graph.node)
    if total > MAX_NODES:
        raise ModelError(f"with its functions inlined the model has {total} nodes, more than {MAX_NODES}")
