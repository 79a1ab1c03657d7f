"""Nodes that run on the host: everything but convolutions, by ONNX's own reference implementation or by onnxruntime.

`onnx.reference` has an implementation of nearly every standard operator, in numpy. A node is built once, as a graph of
its own, and then run as often as needed. `If`, `Loop` and `Scan` with all that is in them, and functions that are still
called (`convc.frontend.inline`), are one such node: convolutions inside them run here too.

Node by node, who was chosen runs it; where that one has no such operator, or not of this operator set, the other does;
and where neither has, the reference gets what onnx's version converter makes of the node. All but the first is said.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cached_property, partial

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import RuntimeImplementationError

from convc.errors import ConvcError, InputError, NodeError
from convc.frontend.opset_compat import as_defined
from convc.runtime.network import ort_session
from convc.runtime.network.converted_nodes import ConvertedNode
from convc.runtime.network.loop import Loop
from convc.runtime.network.node_info import first_line, needed, node_place, refuse_external
from convc.runtime.network.onnxruntime_nodes import RuntimeNode, gains
from convc.runtime.network.qlinear_conv import QLinearConv
from convc.runtime.network.quantize import QuantizeLinear
from convc.runtime.network.scan import Scan
from convc.runtime.network.values import Value, describe_value
from convc.support.memory import out_of_memory

HOSTS = ("reference", "onnxruntime")
"""Who runs the nodes: `onnx.reference`, which has all operators, or onnxruntime where it can, which is faster."""

OWN = [Loop, Scan, QuantizeLinear, QLinearConv]
"""Operators that `onnx.reference` has otherwise than ONNX defines them."""

_LACKING = RuntimeImplementationError.__bases__
"""What the reference raises where it has no implementation: its own class, or the one of Python that it comes from."""


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
        self._called = {(function.domain, function.name) for function in model.functions}
        self._functions: list[ReferenceEvaluator | FunctionProto] = []
        if model.functions:
            for function in model.functions:
                refuse_external(function.node, f"function {function.name!r}")
            empty = ModelProto(ir_version=model.ir_version, functions=model.functions, opset_import=model.opset_import)
            try:
                self._functions = list(ReferenceEvaluator(empty, new_ops=OWN).functions_.values())
            except Exception as error:  # the evaluator raises whatever its parts raise
                raise NodeError(f"the functions of the model do not run on the host: {first_line(error)}") from None

    def build(self, node: NodeProto, name: str) -> HostNode:
        """A node that is ready to run; whether anybody can is known when it runs."""
        refuse_external([node], node_place(node, name))
        own = node
        if node.domain == "ai.onnx":
            own = NodeProto()
            own.CopyFrom(node)
            own.domain = ""
        runtime = partial(self._runtime, own)
        converted = None if own.domain or "" not in self._opsets else ConvertedNode(own, self._opsets[""])
        first = self._by == "onnxruntime" and gains(node)
        return HostNode(ReferenceNode(node, name, self._evaluator(own, name)), runtime, converted, runtime_first=first)

    def _runtime(self, own: NodeProto) -> RuntimeNode | None:
        """The node for onnxruntime; None where that is not installed, or a function of the model has its name."""
        known = own.domain in self._opsets and (own.domain, own.op_type) not in self._called
        return RuntimeNode(own, self._opsets) if known and ort_session.available() is not None else None

    def _evaluator(self, own: NodeProto, name: str) -> ReferenceEvaluator | str:
        """The reference implementation of a node; what it says where it has none."""
        nodes = [own]
        opsets = self._opsets
        if not own.domain and "" in self._opsets:
            nodes, opset = as_defined(own, self._opsets[""])
            opsets = self._opsets | {"": opset}
        graph = GraphProto(name=name, node=nodes)
        for given in needed(own):
            if given in self._types:
                graph.input.append(ValueInfoProto(name=given, type=self._types[given]))
        graph.output.extend(ValueInfoProto(name=result) for result in own.output if result)
        try:
            return ReferenceEvaluator(graph, opsets=opsets, functions=self._functions, new_ops=OWN)
        except Exception as error:  # the evaluator raises whatever its parts raise
            return first_line(error)


class HostNode:
    """One node, and all who may run it.

    Args:
        reference: by `onnx.reference`.
        runtime: makes the node by onnxruntime, when somebody first asks for it: to import that takes a while.
        converted: by the reference in a newer operator set; None where a node cannot be.
        runtime_first: whether onnxruntime was chosen.

    Attributes:
        said: who ran it last and why, where that was not who was chosen; else empty.
    """

    def __init__(
        self,
        reference: ReferenceNode,
        runtime: Callable[[], RuntimeNode | None],
        converted: ConvertedNode | None,
        *,
        runtime_first: bool,
    ) -> None:
        self._reference = reference
        self._make_runtime = runtime
        self._converted = converted
        self._runtime_first = runtime_first
        self.said = ""

    @cached_property
    def _runtime(self) -> RuntimeNode | None:
        return self._make_runtime()

    def run(self, values: Mapping[str, Value]) -> list[Value]:
        """The outputs that have names, in their order.

        Args:
            values: by name, at least what `needed` lists.

        Raises:
            NodeError: nobody has the operator, or the reference implementation refuses the values.
        """
        self.said = ""
        runtime = "onnxruntime, which may have it, is not installed (pip install 'convc[onnxruntime]')"
        if self._runtime_first and self._runtime is not None:
            answer = self._runtime.run(values)
            if not isinstance(answer, str):
                return answer
            runtime = answer
        try:
            made = self._reference.run(values)
        except _MissingError as missing:
            return self._elsewhere(values, missing, runtime)
        if self._runtime_first:
            self.said = f"by onnx.reference: {runtime}"
        return made

    def _elsewhere(self, values: Mapping[str, Value], missing: _MissingError, runtime: str) -> list[Value]:
        """What the others make of a node that the reference does not have."""
        if not self._runtime_first and self._runtime is not None:
            answer = self._runtime.run(values)
            if not isinstance(answer, str):
                self.said = f"by onnxruntime: {missing.lacks}"
                return answer
            runtime = answer
        if self._converted is not None:
            answer = self._converted.run(values)
            if not isinstance(answer, str):
                self.said = f"by onnx.reference in operator set {self._converted.opset}: {missing.lacks}"
                return answer
        missing.hint = runtime
        raise missing


class _MissingError(NodeError):
    """The reference implementation does not have an operator; ``lacks`` says so in a few words."""

    def __init__(self, node: NodeProto, reason: str, where: str) -> None:
        super().__init__(f"the host has no such operator: {reason}", where=where)
        own = f"{node.op_type} of this operator set"
        self.lacks = f"onnx.reference has no {f'{node.domain} {node.op_type}' if node.domain else own}"


class ReferenceNode:
    """One node by `onnx.reference`.

    Args:
        node: as the model has it.
        name: for messages.
        evaluator: ready to run; or why there is none.
    """

    def __init__(self, node: NodeProto, name: str, evaluator: ReferenceEvaluator | str) -> None:
        self._node = node
        self._name = name
        self._evaluator = evaluator

    def run(self, values: Mapping[str, Value]) -> list[Value]:
        """The outputs that have names, in their order.

        Raises:
            NodeError: the reference implementation has no such operator, or refuses the values.
        """
        where = node_place(self._node, self._name)
        if isinstance(self._evaluator, str):
            raise _MissingError(self._node, self._evaluator, where)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # overflow and NaN in the data are the model's business
                return list(self._evaluator.run(None, dict(values)))
        except ConvcError:
            raise
        except MemoryError as problem:
            raise out_of_memory(problem, "the node on the host", where, self._given(values)) from None
        except Exception as error:  # any operator, on whatever data the model gives it
            if isinstance(error, _LACKING):  # a case of the operator that is not there yet
                raise _MissingError(self._node, first_line(error), where) from None
            raise NodeError(
                f"the node fails on the host: {first_line(error)}", where=where, hint=self._given(values)
            ) from None

    def _given(self, values: Mapping[str, Value]) -> str:
        """The inputs, as a sentence; empty where there are none."""
        given = ", ".join(f"{name!r} {describe_value(values.get(name))}" for name in self._node.input if name)
        return f"its inputs are {given}" if given else ""
