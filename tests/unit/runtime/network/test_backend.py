"""The ONNX Backend API: the parts that ONNX's own tests do not reach."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import convc.backend
from convc.errors import InputError, ModelError, NodeError

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[1, 2, 4, 4] x, float[3, 2, 1, 1] w) => (float[1, 3, 4, 4] y) { y = Conv (x, w) }"""
X = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
W = np.arange(6, dtype=np.float32).reshape(3, 2, 1, 1)
Y = np.einsum("nchw,kcrs->nkhw", X, W)


def test_devices():
    assert convc.backend.supports_device("CPU")
    assert convc.backend.supports_device("CPU:0")
    assert not convc.backend.supports_device("CUDA")
    with pytest.raises(InputError, match="expected the device 'CPU', got 'CUDA'"):
        convc.backend.prepare(onnx.parser.parse_model(TEXT), "CUDA")


@pytest.mark.parametrize("inputs", [[X, W], (X, W), {"w": W, "x": X}])
def test_inputs_by_position_and_by_name(inputs):
    outputs = convc.backend.run_model(onnx.parser.parse_model(TEXT), inputs)
    np.testing.assert_array_equal(outputs[0], Y)
    np.testing.assert_array_equal(outputs["y"], Y)
    np.testing.assert_array_equal(outputs.y, Y)


def test_a_wrong_number_of_inputs():
    with pytest.raises(InputError, match="the model takes 2 inputs, got 1"):
        convc.backend.run_model(onnx.parser.parse_model(TEXT), X)


def test_options():
    model = onnx.parser.parse_model(TEXT)
    x = np.full_like(X, 1 + 2.0**-20)
    for precision, kept in (("tf32", False), ("tf32x3", True)):
        (y,) = convc.backend.run_model(model, [x, W], precision=precision)
        assert (y[0, 0, 0, 0] == x[0, 0, 0, 0]) == kept
    x = np.full_like(X, 1 + 2.0**-9)
    (rounded,), (kept,) = (convc.backend.run_model(model, [x, W], **how) for how in ({"operand": "bf16"}, {}))
    assert rounded.dtype == np.float32
    assert np.array_equal(rounded, convc.backend.run_model(model, [np.ones_like(X), W])[0])
    assert not np.array_equal(rounded, kept)
    with pytest.raises(InputError, match=r"operand must be one of f16, .*, got 'u8'"):
        convc.backend.prepare(model, operand="u8")
    with pytest.raises(InputError, match="precision must be one of tf32, bf16x3, bf16x6, tf32x3, got 'double'"):
        convc.backend.prepare(model, precision="double")
    with pytest.raises(InputError, match="refused must be one of"):
        convc.backend.prepare(model, refused="ignore")
    with pytest.raises(InputError, match="give options to prepare"):
        convc.backend.prepare(model).run([X, W], precision="tf32")


def test_run_node():
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    np.testing.assert_array_equal(convc.backend.run_node(node, [X, W]).y, Y)
    np.testing.assert_array_equal(convc.backend.run_node(node, {"x": X, "w": W}, opset_version=11).y, Y)
    squared = convc.backend.run_node(helper.make_node("Mul", ["x", "x"], ["y"]), [X])
    np.testing.assert_array_equal(squared.y, X * X)
    with pytest.raises(InputError, match="the node has 2 inputs, got 1"):
        convc.backend.run_node(node, [X])


def test_models_that_are_not_taken():
    wrong = onnx.parser.parse_model(TEXT)
    wrong.graph.node[0].op_type = "Convolve"
    assert not convc.backend.is_compatible(wrong)
    with pytest.raises(ModelError, match="not a valid model: No Op registered for Convolve"):
        convc.backend.prepare(wrong)
    wrong = onnx.parser.parse_model(TEXT)
    wrong.opset_import[0].version = 99
    with pytest.raises(ModelError, match="operator set 0 to"):
        convc.backend.prepare(wrong)
    assert convc.backend.is_compatible(onnx.parser.parse_model(TEXT))


def test_a_convolution_that_contradicts_itself_is_named():
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="first")
    with pytest.raises(NodeError):
        convc.backend.run_node(node, [X, np.ones((3, 5, 1, 1), np.float32)])


def test_nodes_are_fused_when_that_is_asked_for():
    text = TEXT.replace("y = Conv (x, w)", "c = Conv (x, v) y = Relu (c)")
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(W - 3, "v"))
    expected = np.maximum(np.einsum("nchw,kcrs->nkhw", X, W - 3), 0)
    for fuse, fused in ((True, {"c": ("y",)}), (False, {})):
        prepared = convc.backend.prepare(model, fuse=fuse)
        np.testing.assert_array_equal(prepared.run({"x": X, "w": W}).y, expected)
        assert prepared.graph.stats.fused == fused


def test_weights_in_files_lie_in_the_folder_of_the_model(tmp_path, monkeypatch):
    """And not in the current folder, where onnx's checker would look for them."""
    w = np.random.default_rng(1).standard_normal((8, 4, 3, 3)).astype(np.float32)
    x = np.ones((1, 4, 6, 6), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 4, 4])
    graph = helper.make_graph([node], "g", [given], [made], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    expected = convc.backend.prepare(model).run([x])[0]
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    loaded = onnx.load(folder / "m.onnx", load_external_data=False)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    np.testing.assert_array_equal(convc.backend.prepare(loaded, folder=folder).run([x])[0], expected)
    with pytest.raises(ModelError, match=r"there is no file 'w.bin' beside the model") as caught:
        convc.backend.prepare(loaded)
    assert caught.value.hint == "say where the model lies: prepare(model, folder=FOLDER)"
