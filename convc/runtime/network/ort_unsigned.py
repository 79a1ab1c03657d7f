"""Integer products that onnxruntime is asked for in a form that it computes exactly on every processor.

Where one operand of a product of 8-bit numbers has a sign and the other has none, and the processor has no dot product
of bytes (VNNI), onnxruntime adds two neighbouring products in 16 bits, and saturates (its page "Quantize ONNX Models",
on U8S8). With operands that both have no sign it does not. A number with a sign that is moved by 128 has none, and
where its zero point is moved as well the product stays what it was.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

OPERANDS: Mapping[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "ConvInteger": ((0, 2), (1, 3)),
    "MatMulInteger": ((0, 2), (1, 3)),
    "QLinearConv": ((0, 2), (3, 5)),
    "QLinearMatMul": ((0, 2), (3, 5)),
    "QGemm": ((0, 2), (3, 5)),
}
"""For each operator, which of its inputs are the operands, and which the zero point of each."""

OF_ITS_RESULT = frozenset(("QLinearConv", "QLinearMatMul", "QGemm"))
"""Operators whose first operand has the type of the result, and keeps it."""

STEP = 128


def without_signs(model: onnx.ModelProto) -> None:
    """Change products of a signed with an unsigned operand into such of two unsigned ones, in place.

    An operand whose type neither the graph's inputs and constants nor its zero point tell stays as it is.
    """
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        return  # nothing to move numbers with
    graph = model.graph
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    types.update({tensor.name: tensor.data_type for tensor in graph.initializer})
    moved = _Moved()
    nodes: list[NodeProto] = []
    for node in graph.node:
        operands = OPERANDS.get(node.op_type, ())
        kinds = [types.get(_input(node, zero)) or types.get(_input(node, at)) for at, zero in operands]
        if set(kinds) == {TensorProto.INT8, TensorProto.UINT8}:
            signed = kinds.index(TensorProto.INT8)
            if signed or node.op_type not in OF_ITS_RESULT:
                nodes += moved.operand(node, *operands[signed])
        nodes.append(node)
    if moved.names:
        graph.initializer.extend(moved.constants())
        kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)


class _Moved:
    """Tensors of signed numbers, each of which is moved once, by the names of the unsigned ones."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def operand(self, node: NodeProto, at: int, zero: int) -> list[NodeProto]:
        """Let a node take an operand without a sign; returns the nodes that move it."""
        made: list[NodeProto] = []
        node.input.extend([""] * (zero + 1 - len(node.input)))
        for index in (at, zero):
            name = node.input[index]
            if name and name not in self.names:
                self.names[name] = f"{name}.unsigned"
                made += _nodes(name, self.names[name])
            node.input[index] = self.names[name] if name else _ZERO
        return made

    @staticmethod
    def constants() -> list[TensorProto]:
        """The step, and the zero point of what had none."""
        return [
            numpy_helper.from_array(np.array(STEP, np.int32), _STEP),
            numpy_helper.from_array(np.array(STEP, np.uint8), _ZERO),
        ]


_STEP = "convc.step"
_ZERO = "convc.zero"


def _nodes(name: str, unsigned: str) -> list[NodeProto]:
    """The nodes that move a tensor of signed numbers."""
    return [
        helper.make_node("Cast", [name], [f"{unsigned}.wide"], to=TensorProto.INT32),
        helper.make_node("Add", [f"{unsigned}.wide", _STEP], [f"{unsigned}.sum"]),
        helper.make_node("Cast", [f"{unsigned}.sum"], [unsigned], to=TensorProto.UINT8),
    ]


def _input(node: NodeProto, index: int) -> str:
    """The name of an input; "" where it is left out."""
    return node.input[index] if index < len(node.input) else ""
