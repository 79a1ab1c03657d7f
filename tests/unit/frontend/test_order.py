"""Graphs whose nodes are not in order are read as if they were; circles are named."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.quantised_models import onnxruntime_outputs

import convc
from convc import backend
from convc.errors import ModelError
from convc.frontend.order import sorted_model

W = np.random.default_rng(2).standard_normal((4, 4, 3, 3)).astype(np.float32)
X = np.random.default_rng(4).standard_normal((1, 4, 9, 9)).astype(np.float32)


def node(kind: str, given: list[str], made: list[str], **attributes) -> onnx.NodeProto:
    return helper.make_node(kind, given, made, **attributes)


def model(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "c", "h", "w"])
    constants = [numpy_helper.from_array(W, "w"), numpy_helper.from_array(np.array(True), "yes")]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def converted() -> list[onnx.NodeProto]:
    """As converters to float16 leave it: the casts are appended."""
    return [
        node("Conv", ["half", "half_w"], ["c"], name="first"),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "half_w"], ["half_y"], name="second"),
        node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16),
        node("Cast", ["half_y"], ["y"], to=TensorProto.FLOAT),
        node("Cast", ["w"], ["half_w"], to=TensorProto.FLOAT16),
    ]


def inside() -> list[onnx.NodeProto]:
    """A branch out of order, which reads what is made behind it."""
    body = [node("Neg", ["t"], ["out"]), node("Abs", ["c"], ["t"])]
    branch = helper.make_graph(body, "b", [], [onnx.ValueInfoProto(name="out")])
    return [node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch), node("Conv", ["x", "w"], ["c"])]


@pytest.mark.parametrize("nodes", [converted(), inside()], ids=["converted", "inside"])
def test_nodes_out_of_order(nodes):
    made = model(nodes)
    as_it_was = made.SerializeToString()
    expected = onnxruntime_outputs(sorted_model(made), {"x": X}, [])["y"]
    np.testing.assert_allclose(convc.run_model(made, X)["y"], expected, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(backend.prepare(made).run([X])[0], expected, rtol=1e-2, atol=1e-2)
    assert convc.verify(made).ok
    assert made.SerializeToString() == as_it_was
    onnx.checker.check_model(sorted_model(made))


def test_the_order_of_the_file_is_kept_where_it_can_be():
    assert [each.op_type for each in sorted_model(model(converted())).graph.node] == [
        "Cast", "Cast", "Conv", "Relu", "Conv", "Cast",
    ]  # fmt: skip
    sorted_already = model([node("Conv", ["x", "w"], ["y"])])
    assert sorted_model(sorted_already) is sorted_already


def test_a_circle_is_named():
    nodes = [
        node("Add", ["x", "b"], ["a"], name="one"),
        node("Neg", ["a"], ["b"], name="two"),
        node("Conv", ["b", "w"], ["y"], name="behind"),
    ]
    with pytest.raises(ModelError, match="the graph has a cycle: 'one', 'two'\n"):
        convc.load(model(nodes))
