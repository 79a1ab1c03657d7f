"""Nodes that run on the host: everything but convolutions, by ONNX's own reference implementation.

`onnx.reference` has an implementation of every standard operator, in numpy, for each version of the operator. A node
is built once, as a graph of its own, and then run as often as needed. `If`, `Loop` and `Scan` with all that is in them,
and functions that are still called (`convc.runtime.network.inline`), are one such node: convolutions inside them run
here too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto
from onnx.reference import ReferenceEvaluator

from convc.errors import ConvcError, InputError, NodeError
from convc.frontend.model_file import subgraphs
from convc.runtime.network import ort_session
from convc.runtime.network.node_info import node_place, refuse_external
from convc.runtime.network.onnxruntime_nodes import RuntimeNode, takes
from convc.runtime.network.opset_compat import as_defined
from convc.runtime.network.values import Value, describe_value

HOSTS = ("reference", "onnxruntime")
"""Who runs the nodes: `onnx.reference`, which has all operators, or onnxruntime where it can, which is faster."""


class HostNodes:
    """Builds nodes that run on the host.

    Args:
        model: for its operator sets and functions.
        by: one of `HOSTS`.
        types: of the tensors of the main graph, as far as they are stated; some operators need those of their inputs.

    Raises:
        NodeError: a function of the model uses what the reference implementation does not have.
    """

    def __init__(self, model: ModelProto, types: Mapping[str, TypeProto], by: str = "reference") -> None:
        if by not in HOSTS:
            raise InputError(f"host must be one of {', '.join(HOSTS)}, got {by!r}")
        if by == "onnxruntime" and ort_session.available() is None:
            raise InputError("onnxruntime is not installed", hint="pip install 'convc[onnxruntime]'")
        self._by = by
        self._opsets = {
            ("" if entry.domain == "ai.onnx" else entry.domain): entry.version for entry in model.opset_import
        }
        self._types = types
        self._functions: list[ReferenceEvaluator | FunctionProto] = []
        if model.functions:
            for function in model.functions:
                refuse_external(function.node, f"function {function.name!r}")
            empty = ModelProto(ir_version=model.ir_version, functions=model.functions, opset_import=model.opset_import)
            try:
                self._functions = list(ReferenceEvaluator(empty).functions_.values())
            except Exception as error:  # the evaluator raises whatever its parts raise
                raise NodeError(f"the functions of the model do not run on the host: {_line(error)}") from None

    def build(self, node: NodeProto, name: str) -> HostNode | RuntimeNode:
        """A node that is ready to run; `NodeError` where the host has no implementation of it."""
        refuse_external([node], node_place(node, name))
        own = node
        if node.domain == "ai.onnx":
            own = NodeProto()
            own.CopyFrom(node)
            own.domain = ""
        nodes = [own]
        opsets = self._opsets
        if not own.domain and "" in self._opsets:
            nodes, opset = as_defined(own, self._opsets[""])
            opsets = self._opsets | {"": opset}
        graph = GraphProto(name=name, node=nodes)
        for given in needed(node):
            if given in self._types:
                graph.input.append(ValueInfoProto(name=given, type=self._types[given]))
        graph.output.extend(ValueInfoProto(name=result) for result in node.output if result)
        try:
            evaluator = ReferenceEvaluator(graph, opsets=opsets, functions=self._functions)
        except Exception as error:  # whatever the operator's class raises
            raise NodeError(f"the host has no such operator: {_line(error)}", where=node_place(node, name)) from None
        built = HostNode(node, name, evaluator)
        if self._by == "onnxruntime" and takes(node) and "" in self._opsets:
            return RuntimeNode(own, self._opsets[""], built)
        return built


class HostNode:
    """One node, ready to run."""

    def __init__(self, node: NodeProto, name: str, evaluator: ReferenceEvaluator) -> None:
        self._node = node
        self._name = name
        self._evaluator = evaluator

    def run(self, values: Mapping[str, Value]) -> list[Value]:
        """The outputs that have names, in their order.

        Args:
            values: by name, at least what `needed` lists.

        Raises:
            NodeError: the reference implementation refuses the values.
        """
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # overflow and NaN in the data are the model's business
                made = self._evaluator.run(None, dict(values))
        except ConvcError:
            raise
        except MemoryError:
            raise
        except Exception as error:  # any operator, on whatever data the model gives it
            given = ", ".join(f"{name!r} {describe_value(values.get(name))}" for name in self._node.input if name)
            raise NodeError(
                f"the node fails on the host: {_line(error)}",
                where=node_place(self._node, self._name),
                hint=f"its inputs are {given}" if given else "",
            ) from None
        assert isinstance(made, list), "a dictionary comes where intermediate results are asked for"
        return made


def needed(node: NodeProto) -> list[str]:
    """Names of all tensors that a node reads, those that its subgraphs take from around them included; no repeats."""
    return list(dict.fromkeys([*filter(None, node.input), *_captured(node)]))


def _captured(node: NodeProto) -> Iterator[str]:
    """Names that the subgraphs of a node take from around it."""
    for graph in subgraphs(node):
        yield from _free(graph)


def _free(graph: GraphProto) -> Iterator[str]:
    """Names that a subgraph uses and does not make."""
    made = {value.name for value in (*graph.input, *graph.initializer)}
    made |= {tensor.values.name for tensor in graph.sparse_initializer}
    for node in graph.node:
        yield from (name for name in needed(node) if name not in made)
        made |= set(node.output)
    yield from (value.name for value in graph.output if value.name not in made)


def _line(error: Exception) -> str:
    """The first line of what an exception says, at most 300 characters of it."""
    lines: Sequence[str] = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
