"""A node without inputs has no types to compare, and is still asked of both evaluators."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from convc.errors import NodeError
from convc.runtime.network.executor import Graph

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])


def added(source: object, host: str) -> np.ndarray:
    """Run x + r, where a node without inputs makes r."""
    add = helper.make_node("Add", ["x", "r"], ["y"])
    graph = helper.make_graph([source, add], "g", [X], [Y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Graph(model, host=host).run({"x": np.ones((2, 3), np.float32)})["y"]


@pytest.mark.parametrize("host", ["onnxruntime", "reference"])
def test_its_result_is_used(host):
    half = helper.make_node("RandomUniform", [], ["r"], shape=[2, 3], low=0.5, high=0.5)
    np.testing.assert_array_equal(added(half, host), np.full((2, 3), 1.5, np.float32))


@pytest.mark.parametrize("host", ["onnxruntime", "reference"])
def test_one_that_nobody_can_run_is_named(host):
    with pytest.raises(NodeError, match="r"):
        added(helper.make_node("Constant", [], ["r"], "nothing"), host)
