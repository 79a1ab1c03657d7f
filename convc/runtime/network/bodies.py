"""Nodes whose graphs have convolutions in them: `If`, `Loop` and `Scan`, run here so that those come from their PTX.

Each graph inside such a node is a graph like the main one (`convc.runtime.network.executor.Graph`), whose inputs are
its own and what it reads of the graphs around it. It is made once, when it first runs. What goes from turn to turn is
`convc.runtime.network.loop` and `convc.runtime.network.scan`, which the host has too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TypeProto, ValueInfoProto, helper

from convc.errors import ConvcError, NodeError
from convc.frontend.graph_view import free_names
from convc.frontend.model_file import ONNX_DOMAINS, subgraphs
from convc.frontend.onnx_reader import is_convolution
from convc.runtime.network.loop import run_loop
from convc.runtime.network.node_info import node_place
from convc.runtime.network.scan import run_scan
from convc.runtime.network.steps import Value

_SCAN_WITHOUT_BATCH = 9


class Runner(Protocol):
    """A graph that is ready to run, for some number of turns."""

    def __call__(self, feeds: Mapping[str, Value], turn: int) -> Sequence[Value]: ...


MakeRunner = Callable[[GraphProto, str], Runner]
"""Makes a graph ready to run, whose nodes have names that begin with a text."""


def is_run_here(node: NodeProto, opset: int) -> bool:
    """Whether a node is one of those whose graphs can be run from outside."""
    known = node.op_type in ("If", "Loop") or (node.op_type == "Scan" and opset >= _SCAN_WITHOUT_BATCH)
    return known and node.domain in ONNX_DOMAINS


class BodyNode:
    """One such node.

    Args:
        node: for which `is_run_here` holds.
        name: in its graph.
        make: makes its graphs ready to run.
    """

    def __init__(self, node: NodeProto, name: str, make: MakeRunner) -> None:
        self._node = node
        self._name = name
        self._make = make
        self._attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        self._runners: dict[str, Runner] = {}

    def run(self, values: Mapping[str, Value]) -> list[Value]:
        """The outputs that have names, in their order.

        Args:
            values: by name, at least what `convc.runtime.network.node_info.needed` lists.

        Raises:
            NodeError: the node is not as ONNX defines it.
            ConvcError: of the nodes inside.
        """
        node = self._node
        given = [values[name] if name else None for name in node.input]
        try:
            match node.op_type:
                case "If":
                    made = self._branch(given[0], values)
                case "Loop":
                    body = self._attributes["body"]
                    turns = self._body(body, values)
                    most, condition, *carried = [*given, None, None][: max(2, len(given))]
                    made = run_loop(most, condition, carried, turns, _types(body))
                case _:
                    body = self._attributes["body"]
                    scanned = self._attributes["num_scan_inputs"]
                    made = run_scan(given, scanned, self._attributes, self._body(body, values), _types(body))
        except ConvcError:
            raise
        except (KeyError, ValueError, TypeError, IndexError) as error:
            message = f"the node is not as ONNX defines it: {type(error).__name__}: {error}"
            raise NodeError(message, where=node_place(node, self._name)) from None
        return [value for name, value in zip(node.output, made, strict=False) if name]

    def _branch(self, condition: Any, values: Mapping[str, Value]) -> Sequence[Value]:
        """The results of the branch that a condition chooses."""
        flag = np.asarray(condition)
        if flag.dtype != np.bool_ or flag.size != 1:
            raise ValueError(f"a condition is one boolean, got {flag.dtype} of shape {flag.shape}")
        label = "then_branch" if flag.reshape(-1)[0] else "else_branch"
        graph = self._attributes[label]
        return self._runner(label, graph)(_captured(graph, values), 0)

    def _body(self, graph: GraphProto, values: Mapping[str, Value]) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """The body, to be called with the values of its inputs once for each turn."""
        runner = self._runner("body", graph)
        around = _captured(graph, values)
        names = [value.name for value in graph.input]
        turn = 0

        def run(given: Sequence[Any]) -> Sequence[Any]:
            nonlocal turn
            made = runner({**around, **dict(zip(names, given, strict=True))}, turn)
            turn += 1
            return made

        return run

    def _runner(self, label: str, graph: GraphProto) -> Runner:
        if label not in self._runners:
            self._runners[label] = self._make(graph, f"{self._name}/{label}/")
        return self._runners[label]


def as_main_graph(graph: GraphProto) -> GraphProto:
    """A graph inside a node as one of its own: what it reads of the graphs around it are inputs too.

    What it says of its inputs is left out: the values decide.
    """
    whole = GraphProto()
    whole.CopyFrom(graph)
    whole.name = graph.name or "body"
    own = [value.name for value in graph.input]
    del whole.input[:]
    whole.input.extend(ValueInfoProto(name=name) for name in dict.fromkeys([*own, *_names_around(graph)]))
    return whole


def _names_around(graph: GraphProto) -> list[str]:
    """Names that a graph reads and does not make."""
    return list(dict.fromkeys(free_names(graph)))


def _captured(graph: GraphProto, values: Mapping[str, Value]) -> dict[str, Value]:
    return {name: values[name] for name in _names_around(graph)}


def _types(graph: GraphProto) -> list[TypeProto]:
    return [value.type for value in graph.output]


def hidden_convolutions(node: onnx.NodeProto, functions: dict[tuple[str, str], onnx.FunctionProto]) -> int:
    """Convolutions inside a node: in its subgraphs, and in the function that it calls (once for each call)."""
    return sum(map(is_convolution, _inside(node, functions, frozenset())))


def _inside(
    node: onnx.NodeProto, functions: dict[tuple[str, str], onnx.FunctionProto], seen: frozenset[tuple[str, str]]
) -> Iterator[onnx.NodeProto]:
    """Every node inside a node, at any depth; a function inside itself is not entered again."""
    bodies = [graph.node for graph in subgraphs(node)]
    key = (node.domain, node.op_type)
    if key in functions and key not in seen:
        bodies.append(functions[key].node)
        seen = seen | {key}
    for body in bodies:
        for inner in body:
            yield inner
            yield from _inside(inner, functions, seen)
