"""Extents where ONNX's inference is known to be wrong: a sweep over attributes against onnxruntime."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.examples import PARTS
from support.quantised_models import onnxruntime_outputs

from convc.frontend.constants import Constants
from convc.frontend.shapes import infer_facts

X = (1, 2, 9, 10)
COUNT = 320


def pool(draw: random.Random) -> tuple[onnx.NodeProto, dict, int]:
    kind = draw.choice(["MaxPool", "AveragePool", "LpPool"])
    opset = draw.choice([7, 10, 12, 18, 19, 21, 22])
    kernel = [draw.randint(1, 4), draw.randint(1, 4)]
    given = {"kernel_shape": kernel, "strides": [draw.randint(1, 3), draw.randint(1, 3)]}
    if (opset >= 10 and kind != "LpPool") or opset >= 18:
        given["ceil_mode"] = draw.choice([0, 1, 1])
    mode = draw.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if mode == "NOTSET":
        given["pads"] = [draw.randint(0, min(1, taps - 1)) for taps in kernel] * 2
    else:
        given["auto_pad"] = mode
    if "SAME" not in mode and ((opset >= 10 and kind == "MaxPool") or opset >= 19):
        given["dilations"] = [draw.randint(1, 2), draw.randint(1, 2)]
    return helper.make_node(kind, ["x"], ["y"], **given), {}, opset


def resize(draw: random.Random) -> tuple[onnx.NodeProto, dict, int]:
    opset = draw.choice([11, 13, 18, 19])
    scales = [draw.choice([0.5, 0.33, 0.9, 0.7, 1.5, 1.7, 2, 2.3]) for _ in range(2)]
    inputs = ["x", "", "scales"] if opset >= 13 else ["x", "none", "scales"]
    whole = opset < 18 or draw.random() < 0.5
    given = {} if whole else {"axes": [2, 3]}
    tensors = {"scales": np.array([1, 1, *scales] if whole else scales, np.float32), "none": np.zeros(0, np.float32)}
    if draw.random() < 0.3:
        return helper.make_node("Upsample", ["x", "scales"], ["y"]), {"scales": np.float32([1, 1, 1.7, 2.3])}, 9
    node = helper.make_node("Resize", inputs, ["y"], mode=draw.choice(["nearest", "linear"]), **given)
    return node, {name: tensors[name] for name in inputs if name in tensors}, opset


def transposed(draw: random.Random) -> tuple[onnx.NodeProto, dict, int]:
    strides = [draw.randint(1, 3), draw.randint(1, 3)]
    given = {"strides": strides, "dilations": [draw.randint(1, 2), draw.randint(1, 2)]}
    if draw.random() < 0.5:
        given["output_padding"] = [draw.randint(0, step - 1) for step in strides]
    if draw.random() < 0.5:
        given["output_shape"] = [draw.randint(8, 30), draw.randint(8, 30)]
    else:
        given["pads"] = [draw.randint(0, 1) for _ in range(4)]
    w = np.ones((2, 2, draw.randint(1, 4), draw.randint(1, 4)), np.float32)
    return helper.make_node("ConvTranspose", ["x", "w"], ["y"], **given), {"w": w}, draw.choice([9, 11, 17, 22])


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("make", [pool, resize, transposed])
def test_as_onnxruntime(make, part):
    draw = random.Random(17)
    compared = 0
    for _ in range(COUNT // part):
        node, tensors, opset = make(draw)
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, X)
        constants = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
        graph = helper.make_graph([node], "g", [x], [helper.make_tensor_value_info("y", 1, None)], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        try:
            made = onnxruntime_outputs(model, {"x": np.ones(X, np.float32)}, [])["y"]
        except Exception:  # attributes that onnxruntime does not take
            continue
        known = infer_facts(model, Constants(graph, None, {}, opset=opset), None).types["y"].shape
        assert known == made.shape, node
        compared += 1
    assert compared > COUNT / part / 3
