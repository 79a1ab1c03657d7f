"""Nodes on the host by onnxruntime instead of `onnx.reference`: the same operators, much faster where it matters.

`onnx.reference` is written to be read: its pooling takes seconds where onnxruntime takes milliseconds. Each node gets a
session of its own, made when the types of its inputs are known. What onnxruntime does not take (an operator set newer
than it knows, a type it has no kernel for, sequences) stays with the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper

from convc.runtime.network import ort_session

_NO_RUNTIME = {
    "Constant", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli",
    "Dropout",
}  # fmt: skip
"""Operators that stay with the reference: nothing to gain, or results that depend on a generator."""


class RuntimeNode:
    """One node of the standard domain.

    Args:
        node: its attributes hold no graphs.
        opset: of the standard domain.
        fallback: a `convc.runtime.network.host.HostNode` that takes over where onnxruntime refuses.
    """

    def __init__(self, node: NodeProto, opset: int, fallback: Any) -> None:
        self._node = node
        self._opset = opset
        self._fallback = fallback
        self._session: Any = None
        self._types: dict[str, np.dtype] = {}
        self._refused = False

    def run(self, values: Mapping[str, Any]) -> list[Any]:
        """The outputs that have names, in their order; see `convc.runtime.network.host.HostNode.run`."""
        given = {name: values[name] for name in dict.fromkeys(self._node.input) if name}
        if self._refused or not all(isinstance(value, np.ndarray) for value in given.values()):
            return self._fallback.run(values)
        types = {name: value.dtype for name, value in given.items()}
        if self._session is None or types != self._types:
            self._session = self._open(given)
            self._types = types
        if self._session is None:
            self._refused = True
            return self._fallback.run(values)
        answer = ort_session.run_session(self._session, given)
        if isinstance(answer, str):  # the reference says what is wrong with the values, or can do it
            return self._fallback.run(values)
        return [answer[name] for name in self._node.output if name]

    def _open(self, given: Mapping[str, np.ndarray]) -> Any:
        """A session for the node; None where onnxruntime refuses."""
        graph = onnx.GraphProto(name="one", node=[self._node])
        try:
            for name, array in given.items():
                element_type = helper.np_dtype_to_tensor_dtype(array.dtype)
                graph.input.append(helper.make_tensor_value_info(name, element_type, [None] * array.ndim))
        except ValueError:
            return None
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._node.output if name)
        imports: Sequence[onnx.OperatorSetIdProto] = [helper.make_operatorsetid("", self._opset)]
        session = ort_session.open_session(helper.make_model(graph, opset_imports=imports, ir_version=8))
        return None if isinstance(session, str) else session


def takes(node: NodeProto) -> bool:
    """Whether a node is worth a session."""
    graphs = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
    return node.domain in ("", "ai.onnx") and node.op_type not in _NO_RUNTIME and not graphs
