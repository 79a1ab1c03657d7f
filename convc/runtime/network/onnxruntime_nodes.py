"""Nodes on the host by onnxruntime: the operators of ONNX in every operator set, and some of its own.

Each node gets a session of its own, made when the types and extents of its inputs are known (without extents some are
refused), and kept for later runs. One takes about 0.2 ms to make, a thirtieth of what `onnx.reference` takes to prepare
a node, so a network of a thousand nodes on the host is ready in a fifth of a second, and every result can be looked at.
What onnxruntime does not take (an operator set newer than it knows, a type it has no kernel for, sequences) it says,
and `convc.runtime.network.host` asks somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper

from convc.frontend.host_limits import onnxruntime_wrong
from convc.runtime.network import ort_session
from convc.runtime.network.node_info import Refusal, needed

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
