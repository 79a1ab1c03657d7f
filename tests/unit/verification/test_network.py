"""Verifying a whole network: both oracles, what they catch, and what is said without onnxruntime."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from rich.console import Console

from convc import api
from convc.api.options import ReadOptions, WorkOptions
from convc.errors import InputError, LimitError, ModelError
from convc.ir import dtypes
from convc.report.verify import print_report, report_json
from convc.runtime.network import convolutions
from convc.runtime.network.constants import StartValues
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph
from convc.verification import network
from convc.verification.compare import Comparison
from convc.verification.network import channels_alive, random_case, verify_network
from convc.verification.random_weights import random_weights
from convc.verification.records import LayerReport, VerifyReport
from convc.verification.rms_error import allowed_rms_error, rms_error

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[N, 3, 12, 12] x) => (float[N, 10] y)
<float[8, 3, 3, 3] w1, float[8] scale, float[8] shift, float[8] mean, float[8] variance,
 float[8, 8, 3, 3] w2, float[8] b2, float[10, 8] matrix> {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1)
    n = BatchNormalization (a, scale, shift, mean, variance)
    r = Relu (n)
    c = Conv <pads = [1, 1, 1, 1]> (r, w2, b2)
    s = Add (c, r)
    p = GlobalAveragePool (s)
    f = Flatten (p)
    y = Gemm <transB = 1> (f, matrix)
}"""
SHAPES = {
    "w1": (8, 3, 3, 3), "scale": (8,), "shift": (8,), "mean": (8,), "variance": (8,), "w2": (8, 8, 3, 3), "b2": (8,),
    "matrix": (10, 8),
}  # fmt: skip


def model() -> onnx.ModelProto:
    """A small residual network, every weight filled with one number."""
    made = onnx.parser.parse_model(TEXT)
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.full(shape, 0.5, np.float32), name) for name, shape in SHAPES.items()
    )
    return made


def verified(*given, **options) -> VerifyReport:
    """The report on a network with random weights."""
    return verify_network(random_case(*given, **options))


def said(report) -> str:
    text = io.StringIO()
    print_report(Console(width=300, file=text), report)
    return text.getvalue()


def right(layer: LayerReport) -> Comparison | None:
    """The layer against the float64 reference."""
    return layer.compared("network")


def agrees(layer: LayerReport) -> Comparison | None:
    """The layer against onnxruntime."""
    return layer.compared("network", "onnxruntime")


@pytest.mark.parametrize("operand", dtypes.SCALED_OPERANDS)
def test_a_network_of_few_bits_is_right_layer_by_layer(operand):
    """Whatever it loses by quantisation, each layer is what its quantised operands give; and it says what it lost."""
    report = verified(model(), seed=3, convolutions=Convolutions(operand=operand))
    assert report.ok
    assert all(right(layer).ok and right(layer).worst_ratio < 1 for layer in report.layers)
    assert [agrees(layer) for layer in report.layers] == [None, None], "r of a block is no bound for an element"
    assert all(0.005 < layer.relative_rms_error < 0.5 for layer in report.layers)
    assert 0.005 < report.network.outputs[0].measured < report.network.outputs[0].limit


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_a_right_network(precision):
    report = verified(model(), seed=3, batch=2, convolutions=Convolutions(precision=precision))
    assert report.ok
    assert [layer.name for layer in report.layers] == ["a", "c"]
    assert all(agrees(layer) is not None and agrees(layer).ok for layer in report.layers)
    assert all(0 < right(layer).worst_ratio < 1 for layer in report.layers)
    assert report.network.replaced == len(SHAPES)
    largest = 2e-6 if precision == "tf32x3" else 2e-3
    assert all(0 < layer.relative_rms_error < largest for layer in report.layers)
    assert report.network.outputs[0].shape == (2, 10)
    assert 0 < report.network.outputs[0].measured < largest
    assert "2 of 2 convolutions right" in said(report)
    plain = json.loads(report_json(report))
    assert plain["ok"]
    assert plain["departs"] is None


@pytest.mark.parametrize("what", ["one element", "one channel", "everything a little"])
def test_the_first_layer_that_departs_is_named(monkeypatch, what):
    real = convolutions.run_layer

    def wrong(layer, x, options):
        run = real(layer, x, options)
        y = run.y.copy()
        if layer.name == "c" and what == "one element":
            y[1, 2, 3, 4] += 0.2
        elif layer.name == "c" and what == "one channel":
            y[:, 5] = y[:, 4]
        elif layer.name == "c":
            y *= 1.01
        return dataclasses.replace(run, y=y)

    monkeypatch.setattr(convolutions, "run_layer", wrong)
    report = verified(model(), seed=3, batch=2)
    assert report.departs == "c"
    assert [layer.ok for layer in report.layers] == [True, False]
    assert not right(report.layers[1]).ok
    assert not agrees(report.layers[1]).ok
    assert "first departs: c" in said(report)


def test_a_convolution_that_is_read_wrong_departs_from_onnxruntime_alone(monkeypatch):
    """The float64 reference computes what the frontend read: only somebody else can tell that it read wrong."""
    real = convolutions.read_node

    def wrong(*given):
        conv = real(*given)
        return dataclasses.replace(conv, weight=np.ascontiguousarray(conv.weight[..., ::-1]))

    monkeypatch.setattr(convolutions, "read_node", wrong)
    report = verified(model(), seed=3)
    assert report.departs == "a"
    assert right(report.layers[0]).ok
    assert not agrees(report.layers[0]).ok


def test_a_host_node_that_is_wrong_shows_in_the_rms_error(monkeypatch):
    real = Graph._on_host

    def wrong(self, name, node, inputs):
        made = real(self, name, node, inputs)
        return [2 * made[0]] if node.op_type == "GlobalAveragePool" else made

    monkeypatch.setattr(Graph, "_on_host", wrong)
    report = verified(model(), seed=3)
    assert all(layer.ok for layer in report.layers)
    assert report.departs == "y"
    assert "output y: float32 1x10, WRONG by relative RMS error" in said(report)


def test_without_onnxruntime_the_reference_is_left(monkeypatch):
    monkeypatch.setattr(network.ort_session, "available", lambda: None)
    report = verified(model(), seed=3)
    assert report.ok
    assert all(agrees(layer) is None and layer.relative_rms_error is None for layer in report.layers)
    text = said(report)
    assert "onnxruntime was not run: onnxruntime is not installed" in text
    assert "output y: float32 1x10, not compared" in text
    assert "by the derived bound, no output compared" in text


def test_random_weights_have_sensible_scales_and_depend_on_the_seed():
    graph = model().graph
    first, again, other = (random_weights(graph, StartValues(graph, Path()), seed) for seed in (1, 1, 2))
    assert set(first) == set(SHAPES)
    for name, array in first.items():
        assert array.dtype == np.float32
        assert array.shape == SHAPES[name]
        np.testing.assert_array_equal(array, again[name])
        assert (array != other[name]).any()
    assert first["w1"].std() == pytest.approx((1 / 27) ** 0.5, rel=0.2)
    assert first["w2"].std() == pytest.approx((1.2 / 72) ** 0.5, rel=0.2)
    np.testing.assert_allclose(first["w2"].sum(axis=(1, 2, 3)), 0, atol=1e-5)
    assert (np.abs(first["variance"] - 1) <= 0.25).all()


def chain(depth: int, size: int, biased: bool) -> onnx.ModelProto:
    """Convolutions 3x3 of 32 channels, each behind a rectifier."""
    nodes, weights = [], []
    for index in range(depth):
        weights.append(onnx.numpy_helper.from_array(np.ones((32, 32 if index else 3, 3, 3), np.float32), f"w{index}"))
        weights.append(onnx.numpy_helper.from_array(np.ones(32, np.float32), f"b{index}"))
        inputs = [f"x{index}", f"w{index}", *([f"b{index}"] if biased else [])]
        nodes.append(helper.make_node("Conv", inputs, [f"y{index}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"y{index}"], [f"x{index + 1}"]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, size, size])
        for name, channels in (("x0", 3), (f"x{depth}", 32))
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("biased", [False, True])
def test_random_weights_keep_the_channels_alive(biased):
    """Behind 12 rectifiers at most 1 % of the channels are zero everywhere, and the report says how many."""
    report = verified(chain(12, 14, biased), seed=5)
    assert report.ok
    assert report.network.channels == 3 + 11 * 32
    assert report.network.zero_channels <= report.network.channels // 100
    assert f"{report.network.zero_channels} of 355 input channels are zero everywhere" in said(report)
    assert json.loads(report_json(report))["network"]["zero_channels"] == report.network.zero_channels


def test_channels_that_are_zero_everywhere_are_counted():
    x = np.zeros((2, 4, 3, 3), np.float32)
    x[1, 2, 0, 1] = -1
    assert channels_alive(x).tolist() == [False, False, True, False]


def test_the_relative_rms_error():
    ones = np.ones(4, np.float32)
    assert rms_error(ones, ones) == 0
    assert rms_error(1.5 * ones, ones) == pytest.approx(0.5)
    special = np.array([1.0, math.nan, math.inf, -math.inf])
    assert rms_error(special, special) == 0
    assert rms_error(special, special[::-1]) == math.inf
    assert rms_error(np.full(3, math.nan), np.full(3, math.nan)) == 0
    assert rms_error(ones, 0 * ones) == np.inf
    assert rms_error(0 * ones, 0 * ones) == 0
    assert rms_error(ones, None) is None
    assert allowed_rms_error(4, 2.0**-11) == pytest.approx(16 * 2.0**-11, rel=1e-2)


def test_calls_that_are_refused(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model(), path)
    with pytest.raises(InputError, match="a Network holds its convolutions only"):
        api.verify(api.load(path, batch=1), mode="network", seed=1)
    with pytest.raises(InputError, match="leave jobs and executor out"):
        api.verify(path, mode="network", seed=1, work=WorkOptions(jobs=2))
    with pytest.raises(InputError, match="seed must be at least 0"):
        api.verify(path, mode="network", seed=-1)
    assert api.verify(path, mode="network", seed=1).ok


def test_a_loaded_model_is_verified_as_its_file_is(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model(), path)
    first, second = (api.verify(source, mode="network", seed=1) for source in (path, model()))
    assert first.ok
    assert [layer.relative_rms_error for layer in first.layers] == [layer.relative_rms_error for layer in second.layers]


def test_the_python_call_multiplies_in_the_precision_asked_for(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    report = api.verify(tmp_path / "m.onnx", mode="network", seed=1, read=ReadOptions(precision="bf16x3"))
    assert {layer.problem.operand for layer in report.layers} == {"bf16x3"}


def test_results_of_another_shape_depart():
    assert rms_error(np.ones((2, 3)), np.ones((3, 2))) == np.inf
    assert rms_error(np.ones((2, 3)), None) is None


@pytest.mark.parametrize(
    ("kind", "shape", "error"),
    [(0, [2], ModelError), (TensorProto.STRING, [2], ModelError), (TensorProto.FLOAT, [1 << 62], LimitError)],
)
def test_inputs_that_no_data_can_be_made_for(kind, shape, error):
    with pytest.raises(error):
        network.random_inputs((onnx.helper.make_tensor_value_info("x", kind, shape),), 0, 1)


def test_a_batch_is_at_least_zero(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    with pytest.raises(InputError, match="batch must be at least 0, got -1"):
        api.verify(tmp_path / "m.onnx", mode="network", seed=1, read=ReadOptions(batch=-1))


def test_rounding_that_a_network_amplifies_is_no_error():
    text = """<ir_version: 8, opset_import: ["": 13]>
    g (float[1, 4, 12, 12] x) => (float[1, 8, 10, 10] y) <float[8, 4, 3, 3] w, float[1] tiny = {1e-12}> {
        c = Conv (x, w)
        d = Mul (c, c)
        e = Mul (d, d)
        f = Add (e, tiny)
        y = Reciprocal (f)
    }"""
    network = onnx.parser.parse_model(text)
    weights = np.random.default_rng(0).standard_normal((8, 4, 3, 3)).astype(np.float32)
    network.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    report = verified(network, seed=1)
    [output] = report.network.outputs
    assert output.measured > output.limit
    assert output.amplified
    assert report.ok
    assert report.network.amplification.node.endswith("(Reciprocal)")
    assert "right except for amplified rounding, by relative RMS error" in said(report)
    assert "no convolution is wrong; the network amplifies the rounding of tf32" in said(report)
