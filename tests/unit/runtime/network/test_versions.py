"""Every operator set from 7 to the newest, every IR version from 3: one network, the same answer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from convc import api
from convc.frontend.model_file import MIN_IR, MIN_OPSET

RNG = np.random.default_rng(2)
WEIGHTS = {
    "w": RNG.integers(-2, 3, (4, 3, 3, 3)).astype(np.float32),
    "scale": np.array([1, 2, 0.5, 1], np.float32),
    "shift": np.array([0, 1, -1, 2], np.float32),
    "mean": np.array([1, 0, 2, -1], np.float32),
    "variance": np.array([1, 4, 0.25, 1], np.float32),
    "matrix": RNG.integers(-2, 3, (4, 5)).astype(np.float32) / 64,
    "bias": np.zeros(5, np.float32),
}
X = RNG.integers(-3, 4, (2, 3, 9, 9)).astype(np.float32)


def network(opset: int, ir_version: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"], epsilon=0.0),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["m"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "matrix", "bias"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 9, 9])]
    if ir_version < 4:  # each initializer is an input too
        inputs += [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in WEIGHTS.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 5])]
    initializers = [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()]
    graph = helper.make_graph(nodes, "versions", inputs, outputs, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_operatorsetid("", opset)], ir_version=ir_version)
    onnx.checker.check_model(made)
    return made


def expected() -> np.ndarray:
    """The network in float64, by hand."""
    padded = np.pad(X.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    y = np.einsum("nchwrs,kcrs->nkhw", windows, WEIGHTS["w"])
    scale, shift, mean, variance = (WEIGHTS[name][:, None, None] for name in ("scale", "shift", "mean", "variance"))
    y = np.maximum((y - mean) / np.sqrt(variance) * scale + shift, 0)[:, :, :4, :4]
    pooled = y.reshape(2, 4, 2, 2, 2, 2).max(axis=(3, 5)).mean(axis=(2, 3))
    powers = np.exp(pooled @ WEIGHTS["matrix"])
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("host", ["reference", "onnxruntime"])
@pytest.mark.parametrize("opset", range(MIN_OPSET, onnx.defs.onnx_opset_version() + 1))
def test_every_operator_set(opset, host, tmp_path):
    onnx.save(network(opset, 8), tmp_path / "m.onnx")
    y = api.run_model(tmp_path / "m.onnx", {"x": X}, host=host)["y"]
    np.testing.assert_allclose(y, expected(), rtol=1e-5)


@pytest.mark.parametrize("ir_version", range(MIN_IR, onnx.IR_VERSION + 1))
def test_every_ir_version(ir_version, tmp_path):
    onnx.save(network(9, ir_version), tmp_path / "m.onnx")
    np.testing.assert_allclose(api.run_model(tmp_path / "m.onnx", {"x": X})["y"], expected(), rtol=1e-5)
