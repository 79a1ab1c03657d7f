"""Shapes behind onnxruntime's own operators, beside what onnxruntime itself gives."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.quantised_models import onnxruntime_outputs

from convc.frontend.constants import Constants
from convc.frontend.contrib_shapes import as_standard
from convc.frontend.shapes import infer_types

X = np.arange(2 * 3 * 6 * 8, dtype=np.uint8).reshape(2, 3, 6, 8)
ROW = np.arange(8, dtype=np.uint8)
NODES = {
    "add": ("QLinearAdd", "x s z row s z s z", {}),
    "mul": ("QLinearMul", "row s z x s z s z", {}),
    "leaky": ("QLinearLeakyRelu", "x s z s z", {"alpha": 0.1}),
    "sigmoid": ("QLinearSigmoid", "x s z s z", {}),
    "softmax": ("QLinearSoftmax", "x s z s z", {"axis": -1, "opset": 13}),
    "pool": ("QLinearAveragePool", "x s z s z", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1]}),
    "global": ("QLinearGlobalAveragePool", "x s z s z", {"channels_last": 0}),
    "concat": ("QLinearConcat", "s z x s z x s z", {"axis": 2}),
    "quantize": ("QuantizeLinear", "r s z", {}),
    "dequantize": ("DequantizeLinear", "x s z", {}),
}


def model(kind: str, inputs: str, attributes: dict, domain: str = "com.microsoft") -> onnx.ModelProto:
    node = helper.make_node(kind, inputs.split(), ["y"], domain=domain, **attributes)
    known = {"s": np.float32(0.5), "z": np.uint8(3), "row": ROW}
    constants = [numpy_helper.from_array(np.asarray(a), name) for name, a in known.items() if name in node.input]
    types = {"x": TensorProto.UINT8, "r": TensorProto.FLOAT}
    given = [helper.make_tensor_value_info(name, types[name], X.shape) for name in types if name in node.input]
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name="y")], constants)
    imports = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("name", NODES)
def test_types_and_shapes(name):
    made = model(*NODES[name])
    found = infer_types(made, Constants(made.graph, None, {}), None)["y"]
    feeds = {value.name: X if value.name == "x" else X.astype(np.float32) for value in made.graph.input}
    y = onnxruntime_outputs(made, feeds, [])["y"]
    assert found.element_type == helper.np_dtype_to_tensor_dtype(y.dtype)
    assert found.shape == y.shape


def test_the_rest_stays_unknown():
    for kind, attributes, domain in [
        ("QGemm", {}, "com.microsoft"),
        ("QLinearGlobalAveragePool", {"channels_last": 1}, "com.microsoft"),
        ("QLinearAdd", {}, "elsewhere"),
    ]:
        node = helper.make_node(kind, ["x"], ["y"], domain=domain, **attributes)
        assert as_standard(node) is node
