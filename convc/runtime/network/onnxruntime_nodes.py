"""Nodes on the host by onnxruntime: the operators of ONNX, much faster where it matters, and some of its own.

`onnx.reference` is written to be read: its pooling takes seconds where onnxruntime takes milliseconds. Each node gets a
session of its own, made when the types of its inputs are known. What onnxruntime does not take (an operator set newer
than it knows, a type it has no kernel for, sequences) it says, and `convc.runtime.network.host` asks somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper

from convc.runtime.network import ort_session
from convc.runtime.network.node_info import needed

_BETTER_ELSEWHERE = {
    "Constant", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli",
    "Dropout",
}  # fmt: skip
"""Operators that stay with the reference where it has them: nothing to gain, or results that depend on a generator."""


class RuntimeNode:
    """One node.

    Args:
        node: of any domain.
        opsets: by domain.
    """

    def __init__(self, node: NodeProto, opsets: Mapping[str, int]) -> None:
        self._node = node
        self._opsets = {domain: opsets[domain] for domain in ("", node.domain) if domain in opsets}
        self._session: Any = None
        self._types: dict[str, np.dtype] = {}
        self._refused = ""

    def run(self, values: Mapping[str, Any]) -> list[Any] | str:
        """The outputs that have names, in their order; a sentence where onnxruntime does not run the node.

        Args:
            values: by name, at least what `convc.runtime.network.node_info.needed` lists.
        """
        if self._refused:
            return self._refused
        given = {name: values[name] for name in needed(self._node)}
        if not all(isinstance(value, np.ndarray) for value in given.values()):
            return "onnxruntime is given arrays only, no sequences or optionals"
        types = {name: value.dtype for name, value in given.items()}
        if self._session is None or types != self._types:
            session = self._open(given)
            if isinstance(session, str):
                self._refused = session
                return session
            self._session = session
            self._types = types
        answer = ort_session.run_session(self._session, given)
        return answer if isinstance(answer, str) else [answer[name] for name in self._node.output if name]

    def _open(self, given: Mapping[str, np.ndarray]) -> Any:
        """A session for the node; a sentence where onnxruntime refuses."""
        graph = onnx.GraphProto(name="one", node=[self._node])
        try:
            for name, array in given.items():
                element_type = helper.np_dtype_to_tensor_dtype(array.dtype)
                graph.input.append(helper.make_tensor_value_info(name, element_type, [None] * array.ndim))
        except ValueError:
            return "onnxruntime has no type for one of the inputs"
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._node.output if name)
        imports = [helper.make_operatorsetid(domain, version) for domain, version in self._opsets.items()]
        return ort_session.open_session(helper.make_model(graph, opset_imports=imports, ir_version=8))


def gains(node: NodeProto) -> bool:
    """Whether a node is worth a session where both can run it."""
    graphs = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
    return node.domain in ("", "ai.onnx", "com.microsoft") and node.op_type not in _BETTER_ELSEWHERE and not graphs
