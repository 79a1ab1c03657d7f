"""Tensors without elements: what ONNX says comes out, at every door, and no kernel is compiled."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.quantised_models import onnxruntime_outputs

import convc
from convc import backend
from convc.api.options import ReadOptions
from convc.errors import InputError, NodeError
from convc.frontend.empty_convs import empty_result

EMPTY = {
    "no images": ("Conv", (0, 4, 9, 9), (8, 4, 3, 3), {"pads": [1] * 4}),
    "no rows": ("Conv", (1, 4, 0, 9), (8, 4, 3, 3), {"pads": [2, 1, 2, 1]}),
    "no rows, strides": ("Conv", (2, 4, 0, 9), (8, 4, 3, 3), {"pads": [2, 1, 2, 1], "strides": [2, 2]}),
    "no outputs": ("Conv", (1, 4, 9, 9), (0, 4, 3, 3), {}),
    "no channels": ("Conv", (1, 0, 9, 9), (8, 0, 3, 3), {}),
    "no images, row": ("Conv", (0, 4, 9), (8, 2, 3), {"group": 2}),
    "no images, volume": ("Conv", (0, 4, 5, 5, 5), (8, 4, 3, 3, 3), {}),
    "transposed, no images": ("ConvTranspose", (0, 4, 9, 9), (4, 8, 3, 3), {"strides": [2, 2]}),
    "transposed, no rows": ("ConvTranspose", (1, 4, 0, 9), (4, 8, 3, 3), {}),
    "transposed, no channels": ("ConvTranspose", (1, 0, 5, 9), (0, 8, 2, 2), {"strides": [2, 2]}),
    "transposed, no outputs": ("ConvTranspose", (1, 4, 5, 9), (4, 0, 2, 2), {}),
}  # fmt: skip


def model(kind: str, x: tuple, w: tuple, attributes: dict) -> tuple[onnx.ModelProto, np.ndarray]:
    rng = np.random.default_rng(7)
    channels = w[0] if kind == "Conv" else w[1]
    arrays = {"w": rng.standard_normal(w).astype(np.float32), "b": rng.standard_normal(channels).astype(np.float32)}
    nodes = [helper.make_node(kind, ["x", "w", "b"], ["c"], name="c", **attributes)]
    nodes.append(helper.make_node("Relu", ["c"], ["y"]))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *x[1:]])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"y{axis}" for axis in range(len(x))])
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", [given], [made], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), np.ones(x, np.float32)


@pytest.mark.parametrize("name", EMPTY)
def test_every_door_gives_what_onnxruntime_gives(name):
    made, x = model(*EMPTY[name])
    expected = onnxruntime_outputs(made, {"x": x}, [])["y"]
    for fuse in (False, True):
        np.testing.assert_array_equal(backend.prepare(made, fuse=fuse).run([x])[0], expected)
    run = convc.run_network(made, x)
    np.testing.assert_array_equal(run.outputs["y"], expected)
    assert (run.stats.empty, run.stats.compiled) == (["c"], [])
    assert convc.verify(made, feeds=x).ok
    report = convc.verify(made, read=ReadOptions(shapes={"x": x.shape}))
    assert report.ok
    assert "its result is empty or equals the bias" in report.skipped[0].reason


def test_there_is_nothing_to_compile(tmp_path):
    made, x = model(*EMPTY["no images"])
    with pytest.raises(InputError, match="there is nothing to compile"):
        convc.compile(made, tmp_path / "build", read=ReadOptions(shapes={"x": x.shape}))
    assert not (tmp_path / "build").exists()


def test_whole_numbers():
    x = np.zeros((1, 4, 0, 5), np.uint8)
    w = np.ones((2, 4, 3, 3), np.int8)
    sums = helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], pads=[2, 1, 2, 1])
    np.testing.assert_array_equal(empty_result(sums, "y", [x, w, np.uint8(3)]), np.zeros((1, 2, 2, 5), np.int32))
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]
    node = helper.make_node("QLinearConv", names, ["y"], pads=[2, 1, 2, 1])
    scale = np.float32(0.5)
    arrays = [x, scale, np.uint8(3), w, scale, np.int8(0), scale, np.array(10, np.int8), np.array([3, -500], np.int32)]
    made = empty_result(node, "y", arrays)
    assert made.dtype == np.int8
    np.testing.assert_array_equal(made[0, :, 0, 0], [12, -128])  # 3 * 0.5 is rounded to even


def test_what_is_empty_and_wrong_is_refused():
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    x = np.zeros((0, 4, 2, 2), np.float32)
    with pytest.raises(NodeError, match="they must have the same C"):
        empty_result(node, "y", [x, np.zeros((1, 3, 1, 1), np.float32)])
    with pytest.raises(NodeError, match="the filter is larger than the padded input"):
        empty_result(node, "y", [x, np.zeros((1, 4, 4, 4), np.float32)])
    assert empty_result(node, "y", [np.zeros((1, 4, 2, 2), np.float32), np.zeros((1, 4, 1, 1), np.float32)]) is None
