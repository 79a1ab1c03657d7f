"""``convc run MODEL.onnx``: the whole network, its outputs, and calls that are refused."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from support.qdq import X_SHAPE, node, qdq_model, qdq_nodes

from convc import api

BRANCHES = """<ir_version: 8, opset_import: ["": 17]>
g (float[N, 3, 6, 6] x, float[1] factor) => (float[N, 4, 6, 6] y, float[N, 4, 6, 6] z) <float[4, 3, 3, 3] w> {
    a = Conv <pads = [1, 1, 1, 1]> (x, w)
    y = Relu (a)
    z = Mul (a, factor)
}"""


@pytest.fixture
def model(tmp_path):
    made = onnx.parser.parse_model(BRANCHES)
    weights = np.random.default_rng(0).integers(-3, 4, (4, 3, 3, 3)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture
def feeds(tmp_path):
    arrays = {
        "x": np.random.default_rng(1).integers(-3, 4, (2, 3, 6, 6)).astype(np.float32),
        "factor": np.array([2], np.float32),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return arrays


def inputs(tmp_path) -> list[str]:
    return [word for name in ("x", "factor") for word in ("--input", f"{name}={tmp_path / name}.npy")]


def test_a_network_with_several_inputs_and_outputs(convc, model, feeds, tmp_path):
    expected = ReferenceEvaluator(str(model)).run(None, feeds)
    said = convc.good("run", model, *inputs(tmp_path), "-o", f"z={tmp_path / 'z.npy'}", "-o", f"y={tmp_path / 'y.npy'}")
    for name, array in zip("yz", expected, strict=True):
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), array)
    assert "1 convolution from PTX" in said
    assert "2 nodes on the host" in said
    assert f"wrote {tmp_path / 'y.npy'}: output y: float32 [2, 4, 6, 6]" in said
    results = api.run_model(model, feeds)
    np.testing.assert_array_equal(results["z"], expected[1])


def test_a_run_as_json(convc, model, feeds, tmp_path):
    result = convc("run", model, *inputs(tmp_path), "-o", f"y={tmp_path / 'y.npy'}", "--json", "-")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["format"] == "convc-network-run/2"
    y, z = report["outputs"]
    assert y == {"name": "y", "dtype": "float32", "shape": [2, 4, 6, 6], "file": str(tmp_path / "y.npy")}
    assert (z["name"], z["file"]) == ("z", None)
    assert report["stats"]["compiled"] == ["a"]
    assert report["stats"]["host"] == 2
    assert "1 convolution from PTX" in result.stderr


def test_without_an_output_it_says_what_came_out(convc, model, feeds, tmp_path):
    said = convc.good("run", model, *inputs(tmp_path))
    assert "output y: float32 [2, 4, 6, 6]" in said
    assert "wrote" not in said


def test_a_model_with_one_input_and_one_output_needs_no_names(convc, tiny, x, tmp_path):
    convc.good("compile", tiny, "-o", tmp_path / "build")
    convc.good("run", tmp_path / "build", "--input", x, "-o", tmp_path / "layer.npy")
    convc.good("run", tiny, "--input", x, "-o", tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.load(tmp_path / "layer.npy"))
    np.save(tmp_path / "wide.npy", np.load(x).astype(np.float64))
    convc.good("run", tiny, "--input", tmp_path / "wide.npy", "-o", tmp_path / "wide_y.npy", "--host", "onnxruntime")
    np.testing.assert_array_equal(np.load(tmp_path / "wide_y.npy"), np.load(tmp_path / "y.npy"))


def test_bfloat16_goes_in_and_comes_out_as_float32(convc, tmp_path):
    path = tmp_path / "model.onnx"
    text = '<ir_version: 8, opset_import: ["": 22]> g (bfloat16[2] x) => (bfloat16[2] y) { y = Neg (x) }'
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    np.save(tmp_path / "x.npy", np.array([1, -2], ml_dtypes.bfloat16))
    convc.good("run", path, "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == np.float32
    assert y.tolist() == [-1, 2]


def test_precision(convc, model, feeds, tmp_path):
    np.save(tmp_path / "x.npy", abs(feeds["x"]) + np.float32(1 + 2.0**-16))
    results = {}
    for precision in ("tf32", "tf32x3"):
        file = tmp_path / f"{precision}.npy"
        convc.good("run", model, *inputs(tmp_path), "-o", f"z={file}", "--precision", precision)
        results[precision] = np.load(file)
    assert (results["tf32"] == np.rint(results["tf32"])).all()
    assert (results["tf32x3"] != np.rint(results["tf32x3"])).any()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the input 'x' is missing"),
        (["--input", "x.npy"], "the model has 2 inputs: say which with --input x=FILE"),
        (["--input", "x=x.npy", "--input", "x=x.npy"], "--input is given twice for 'x'"),
        (["--input", "q=x.npy"], "the model has no input named 'q'"),
        (["--input", "x=absent.npy"], "there is no such file or folder"),
        (["--input", "x=factor.npy", "--input", "factor=factor.npy"], "of shape [N, 3, 6, 6], got [1]"),
        (["--input", "x=x.npy", "--input", "factor=factor.npy", "-o", "y.npy"], "the model has 2 outputs: say which"),
        (["--input", "x=x.npy", "--input", "factor=factor.npy", "-o", "q=y.npy"], "no output named 'q'"),
        (["--input", "x=x.npy", "--layer", "a"], "--layer is for build folders"),
    ],
)  # fmt: skip
def test_calls_that_are_refused(convc, model, feeds, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in convc.refused("run", model, *words)
    assert not (tmp_path / "y.npy").exists()


def test_a_file_that_is_no_model(convc, x, tmp_path):
    assert "not an ONNX model" in convc.refused("run", x, "--input", x)
    assert "there is no such file or folder" in convc.refused("run", tmp_path / "absent.onnx", "--input", x)


def test_options_of_models_do_not_go_with_a_build(convc, build, x, tmp_path):
    for words in (["--precision", "tf32x3"], ["--no-fuse"], ["--no-cache"]):
        said = convc.refused("run", build, "--input", x, "-o", tmp_path / "y.npy", *words)
        assert "a build folder holds its own" in said
    assert "Missing option '-o'" in convc.refused("run", build, "--input", x)
    assert "takes one '--input'" in convc.refused("run", build, "--input", f"x={x}", "-o", tmp_path / "y.npy")


def test_one_output_goes_to_one_file(convc, two, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 16, 16), np.float32))
    given = ["run", two, "--input", tmp_path / "x.npy"]
    name = onnx.load(two).graph.output[0].name
    said = convc.refused(*given, "-o", tmp_path / "a.npy", "-o", f"{name}={tmp_path / 'b.npy'}")
    assert f"-o is given twice for {name!r}" in said
    assert not list(tmp_path.glob("[ab].npy"))


def test_what_is_said_of_a_quantised_model(convc, tmp_path):
    """What ran in floating point and why, and who ran what the chosen evaluator does not have."""
    add = node("QLinearAdd", "y sy zy y sy zy sy zy", "z", "add", domain="com.microsoft")
    path = tmp_path / "model.onnx"
    onnx.save(qdq_model([*qdq_nodes(node("Sigmoid", "c", "r")), add], outputs=["z"]), path)
    np.save(tmp_path / "x.npy", np.zeros(X_SHAPE, np.uint8))
    why = "its result goes to Sigmoid before it is quantised"
    said = convc.good("run", path, "--input", tmp_path / "x.npy")
    assert f"floating-point: the quantised convolution conv: {why}" in said
    assert "nodes on the host by onnxruntime\n" in said
    said = convc.good("run", path, "--input", tmp_path / "x.npy", "--host", "reference")
    assert "on the host: add by onnxruntime: onnx.reference has no com.microsoft QLinearAdd" in said
    assert "output z: uint8 [1, 3, 5, 5]" in said
    said = convc.good("run", path, "--input", tmp_path / "x.npy", "--json", tmp_path / "run.json", "--no-fuse")
    stats = json.loads((tmp_path / "run.json").read_text())["stats"]
    assert stats["elsewhere"] == {}
    assert stats["evaluators"]["com.microsoft QLinearAdd"] == "onnxruntime"
    assert stats["floating"] == {}
    said = convc.good("compile", path, "-o", tmp_path / "build")
    assert f"not compiled: 2 x DequantizeLinear (conv stays floating-point: {why})" in said
    onnx.save(qdq_model(), path)
    said = convc.good("compile", path, "-o", tmp_path / "build", "--wide")
    assert "fused: conv + dx + dw + db + q" in said
    assert "u8 x s8 -> u8" in said
