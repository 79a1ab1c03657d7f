"""Nodes of older operator sets on the host, against onnxruntime, which keeps every version of an operator."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from convc.runtime.network.executor import Graph

X = np.random.default_rng(5).standard_normal((2, 3, 4, 5), dtype=np.float32)


def model_of(opset: int, nodes: list[onnx.NodeProto], inputs: list[str], shape: tuple[int, ...]) -> onnx.ModelProto:
    """A model whose first input is like `X`, and the others have one number per channel."""
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    values += [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape[1:2]) for name in inputs]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    made = helper.make_model(
        helper.make_graph(nodes, "one", values, results),
        opset_imports=[helper.make_operatorsetid("", opset)],
        ir_version=7,
    )
    onnx.checker.check_model(made)
    return made


def compare(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    np.testing.assert_allclose(Graph(model).run(feeds)["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [7, 11, 12, 13, 17])
@pytest.mark.parametrize("attributes", [{}, {"axis": 0}, {"axis": 1}, {"axis": 2}, {"axis": 3}])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_of_every_version(kind, attributes, opset):
    compare(model_of(opset, [helper.make_node(kind, ["x"], ["y"], **attributes)], [], X.shape), {"x": X})


@pytest.mark.parametrize("opset", [7, 8, 9, 13, 14, 15, 17])
@pytest.mark.parametrize("attributes", [{}, {"epsilon": 0.25, "momentum": 0.5}])
def test_batch_normalization_of_every_version_is_inference(attributes, opset):
    parameters = dict(zip(("scale", "shift", "mean", "variance"), np.float32([[1, 2, 3]] * 4) / 2, strict=True))
    node = helper.make_node("BatchNormalization", ["x", *parameters], ["y"], **attributes)
    compare(model_of(opset, [node], list(parameters), X.shape), {"x": X, **parameters})


@pytest.mark.parametrize("opset", [10, 11, 12, 13, 18, 19, 21, 23])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_dequantize_linear_of_every_version(dtype, opset):
    x = np.arange(-4, 20).astype(dtype).reshape(2, 3, 4)
    scale = np.float32([0.5, 3, 0.1]) if opset >= 13 else np.array(0.3, np.float32)
    feeds = {"x": x, "scale": scale, "zero": np.zeros_like(scale, dtype)}
    node = helper.make_node("DequantizeLinear", list(feeds), ["y"])
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()
    ]
    graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name="y")])
    made = helper.make_model(graph, opset_imports=[helper.make_operatorsetid("", opset)], ir_version=8)
    compare(made, feeds)
    assert Graph(made).run(feeds)["y"].dtype == np.float32
