"""Graphs with quantised convolutions: what runs as whole numbers, what does not, and what is said of it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from support.qdq import ARRAYS, X_SHAPE, node, qdq_model, qdq_nodes
from support.quantised_models import onnxruntime_outputs

from convc.errors import InputError
from convc.runtime.network.executor import Graph, with_integers
from convc.verification.network import random_case, verify_network

X = np.random.default_rng(5).integers(0, 256, X_SHAPE, np.uint8)


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> tuple[Graph, np.ndarray]:
    graph = Graph(with_integers(model, None), fuse=True)
    return graph, graph.run({"x": X, **feeds})["y"]


def expected(model: onnx.ModelProto, **feeds: np.ndarray) -> np.ndarray:
    return onnxruntime_outputs(model, {"x": X, **feeds}, [])["y"]


def one_step(got: np.ndarray, wanted: np.ndarray, count: int) -> bool:
    """Whether at most ``count`` numbers differ, by one."""
    off = np.abs(got.astype(int) - wanted)
    return off.max() <= 1 and np.count_nonzero(off) <= count


def test_an_integer_convolution():
    graph, y = run(model := qdq_model())
    assert np.array_equal(y, expected(model))
    assert graph.stats.compiled == ["conv"]
    assert graph.stats.fused == {"conv": ("dx", "dw", "db", "q")}
    assert (graph.stats.host, graph.stats.floating) == (0, {})


def test_an_activation_that_stays_a_node():
    graph, y = run(model := qdq_model(qdq_nodes(node("Relu", "c", "r"))))
    assert np.array_equal(y, expected(model))
    assert y.min() == ARRAYS["zy"]
    assert graph.stats.host == 1


def test_what_is_not_recognised_runs_in_floating_point():
    graph, y = run(
        model := qdq_model(qdq_nodes(node("Sigmoid", "c", "r")), {"sy": np.float32(0.004), "zy": np.uint8(0)})
    )
    assert one_step(y, expected(model), y.size // 20)  # tf32
    assert graph.stats.floating == {"conv": "its result goes to Sigmoid before it is quantised"}
    assert graph.stats.host == 2  # the constants behind DequantizeLinear are no nodes
    assert graph.stats.fused == {"conv": ("r",)}


@pytest.mark.parametrize("opset", [13, 17])
def test_without_onnxruntime(opset, monkeypatch):
    monkeypatch.setattr("convc.runtime.network.ort_session.available", lambda: None)
    nodes = [node("QuantizeLinear", "real sx zx", "x"), *qdq_nodes(), node("DequantizeLinear", "y sy zy", "result")]
    model = qdq_model(nodes, opset=opset, outputs=["result"])
    real = np.random.default_rng(8).uniform(-3, 3, X_SHAPE).astype(np.float32)
    model.graph.input.append(onnx.helper.make_tensor_value_info("real", onnx.TensorProto.FLOAT, X_SHAPE))
    graph = Graph(with_integers(model, None), fuse=True)
    got = graph.run({"real": real})["result"]
    assert np.array_equal(got, onnxruntime_outputs(model, {"real": real}, [])["result"])
    assert graph.stats.elsewhere == {}
    assert graph.stats.fused["conv"]


def test_node_by_node_there_are_no_integer_convolutions():
    graph = Graph(model := qdq_model())
    assert one_step(graph.run({"x": X})["y"], expected(model), 5)
    assert graph.stats.fused == {}


@pytest.mark.parametrize("name", ["w", "sw", "b", "sx", "zy"])
def test_other_values_for_what_it_assumes(name):
    """An initializer that is an input too may be fed; the model then runs as it was written."""
    model = qdq_model()
    given = ARRAYS[name]
    model.graph.input.append(
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(given.dtype), given.shape)
    )
    other = np.asarray(given * 2 if given.dtype == np.float32 else given // 2, given.dtype)
    graph = Graph(with_integers(model, None), fuse=True)
    for _ in range(2):
        y = graph.run({"x": X, name: other})["y"]
        assert one_step(y, expected(model, **{name: other}), 6)
        assert graph.stats.fused == {}
        assert np.array_equal(graph.run({"x": X})["y"], expected(model))
        assert graph.stats.fused["conv"]
    with pytest.raises(InputError):
        graph.run({"x": X, name: other.astype(np.float64)})


def test_constants_behind_quantize_linear_follow_what_is_fed():
    """The weights are quantised, dequantised and multiplied node by node where they are given to the run."""
    nodes = [node("QuantizeLinear", "wf sw zw", "w", axis=0), *qdq_nodes(node("Sigmoid", "c", "r"))]
    real = ARRAYS["w"] * np.float32(0.01)
    model = qdq_model(nodes, {"wf": real, "sy": np.float32(0.004), "zy": np.uint8(0)})
    model.graph.input.append(onnx.helper.make_tensor_value_info("wf", onnx.TensorProto.FLOAT, real.shape))
    graph = Graph(with_integers(model, None), fuse=True)
    for feeds in ({}, {"wf": -real}, {}):
        y = graph.run({"x": X, **feeds})["y"]
        assert one_step(y, expected(model, **feeds), y.size // 20)


@pytest.mark.parametrize("kind", ["integer", "clip", "floating"])
def test_verifying(kind):
    activation = {"integer": [], "clip": [node("Relu", "c", "r")], "floating": [node("Sigmoid", "c", "r")]}[kind]
    report = verify_network(random_case(qdq_model(qdq_nodes(*activation)), seed=2))
    assert report.departs is None
    (layer,) = report.layers
    assert layer.problem.types == ("tf32 -> f32" if kind == "floating" else "u8 x s8 -> u8")
    assert len(layer.checks) == 2
    assert bool(report.network.stats.floating) == (kind == "floating")
    assert report.network.silent == ""
    assert report.network.replaced == 0
