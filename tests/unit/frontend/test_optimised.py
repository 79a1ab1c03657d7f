"""Convolutions of onnxruntime's optimiser: named where a model is read, and run by onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import convc
from convc.errors import ModelError
from convc.runtime.network.executor import Graph

X = np.random.default_rng(2).standard_normal((1, 16, 6, 6), dtype=np.float32)
W = np.random.default_rng(3).standard_normal((16, 16, 3, 3), dtype=np.float32)


def model(plain: bool) -> onnx.ModelProto:
    """A convolution with its activation, and where ``plain`` one without."""
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    g (float[1, 16, 6, 6] x) => (float[n, c, h, w] y) {{
        [first] a = Conv (x, w)
        r = Relu (a)
        {"[second] y = Conv (r, w)" if plain else "y = Neg (r)"}
    }}"""
    made = onnx.parser.parse_model(text)
    made.graph.initializer.append(numpy_helper.from_array(W, "w"))
    return made


def optimised(made: onnx.ModelProto, level: str, path: str) -> onnx.ModelProto:
    """What onnxruntime writes of a model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = path
    options.log_severity_level = 4
    onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(path)


@pytest.mark.parametrize("level", ["ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
def test_a_model_that_onnxruntime_has_optimised(level, tmp_path):
    made = optimised(model(plain=False), level, str(tmp_path / "m.onnx"))
    assert "Conv" not in [node.op_type for node in made.graph.node if not node.domain]
    with pytest.raises(ModelError, match=r"specific to onnxruntime's optimiser: .* ORT_ENABLE_BASIC"):
        convc.load(tmp_path / "m.onnx")
    graph = Graph(made)
    found = graph.run({"x": X})["y"]
    np.testing.assert_allclose(found, Graph(model(plain=False)).run({"x": X})["y"], rtol=1e-2, atol=1e-1)
    assert len(graph.stats.refused) == 1
    assert graph.stats.compiled == []


def test_what_is_left_of_standard_convolutions_is_compiled():
    made = model(plain=True)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    first = helper.make_node("FusedConv", ["x", "w"], ["r"], "first", domain="com.microsoft", activation="Relu")
    made.graph.node[0].CopyFrom(first)
    del made.graph.node[1]
    del made.graph.output[0].type.tensor_type.shape.dim[:]
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, (1, 16, 2, 2)))
    network = convc.load(made)
    assert [conv.name for conv in network.convs] == ["second"]
    assert "onnxruntime's optimiser" in {node.name: node.reason for node in network.skipped}["first"]
