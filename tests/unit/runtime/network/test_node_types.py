"""What inference and onnxruntime are asked, room for what is expected, and nodes that are converted or are not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from convc.runtime.network import expected, host, ort_session
from convc.runtime.network.host import ConvertedNode
from convc.runtime.network.node_info import Refusal

LATEST = onnx.defs.onnx_opset_version()
X = np.float32([[1, 2, 3], [3, 1, 2]])


def test_small_arrays_of_numbers_are_known_by_value_and_no_others(monkeypatch):
    told: list[str] = []
    make = expected.numpy_helper.from_array

    def noted(array: np.ndarray, name: str) -> TensorProto:
        told.append(name)
        return make(array, name)

    monkeypatch.setattr(expected.numpy_helper, "from_array", noted)
    node = helper.make_node("Reshape", ["x", "extents"], ["y"])
    values = {"x": np.zeros((5, 13), np.float32), "extents": np.array([13, -1]), "words": np.array(["a"], object)}
    assert expected.expected_types(node, {"": LATEST}, values) == {
        "y": helper.make_tensor_type_proto(TensorProto.FLOAT, (13, 5))
    }
    assert told == ["extents"]


def test_room_is_asked_for_as_if_an_unknown_extent_were_one(monkeypatch):
    asked: list[tuple[int, str]] = []
    monkeypatch.setattr(expected, "require_memory", lambda *what: asked.append(what))
    most = expected._ASK_BYTES // 4
    for extent in (most, most + 1):
        expected.check_room({"y": helper.make_tensor_type_proto(TensorProto.FLOAT, (None, extent))}, "node n")
    assert asked == [(4 * most + 4, "'y' of node n")]


def test_a_node_of_the_latest_set_is_not_converted():
    node = helper.make_node("Relu", ["x"], ["y"])
    assert ConvertedNode(node, LATEST).run({"x": X}) == Refusal("missing", "no newer operator set has the node")


def test_a_set_that_has_any_of_the_made_nodes_wrong_is_passed_over(monkeypatch):
    """A Softmax of set 12 becomes several nodes of set 13."""
    cube = np.stack([X, -X])
    converted = ConvertedNode(helper.make_node("Softmax", ["x"], ["y"]), 12)
    monkeypatch.setattr(host, "reference_wrong", lambda node, opset: node.op_type == "Softmax" and opset == 13)
    (made,) = converted.run({"x": cube})
    np.testing.assert_allclose(made, np.exp(cube) / np.exp(cube).sum(axis=(1, 2), keepdims=True), rtol=1e-6)
    assert converted.title == "onnx.reference in operator set 14"


def test_a_tensor_that_is_an_output_is_not_asked_for_twice(monkeypatch):
    asked: list[str] = []

    def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        asked.extend(value.name for value in model.graph.output)
        return feeds

    monkeypatch.setattr(ort_session, "_run", run)
    graph = onnx.parser.parse_graph("g (float[2,3] x) => (float[2,3] y) { r = Relu(x) y = Neg(r) }")
    model = helper.make_model(graph, opset_imports=[helper.make_operatorsetid("", 21)])
    assert ort_session.run_model(model, {"x": X}, {}, ["y", "r"]) == {"x": X}
    assert asked == ["y", "r"]


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2), st.integers(0, 2))
@example(5, 1, 2, 0, 0)
@example(4, 1, 2, 0, 0)
@example(5, 2, 3, 1, 1)
def test_no_window_starts_behind_the_image(kind, extent, kernel, stride, before, after):
    """ONNX, ceil_mode: sliding windows that would start in the padded region behind the image are ignored."""
    assume(before < kernel and after < kernel and extent + before + after >= kernel)
    pool = helper.make_node(kind, ["x"], ["y"], kernel_shape=[kernel], strides=[stride], pads=[before, after],
                            ceil_mode=1)  # fmt: skip
    starts = range(-before, extent, stride)
    windows = sum(1 for start in starts if start == -before or start - stride + kernel < extent + after)
    values = {"x": np.zeros((1, 1, extent), np.float32)}
    (made,) = expected.expected_types(pool, {"": LATEST}, values).values()
    assert made.tensor_type.shape.dim[2].dim_value == windows
