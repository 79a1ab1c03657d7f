"""Nodes on the host by `onnx.reference`, which has nearly every standard operator, in numpy.

It is written to be read. What it is known to get wrong (`convc.frontend.host_limits`) it is not asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, NodeProto, TypeProto, ValueInfoProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import RuntimeImplementationError

from convc.errors import ConvcError
from convc.frontend.host_limits import reference_wrong
from convc.frontend.opset_compat import as_defined
from convc.runtime.network.loop import Loop
from convc.runtime.network.node_info import Refusal, first_line, needed
from convc.runtime.network.qlinear_conv import QLinearConv
from convc.runtime.network.quantize import QuantizeLinear
from convc.runtime.network.scan import Scan
from convc.runtime.network.values import Value

OWN = [Loop, Scan, QuantizeLinear, QLinearConv]
"""Operators that `onnx.reference` has otherwise than ONNX defines them."""

_LACKING = RuntimeImplementationError.__bases__
"""What the reference raises where it has no implementation: its own class, or the one of Python that it comes from."""


class ReferenceNode:
    """One node by `onnx.reference`.

    Args:
        node: of the standard domain as ``""``.
        name: for messages.
        opsets: by domain.
        types: of tensors by name, as far as they are stated; some operators need those of their inputs.
        functions: gives those of the model, for calls inside the node.
    """

    title = "onnx.reference"

    def __init__(
        self,
        node: NodeProto,
        name: str,
        opsets: Mapping[str, int],
        types: Mapping[str, TypeProto],
        functions: Callable[[], Sequence[ReferenceEvaluator | FunctionProto]],
    ) -> None:
        self._node = node
        self._name = name
        self._opsets = opsets
        self._types = types
        self._functions = functions

    def run(self, values: Mapping[str, Value]) -> list[Value] | Refusal:
        """The outputs that have names, in their order; or why there are none.

        Args:
            values: by name, at least what `convc.runtime.network.node_info.needed` lists.

        Raises:
            MemoryError: memory does not hold what the node makes.
        """
        arrays = [values.get(name) if name else None for name in self._node.input]
        wrong = reference_wrong(self._node, self._opsets.get("", 0), arrays)
        if wrong:
            return Refusal("wrong", f"onnx.reference gets {self._node.op_type} wrong: {wrong}")
        evaluator = self._evaluator
        if isinstance(evaluator, Refusal):
            return evaluator
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # overflow and NaN in the data are the model's business
                return list(evaluator.run(None, dict(values)))
        except (ConvcError, MemoryError):
            raise
        except Exception as error:  # any operator, on whatever data the model gives it
            if isinstance(error, _LACKING):  # a case of the operator that is not there yet
                return self._missing(error)
            return Refusal("fails", f"onnx.reference fails: {first_line(error)}", first_line(error))

    @cached_property
    def _evaluator(self) -> ReferenceEvaluator | Refusal:
        """The reference implementation, or why there is none."""
        nodes = [self._node]
        opsets = self._opsets
        if not self._node.domain and "" in self._opsets:
            nodes, opset = as_defined(self._node, self._opsets[""])
            opsets = {**self._opsets, "": opset}
        graph = GraphProto(name=self._name, node=nodes)
        for given in needed(self._node):
            if given in self._types:
                graph.input.append(ValueInfoProto(name=given, type=self._types[given]))
        graph.output.extend(ValueInfoProto(name=result) for result in self._node.output if result)
        try:
            known: Any = self._functions()
            return ReferenceEvaluator(graph, opsets=dict(opsets), functions=known, new_ops=OWN)
        except Exception as error:  # the evaluator raises whatever its parts raise
            return self._missing(error)

    def _missing(self, error: Exception) -> Refusal:
        node = self._node
        own = f"{node.op_type} of this operator set"
        lacks = f"onnx.reference has no {f'{node.domain} {node.op_type}' if node.domain else own}"
        return Refusal("missing", lacks, first_line(error))
