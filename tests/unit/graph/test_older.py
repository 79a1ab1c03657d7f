"""Nodes of older operator sets on the host, against onnxruntime, which keeps every version of an operator."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from convc.graph.executor import Graph

X = np.random.default_rng(5).standard_normal((2, 3, 4, 5), dtype=np.float32)


@pytest.mark.parametrize("opset", [7, 11, 12, 13, 17])
@pytest.mark.parametrize("attributes", [{}, {"axis": 0}, {"axis": 1}, {"axis": 2}, {"axis": 3}])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_of_every_version(kind, attributes, opset):
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node(kind, ["x"], ["y"], **attributes)],
            "one",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape)],
        ),
        opset_imports=[helper.make_operatorsetid("", opset)],
        ir_version=7,
    )
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": X})
    got = Graph(model).run({"x": X})["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
