"""Networks that amplify rounding, and those in which something is wrong."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
from rich.console import Console

import convc
from convc.report.verify import print_report, report_json
from convc.runtime.network import ort_session
from convc.runtime.network.executor import Graph

NETWORK = """<ir_version: 8, opset_import: ["": 13]>
g (float[1, 1, 512] x) => (float[1, N, M] y{more})
<float[32, 1, 64] w, float[1] tiny = {{1e-10}}, float[1] small = {{1e-6}}> {{
    c = Conv <strides = [16]> (x, w)
    p = Mul (c, c)
    {behind}
}}"""
BEHIND = {
    "logarithm": ("e = Add (p, tiny)\ny = Log (e)", "y (Log)"),
    "quotient": ("e = Add (p, small)\nd = Div (c, e)\ny = Identity (d)", "d (Div)"),
    "logarithm of a sum": ("s = ReduceMean <axes = [2]> (c)\nq = Mul (s, s)\ne = Add (q, tiny)\ny = Log (e)", ""),
}


@pytest.fixture
def wave():
    return (0.3 * np.sin(2 * np.pi * 5.5 / 512 * np.arange(512))).astype(np.float32).reshape(1, 1, -1)


def network(behind: str, more: str = "") -> onnx.ModelProto:
    """A spectrum of 32 lines, of which most are almost zero."""
    model = onnx.parser.parse_model(NETWORK.format(behind=behind, more=more))
    lines = np.arange(1, 33)[:, None] * np.arange(64) / 64
    w = (np.cos(2 * np.pi * lines) * np.hanning(64)).astype(np.float32)[:, None]
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    return model


def said(report) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_report(console, report)
    return console.file.getvalue()


@pytest.mark.one_of(2)
@pytest.mark.parametrize("precision", ["tf32", "bf16x3", "tf32x3", "bf16x6"])
@pytest.mark.parametrize("name", BEHIND)
def test_rounding_that_is_amplified_is_right(name, precision, wave):
    behind, node = BEHIND[name]
    report = convc.verify(network(behind), feeds=wave, read=convc.ReadOptions(precision=precision))
    output = report.network.outputs[0]
    assert output.count_wrong or precision != "tf32"  # it did deviate
    assert report.ok
    if output.count_wrong:
        assert output.amplified
        assert report.network.amplification.explained
        assert report.network.amplification.finer == (precision in ("tf32", "bf16x3"))
        if node:
            assert report.network.amplification.node == node
        assert report.network.amplification.behind > report.network.amplification.before
        text = said(report)
        assert "right except for amplified rounding, by relative RMS error" in text
        assert f"the error grows from {report.network.amplification.node} on" in text
        assert b'"amplified": true' in report_json(report)


def test_it_says_which_precision_agrees(wave):
    """A threshold turns rounding into whole differences, which tf32x3 does not have."""
    behind = "y = Identity (c)\no = Mul (c, tiny)\nn = Round (o)\nm = ArgMax <axis = 1> (n)"
    model = network(behind, ", int64[1, 1, M] m")
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == "tiny")
    scale.CopyFrom(onnx.numpy_helper.from_array(np.array([400.0], np.float32), "tiny"))
    report = convc.verify(model, feeds=wave)
    whole = next(output for output in report.network.outputs if output.name == "m")
    assert report.ok
    if whole.count_wrong:
        assert report.network.amplification.agrees
        assert f"--precision {report.network.amplification.other} agrees" in said(report)


def test_a_node_that_is_wrong_is_wrong_at_every_precision(wave, monkeypatch):
    real = Graph._on_host

    def wrong(self, name, node, inputs):
        made = real(self, name, node, inputs)
        return [made[0] + np.float32(0.1)] if node.op_type == "Log" else made

    model = network(BEHIND["logarithm"][0])
    answer = ort_session.run_model(model, {"x": wave}, {}, [])
    monkeypatch.setattr(Graph, "_on_host", wrong)
    for precision in ("tf32x3", "bf16x6"):
        read = convc.ReadOptions(precision=precision)
        report = convc.verify(model, feeds=wave, expected=convc.Expected(outputs=answer), read=read)
        assert not report.ok
    monkeypatch.setattr(Graph, "_on_host", lambda self, name, node, inputs: [2 * real(self, name, node, inputs)[0]])
    report = convc.verify(model, feeds=wave, expected=convc.Expected(outputs=answer))
    assert not report.ok
    assert all(layer.ok for layer in report.layers)
    assert not report.network.amplification.explained
    assert "rounding does not explain the difference" in said(report)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_infinite_difference_is_not_explained(wave, bad):
    model = network("y = Identity (c)")
    answer = ort_session.run_model(model, {"x": wave}, {}, [])
    answer["y"][0, 3, 2] = bad
    report = convc.verify(model, feeds=wave, expected=convc.Expected(outputs=answer))
    assert not report.ok
    assert not report.network.amplification.explained


def test_a_tolerance_of_the_user_decides_alone(wave):
    model = network(BEHIND["logarithm"][0])
    report = convc.verify(model, feeds=wave, expected=convc.Expected(atol=1e-6))
    assert not report.ok
    assert not report.network.outputs[0].amplified


def test_what_has_no_finer_precision_is_left_as_it_is(wave):
    model = network(BEHIND["logarithm"][0])
    expected = {"y": np.full((1, 32, 29), 7.0, np.float16)}
    for tensor in model.graph.initializer:
        tensor.CopyFrom(
            onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float16), tensor.name)
        )
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    report = convc.verify(model, feeds=wave.astype(np.float16), expected=convc.Expected(outputs=expected))
    assert not report.ok
    assert report.network.amplification is None
    assert "there is no other precision to compare with" in said(report)
