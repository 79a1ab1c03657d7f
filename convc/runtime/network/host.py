"""Nodes that run on the host, everything but convolutions: by onnxruntime where it is installed, or ONNX's reference.

Each kind of node has one evaluator, who is asked first: onnxruntime, or `onnx.reference` where onnxruntime is not
installed, where the caller wants it, and for the few kinds of `_BY_REFERENCE`. Where that one has no such operator, is
known to be wrong (`convc.frontend.host_limits`), fails, or makes something else than shape inference says, the other is
asked; and where neither has the operator, the reference gets what onnx's version converter makes of the node. All but
the first is said. Whoever made it, each result is held against what shape inference knows.

`If`, `Loop` and `Scan` with all that is in them, and functions that are still called (`convc.frontend.inline`), are one
such node: convolutions inside them run here too.

Nodes on the host by onnxruntime: the operators of ONNX in every operator set, and some of its own.

Each node gets a session of its own, made when the types and extents of its inputs are known (without extents some are
refused), and kept for later runs. One takes about 0.2 ms to make, a thirtieth of what `onnx.reference` takes to prepare
a node, so a network of a thousand nodes on the host is ready in a fifth of a second, and every result can be looked at.
What onnxruntime does not take (an operator set newer than it knows, a type it has no kernel for, sequences) it says,
and `convc.runtime.network.host` asks another host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import FunctionProto, ModelProto, NodeProto, TypeProto, helper, version_converter
from onnx.reference import ReferenceEvaluator

from convc.errors import ConvcError, InputError, NodeError
from convc.frontend.host_limits import onnxruntime_wrong, reference_wrong
from convc.frontend.inline import unwrapped
from convc.frontend.model_file import subgraphs
from convc.runtime.network import ort_session
from convc.runtime.network.expected import check_room, difference, expected_types
from convc.runtime.network.node_info import Refusal, first_line, needed, node_place, refuse_external
from convc.runtime.network.reference_node import OWN, ReferenceNode
from convc.runtime.network.steps import Value, describe_value
from convc.support.memory import out_of_memory

HOSTS = ("auto", "onnxruntime", "reference")
"""Who is asked first: onnxruntime where it is installed and else the reference; onnxruntime; or `onnx.reference`."""

_BY_REFERENCE = frozenset((
    "Attention", "Bernoulli", "ConcatFromSequence", "Constant", "ConvBiasGrad", "ConvGrad", "DFT", "Dropout",
    "Multinomial", "Optional", "OptionalGetElement", "OptionalHasElement", "RandomNormal", "RandomNormalLike",
    "RandomUniform", "RandomUniformLike", "ReluGrad", "STFT", "SequenceAt", "SequenceConstruct", "SequenceEmpty",
    "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence",
))  # fmt: skip
"""Kinds of nodes that stay with the reference: nothing to gain, a generator of random numbers, no arrays, or
onnxruntime is further from what ONNX's own tests expect (its float32 sums of a DFT, the scores of masked attention)."""


class Evaluator(Protocol):
    """One who may run a node; ``title`` says who."""

    @property
    def title(self) -> str:
        """The name of the library."""
        ...

    def run(self, values: Mapping[str, Value]) -> list[Value] | Refusal:
        """The outputs that have names, in their order; or why there are none."""
        ...


class HostNodes:
    """Builds nodes that run on the host.

    Args:
        model: for its operator sets and functions.
        types: of the tensors of the main graph, as far as they are stated; some operators need those of their inputs.
        by: one of `HOSTS`.

    Raises:
        NodeError: a function of the model has data in files.
        InputError: onnxruntime is wanted and not installed.
    """

    def __init__(self, model: ModelProto, types: Mapping[str, TypeProto], by: str = "auto") -> None:
        if by not in HOSTS:
            raise InputError(f"host must be one of {', '.join(HOSTS)}, got {by!r}")
        if by == "onnxruntime" and ort_session.available() is None:
            raise InputError("onnxruntime is not installed", hint=EXTRA)
        self._by = by
        self._model = model
        self._opsets = {_standard(entry.domain): entry.version for entry in model.opset_import}
        self._types = types
        self._functions = {(function.domain, function.name): function for function in model.functions}
        for function in model.functions:
            refuse_external(function.node, f"function {function.name!r}")

    def build(self, node: NodeProto, name: str) -> HostNode:
        """A node that is ready to run; whether a host can is known when it runs."""
        refuse_external([node], node_place(node, name))
        own = node
        opsets = self._opsets
        called = self._functions.get((node.domain, node.op_type))
        if called is not None:
            own, opsets = unwrapped(node, called, opsets)
        if own.domain == "ai.onnx":
            plain = NodeProto()
            plain.CopyFrom(own)
            plain.domain = ""
            own = plain
        functions = list(self._model.functions) if called is not None or any(subgraphs(own)) else []
        reference = ReferenceNode(own, name, opsets, self._types, self._called if functions else list)
        evaluators: list[Evaluator] = [reference]
        if own.domain in opsets:
            first = self._by != "reference" and own.op_type not in _BY_REFERENCE
            evaluators.insert(0 if first else 1, RuntimeNode(own, opsets, functions))
        if not own.domain and "" in opsets:
            evaluators.append(ConvertedNode(own, opsets[""]))
        return HostNode(own, name, opsets, functions, evaluators)

    def _called(self) -> Sequence[ReferenceEvaluator | FunctionProto]:
        """The functions of the model for the reference, which raises whatever its parts raise."""
        return self._evaluators

    @cached_property
    def _evaluators(self) -> list[ReferenceEvaluator | FunctionProto]:
        model = self._model
        empty = ModelProto(ir_version=model.ir_version, functions=model.functions, opset_import=model.opset_import)
        return list(ReferenceEvaluator(empty, new_ops=OWN).functions_.values())


class HostNode:
    """One node, and all who may run it.

    Args:
        node: what runs.
        name: for messages.
        opsets: of the node, by domain.
        functions: of the model, where it may call one.
        evaluators: in the order in which they are asked.

    Attributes:
        kind: the operator.
        chosen: who is asked first of those that are installed, once the node ran.
        said: who ran it last and why, where that was not who was asked first; else empty.
    """

    def __init__(
        self,
        node: NodeProto,
        name: str,
        opsets: Mapping[str, int],
        functions: Sequence[FunctionProto],
        evaluators: Sequence[Evaluator],
    ) -> None:
        self._node = node
        self._name = name
        self._opsets = opsets
        self._functions = functions
        self._evaluators = evaluators
        self.kind = f"{node.domain} {node.op_type}".strip()
        self.chosen = ""
        self.said = ""

    def run(self, values: Mapping[str, Value]) -> list[Value]:
        """The outputs that have names, in their order.

        Args:
            values: by name, at least what `convc.runtime.network.node_info.needed` lists.

        Raises:
            NodeError: no host has the operator, all refuse the values, or what comes is not what inference knows.
            LimitError: memory does not hold the results.
        """
        self.said = ""
        where = node_place(self._node, self._name)
        given = {name: values[name] for name in needed(self._node)}
        expected = expected_types(self._node, self._opsets, given, self._functions)
        check_room(expected, where)
        refusals: list[Refusal] = []
        for evaluator in self._evaluators:
            try:
                answer = evaluator.run(given)
            except MemoryError as problem:
                raise out_of_memory(problem, "the node on the host", where, self._given(values)) from None
            if not (isinstance(answer, Refusal) and answer.kind == "absent"):
                self.chosen = self.chosen or evaluator.title
            if isinstance(answer, list):
                differs = difference(evaluator.title, self._node, answer, expected)
                if not differs:
                    told = next((refusal.reason for refusal in refusals if refusal.kind != "absent"), "")
                    self.said = f"by {evaluator.title}: {told}" if told else ""
                    return answer
                answer = Refusal("differs", differs)
            refusals.append(answer)
        raise self._error(refusals, where, self._given(values))

    def _error(self, refusals: Sequence[Refusal], where: str, given: str) -> ConvcError:
        """Why no host has results: the most telling reason, and the others as a hint."""
        by_kind = {refusal.kind: refusal for refusal in reversed(refusals)}
        alone = "absent" in by_kind
        runtime = next((refusal.reason for refusal in refusals if refusal.reason.startswith("onnxruntime")), "")
        if "differs" in by_kind:
            return NodeError(by_kind["differs"].reason, where=where, hint=runtime if alone else given)
        if "wrong" in by_kind:
            hint = f"use onnxruntime for it: {EXTRA}" if alone else runtime
            return NodeError(by_kind["wrong"].reason, where=where, hint=hint)
        fails = next((refusal for refusal in refusals if refusal.kind == "fails" and refusal.detail), None)
        fails = fails or by_kind.get("fails")
        if fails is not None:
            told = runtime if runtime != fails.reason else ""
            hint = "; ".join(filter(None, (given, told)))
            return NodeError(f"the node fails on the host: {fails.detail or fails.reason}", where=where, hint=hint)
        detail = next((refusal.detail for refusal in refusals if refusal.detail), refusals[0].reason)
        return NodeError(f"no host implementation of this operator: {detail}", where=where, hint=runtime)

    def _given(self, values: Mapping[str, Value]) -> str:
        """The inputs, as a sentence; empty where there are none."""
        given = ", ".join(f"{name!r} {describe_value(values.get(name))}" for name in self._node.input if name)
        return f"its inputs are {given}" if given else ""


def default_host() -> str:
    """Say who runs nodes by default here, with the version."""
    version = ort_session.available()
    if version is not None:
        return f"onnxruntime {version}"
    return f"onnx.reference {onnx.__version__}, as onnxruntime is not installed ({EXTRA})"


def _standard(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


EXTRA = "pip install 'convc[onnxruntime]'"
"""What installs it."""


class RuntimeNode:
    """One node.

    Args:
        node: of any domain, the standard one as ``""``.
        opsets: by domain.
        functions: of the model, for calls inside the node.
    """

    title = "onnxruntime"

    def __init__(
        self, node: NodeProto, opsets: Mapping[str, int], functions: Sequence[onnx.FunctionProto] = ()
    ) -> None:
        self._node = node
        self._functions = functions
        wanted = set(opsets) if functions else {"", node.domain}
        self._opsets = {domain: opsets[domain] for domain in opsets if domain in wanted}
        self._session: Any = None
        self._types: dict[str, tuple[np.dtype, tuple[int, ...]]] = {}
        self._refused: Refusal | None = None

    def run(self, values: Mapping[str, Any]) -> list[Any] | Refusal:
        """The outputs that have names, in their order; or why onnxruntime has none.

        Args:
            values: by name, at least what `convc.runtime.network.node_info.needed` lists.
        """
        if ort_session.available() is None:
            return Refusal("absent", f"onnxruntime, which may have it, is not installed ({EXTRA})")
        given = {name: values[name] for name in needed(self._node)}
        if not all(isinstance(value, np.ndarray) for value in given.values()):
            return Refusal("missing", "onnxruntime is given arrays only, no sequences or optionals")
        arrays = [given[name] if name else None for name in self._node.input]
        wrong = onnxruntime_wrong(self._node, self._opsets.get("", 0), arrays)
        if wrong:
            return Refusal("wrong", f"onnxruntime gets {self._node.op_type} wrong: {wrong}")
        types = {name: (value.dtype, value.shape) for name, value in given.items()}
        if self._session is None or types != self._types:  # a node without inputs has no types
            self._types = types
            self._session = self._open(given)
        if isinstance(self._session, str):
            return Refusal("missing", self._session)
        answer = ort_session.run_session(self._session, given)
        if isinstance(answer, str):
            return Refusal("fails", answer)
        return [answer[name] for name in self._node.output if name]

    def _open(self, given: Mapping[str, np.ndarray]) -> Any:
        """A session for the node; a sentence where onnxruntime refuses."""
        graph = onnx.GraphProto(name="one", node=[self._node])
        try:
            for name, array in given.items():
                element_type = helper.np_dtype_to_tensor_dtype(array.dtype)
                graph.input.append(helper.make_tensor_value_info(name, element_type, array.shape))
        except ValueError:
            return "onnxruntime has no type for one of the inputs"
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._node.output if name)
        imports = [helper.make_operatorsetid(domain, version) for domain, version in self._opsets.items()]
        ir_version = 10 if any(function.overload for function in self._functions) else 8
        model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=self._functions)
        return ort_session.open_session(model)


_OTHERWISE = ("Resize",)
"""Operators that onnx's converter makes another one of."""


class ConvertedNode:
    """One node of the standard domain.

    Args:
        node: the node.
        opset: its operator set.
    """

    def __init__(self, node: NodeProto, opset: int) -> None:
        self._node = node
        self._opset = opset
        self._key: tuple[tuple[np.dtype, tuple[int, ...]], ...] = ()
        self._evaluator: ReferenceEvaluator | None = None
        self._converted_to = opset

    @property
    def title(self) -> str:
        """The library, and the operator set that the node was converted to."""
        return f"onnx.reference in operator set {self._converted_to}"

    def run(self, values: Mapping[str, Any]) -> list[Any] | Refusal:
        """The outputs that have names, in their order; or why it cannot be converted, or fails.

        Args:
            values: by name, at least what `convc.runtime.network.node_info.needed` lists.
        """
        given = {name: values[name] for name in needed(self._node)}
        if not all(isinstance(value, np.ndarray) for value in given.values()):
            return Refusal("missing", "only nodes on arrays are converted")
        if self._node.op_type in _OTHERWISE:
            return Refusal("missing", "no newer operator set has the node")
        key = tuple((value.dtype, value.shape) for value in given.values())
        try:
            if self._evaluator is None or key != self._key:
                self._key = key
                self._evaluator = self._converted(given)
            if self._evaluator is None:
                return Refusal("missing", "no newer operator set has the node")
            with np.errstate(all="ignore"):
                made = self._evaluator.run(None, given)  # pyright: ignore[reportUnknownMemberType]
                return list(made)
        except MemoryError:
            raise
        except Exception as error:  # the evaluator raises whatever its parts raise
            return Refusal("fails", f"{self.title} fails: {first_line(error)}")

    def _converted(self, given: Mapping[str, np.ndarray]) -> ReferenceEvaluator | None:
        """The node in the next operator set that the reference can run; None where there is none."""
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self._node.output if name]
        graph = helper.make_graph([self._node], "one", inputs, outputs)
        imports = [helper.make_operatorsetid("", self._opset)]
        model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports, ir_version=8))
        for opset in range(self._opset + 1, onnx.defs.onnx_opset_version() + 1):
            try:
                newer = version_converter.convert_version(model, opset)
                evaluator = ReferenceEvaluator(newer, new_ops=OWN)
            except Exception:  # the extension module raises several unrelated types; the next set may do
                continue
            if any(reference_wrong(node, opset) for node in newer.graph.node):
                continue
            self._converted_to = opset
            return evaluator
        return None
