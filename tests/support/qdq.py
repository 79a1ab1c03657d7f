"""One convolution between DequantizeLinear and QuantizeLinear, with whatever a test wants to be otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

X_SHAPE = (1, 4, 6, 5)
RNG = np.random.default_rng(3)
ARRAYS: dict[str, np.ndarray] = {
    "sx": np.array(0.02, np.float32),
    "zx": np.array(120, np.uint8),
    "w": RNG.integers(-127, 128, (3, 4, 3, 3)).astype(np.int8),
    "sw": np.float32([0.01, 0.003, 0.02]),
    "zw": np.zeros(3, np.int8),
    "b": np.array([300, -2000, 7], np.int32),
    "sb": np.float32([0.01, 0.003, 0.02]) * np.float32(0.02),
    "zb": np.zeros(3, np.int32),
    "sy": np.array(0.05, np.float32),
    "zy": np.array(100, np.uint8),
}


def node(kind: str, inputs: str, output: str, name: str = "", **attributes) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], name or output, **attributes)


def qdq_nodes(*activations: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes; activations read "c" or one another, the last one makes "r"."""
    return [
        node("DequantizeLinear", "x sx zx", "xr", "dx"),
        node("DequantizeLinear", "w sw zw", "wr", "dw", axis=0),
        node("DequantizeLinear", "b sb zb", "br", "db", axis=0),
        node("Conv", "xr wr br", "c" if activations else "r", "conv", pads=[1, 1, 0, 1]),
        *activations,
        node("QuantizeLinear", "r sy zy", "y", "q"),
    ]


def qdq_model(
    nodes: Iterable[onnx.NodeProto] | None = None,
    arrays: Mapping[str, np.ndarray | None] | None = None,
    *,
    opset: int = 17,
    outputs: Iterable[str] = ("y",),
    x: int = onnx.TensorProto.UINT8,
) -> onnx.ModelProto:
    """A model of these nodes, without the axes of scales that operator sets below 13 do not have.

    Constants are `ARRAYS` with changes; those that are None become inputs.
    """
    nodes = qdq_nodes() if nodes is None else list(nodes)
    for one in nodes:
        if opset < 13 and "Linear" in one.op_type:
            del one.attribute[:]
    given = ARRAYS | dict(arrays or {})
    read = {name for one in nodes for name in one.input} - {name for one in nodes for name in one.output}
    inputs = [helper.make_tensor_value_info("x", x, X_SHAPE)] if "x" in read else []
    inputs += [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(ARRAYS[name].dtype), ARRAYS[name].shape)
        for name, array in given.items()
        if array is None and name in read
    ]
    initializers = [
        numpy_helper.from_array(np.asarray(array), name)
        for name, array in given.items()
        if array is not None and name in read
    ]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
