"""Nodes of old operator sets by `onnx.reference`, once onnx's version converter has made newer ones of them.

The reference has an implementation of each operator, but not of each of its versions: `Scatter`, for example, it knows
as `ScatterElements` alone. The converter works on models, and some of its steps need shapes, so a node is converted as
a model of its own when its inputs are there, and anew where they have other shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, version_converter
from onnx.reference import ReferenceEvaluator

from convc.frontend.host_limits import reference_wrong
from convc.runtime.network.node_info import Refusal, first_line, needed
from convc.runtime.network.reference_node import OWN

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
