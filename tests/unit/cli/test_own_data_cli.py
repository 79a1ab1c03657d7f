"""``convc verify --input``: a network on data of the user's, what decides, and calls that are refused."""

from __future__ import annotations

import json
import shlex

import numpy as np
import onnx
import pytest

import convc as package
from convc.runtime.network import ort_session

MODEL = """<ir_version: 8, opset_import: ["": 17]>
g (float[N, 4, 6, 6] x, float[N, 4, 6, 6] more) => (float[N, 4, 6, 6] y, int64[4] z) <float[4, 4, 3, 3] w> {
    a = Conv <pads = [1, 1, 1, 1]> (x, w)
    b = Add (a, more)
    y = Relu (b)
    z = Shape (y)
}"""


@pytest.fixture
def model(tmp_path):
    made = onnx.parser.parse_model(MODEL)
    weights = np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture
def given(tmp_path):
    rng = np.random.default_rng(1)
    arrays = {name: rng.standard_normal((2, 4, 6, 6)).astype(np.float32) for name in ("x", "more")}
    np.savez(tmp_path / "x.npz", **arrays)
    return tmp_path / "x.npz"


def test_a_network_on_own_data(convc, model, given):
    said = convc.good("verify", model, "--input", given)
    assert "a      2x4x6x6 * 4x3x3, pad 1 -> 6x6, then residual, relu" in said
    assert "output y: float32 2x4x6x6, right by relative RMS error: worst error" in said
    assert "output z: int64 4, right by equality: worst error 0" in said
    assert f"2 of 2 outputs right by onnxruntime {ort_session.available()}" in said
    report = json.loads(convc.good("verify", model, "--input", given, "--no-fuse", "--json", "-"))
    assert report["format"] == "convc-verify/3"
    assert report["ok"]
    assert [output["decided_by"] for output in report["network"]["outputs"]] == ["relative RMS error", "equality"]


def test_without_onnxruntime_the_reference_says_what_is_right(convc, model, given, monkeypatch):
    monkeypatch.setattr(ort_session, "available", lambda: None)
    said = convc.good("verify", model, "--input", given)
    assert "onnxruntime was not run: onnxruntime is not installed" in said
    assert "2 of 2 outputs right by onnx.reference" in said


def test_nan_is_never_right_in_silence(convc, model, given):
    changed = onnx.load(model)
    weights = onnx.numpy_helper.to_array(changed.graph.initializer[0]).copy()
    weights[1, 2, 1, 1] = np.nan
    changed.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(changed, model)
    legend = "NaN: the same elements in the result and in the reference; they count as right"
    said = convc.good("verify", model, "--batch", 2)
    assert "exact, in bound (72 NaN)" in said
    assert legend in said
    said = convc.good("verify", model, "--input", given)
    assert "in bound (72 NaN)" in said
    assert legend in said
    assert ", 72 elements NaN on both sides" in said


def test_one_convolution_is_held_against_the_derived_bound(convc, tiny, x, tmp_path):
    said = convc.good("verify", tiny, "--input", x)
    assert "right by derived bound: worst error" in said
    convc.good("run", tiny, "--input", x, "-o", tmp_path / "y.npy")
    said = convc.good("verify", tiny, "--input", x, "--expect", tmp_path / "y.npy", "--atol", 0)
    assert "right by atol 0 + rtol 0: worst error 0" in said
    assert "outputs right by the given arrays" in said
    y = np.load(tmp_path / "y.npy")
    y[0, 1, 2, 3] += 1
    np.save(tmp_path / "y.npy", y)
    for words, rule in (([], "derived bound"), (["--rtol", "0.001"], "atol 0 + rtol 0.001")):
        result = convc("verify", tiny, "--input", x, "--expect", tmp_path / "y.npy", *words)
        assert result.exit_code == 1
        assert f"WRONG by {rule}" in result.stdout
        assert "1 elements are wrong, the first is [0, 1, 2, 3]: got" in result.stdout
        assert "1 of 1 convolutions right by the derived bound" in result.stdout
    assert convc("verify", tiny, "--input", x, "--expect", tmp_path / "y.npy", "--atol", 2).exit_code == 0


def test_an_input_that_is_an_output_too_is_not_judged_as_the_convolutions(convc, tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y, float[1, 4, 6, 6] x) <float[4, 4, 1, 1] w> { y = Conv (x, w) }"""
    made = onnx.parser.parse_model(text)
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.full((4, 4, 1, 1), 2, np.float32), "w"))
    onnx.save(made, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((1, 4, 6, 6), np.float32))
    said = convc.good("verify", tmp_path / "m.onnx", "--input", tmp_path / "x.npy")
    assert "output y: float32 1x4x6x6, right by derived bound" in said
    assert "output x: float32 1x4x6x6, right by relative RMS error: worst error 0" in said


def test_an_output_that_is_a_scalar(convc, tmp_path):
    text = MODEL.replace("float[N, 4, 6, 6] y, int64[4] z", "float y, int64 z")
    text = text.replace("y = Relu (b)", "y = ReduceMean <keepdims = 0> (b)").replace("z = Shape (y)", "z = Size (b)")
    made = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    made.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal((4, 4, 3, 3)).astype("f4"), "w"))
    onnx.save(made, tmp_path / "scalar.onnx")
    arrays = {name: rng.standard_normal((1, 4, 6, 6)).astype(np.float32) for name in ("x", "more")}
    np.savez(tmp_path / "x.npz", **arrays)
    said = convc.good("verify", tmp_path / "scalar.onnx", "--input", tmp_path / "x.npz")
    assert "output y: float32 scalar, right by relative RMS error: worst error" in said
    assert "output z: int64 scalar, right by equality: worst error 0" in said
    np.savez(tmp_path / "y.npz", y=np.float32(7))
    words = ("--input", tmp_path / "x.npz", "--expect", tmp_path / "y.npz", "--atol", "0.1")
    said = convc("verify", tmp_path / "scalar.onnx", *words).stdout
    assert "1 elements are wrong, the first is []: got" in said
    convc.good("verify", tmp_path / "scalar.onnx", "--reweight", "1")


def test_some_outputs_may_be_expected(convc, model, given, tmp_path):
    np.savez(tmp_path / "y.npz", z=np.array([2, 4, 6, 7]))
    result = convc("verify", model, "--input", given, "--expect", tmp_path / "y.npz")
    assert result.exit_code == 1
    assert "output y: float32 2x4x6x6, not compared" in result.stdout
    assert "output z: int64 4, WRONG by equality" in result.stdout


def test_the_same_in_python(model, given, tmp_path):
    with np.load(given) as arrays:
        feeds = dict(arrays)
    report = package.verify(model, feeds=feeds, expected=package.Expected(atol=1e-6, rtol=0.01))
    assert not report.ok
    assert report.network.outputs[0].decided_by == "atol 1e-06 + rtol 0.01"
    assert repr(report).startswith("<VerifyReport g: 1 of 1 layers right, 1 of 2 outputs right, 1 kernel>")
    assert package.verify(onnx.load(model), feeds=feeds).ok


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--atol", "1"], "--atol applies to data of your own"),
        (["--expect", "x.npz"], "--expect applies to data of your own"),
        (["--input", "x.npz", "--atol", "-1"], "atol must be a number of at least 0"),
        (["--input", "x.npz", "--rtol", "nan"], "rtol must be a number of at least 0"),
        (["--input", "x.npz", "--reweight", "1"], "--input runs the whole network: leave --reweight out"),
        (["--input", "x.npz", "--sample", "1"], "leave --sample out"),
        (["--input", "wrong.npz"], "did you mean 'more'?"),
        (["--input", "x=x.npz"], "a file of named arrays is given for the input 'x'"),
        (["--input", "small.npy"], "the model has 2 inputs: say which"),
        (["--input", "x=small.npy"], "expected an array of shape [N, 4, 6, 6], got [3], for the input 'x'"),
        (["--input", "x=whole.npy"], "expected an array of float32, got int64, for the input 'x'"),
        (["--input", "x.npz", "--expect", "small.npy"], "the model has 2 outputs: say which with --expect "),
        (["--input", "x.npz", "--expect", "q=small.npy"], "the model has no output named 'q'"),
        (["--input", "x.npz", "--expect", "y=small.npy"], "the output's shape [2, 4, 6, 6], got [3]"),
        (["--input", "x.npz", "--json", "x.npz"], "would overwrite"),
        (["--input", "-", "--expect", "-"], "can be read once"),
        (["--input", "absent.npz"], "there is no such file or folder"),
    ],
)  # fmt: skip
def test_calls_that_are_refused(convc, model, given, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    np.save("small.npy", np.ones(3, np.float32))
    np.save("whole.npy", np.ones((1, 4, 6, 6), np.int64))
    np.savez("wrong.npz", mor=np.ones(1))
    before = given.read_bytes()
    assert message in convc.refused("verify", model, *words)
    assert given.read_bytes() == before


def test_the_next_command_works_with_the_extents_that_the_data_settled(convc, tmp_path):
    made = onnx.parser.parse_model(MODEL.replace("float[N, 4, 6, 6] x, float[N, 4, 6, 6] more", "float[N, 4, H, W] x"))
    made.graph.node.remove(made.graph.node[1])
    made.graph.node[1].input[0] = "a"
    weights = np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    path = tmp_path / "open model.onnx"
    onnx.save(made, path)
    np.save(tmp_path / "x.npy", np.zeros((2, 4, 7, 9), np.float32))
    said = convc.good("verify", path, "--input", tmp_path / "x.npy")
    *_, last = said.splitlines()
    assert last.startswith(f"next: convc inspect '{path}' --layer ")
    assert last.endswith(" --shape x:2x4x7x9")
    assert "2x4x7x9 * 4x3x3" in convc.good(*shlex.split(last)[2:])


def test_no_command_is_printed_that_would_fail(convc, tmp_path):
    """Weights that are an input are there when the network runs, and not when a layer is read alone."""
    made = onnx.parser.parse_model(
        MODEL.replace(" <float[4, 4, 3, 3] w>", "").replace("x, float", "x, float[4, 4, 3, 3] w, float", 1)
    )
    onnx.save(made, tmp_path / "m.onnx")
    x = np.ones((1, 4, 6, 6), np.float32)
    np.savez(tmp_path / "x.npz", x=x, more=x, w=np.ones((4, 4, 3, 3), np.float32))
    said = convc.good("verify", tmp_path / "m.onnx", "--input", tmp_path / "x.npz")
    assert "1 of 1 convolutions right" in said
    for line in said.splitlines():
        if line.startswith("next: "):
            convc.good(*shlex.split(line)[2:])
