"""Weights that nodes make of constants have the bits of a run, and take no memory before it is asked for."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import convc
from convc.errors import LimitError, NodeError
from convc.frontend.folding import folded
from convc.runtime.network.executor import Graph

W = np.random.default_rng(5).standard_normal((8, 4, 3, 3)).astype(np.float32)


def node(kind: str, given: list[str], made: list[str], **attributes) -> onnx.NodeProto:
    return helper.make_node(kind, given, made, **attributes)


def model(nodes: list[onnx.NodeProto], opset: int = 17, **arrays: object) -> onnx.ModelProto:
    """A convolution of x by w, which the nodes make of the arrays; w is an output too."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 5, 5])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "w")]
    graph = helper.make_graph([*nodes, node("Conv", ["x", "w"], ["y"], name="c")], "g", [x], outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


MADE = {
    "moved": model([node("Transpose", ["v"], ["w"], perm=[3, 2, 0, 1])], v=W.transpose(2, 3, 1, 0).copy()),
    "reshaped": model([node("Reshape", ["v", "s"], ["w"])], v=W.reshape(-1), s=[8, 4, -1, 3]),
    "by a shape": model(
        [node("Shape", ["like"], ["s"]), node("Reshape", ["v", "s"], ["w"])], v=W.reshape(-1), like=np.zeros_like(W)
    ),
    "normalised": model(
        [
            node("Mul", ["v", "v"], ["squares"]),
            node("ReduceSum", ["squares", "axes"], ["sums"]),
            node("Sqrt", ["sums"], ["norms"]),
            node("Div", ["v", "norms"], ["units"]),
            node("Mul", ["units", "gains"], ["w"]),
        ],
        v=W,
        axes=[1, 2, 3],
        gains=np.linspace(1, 2, 8, dtype=np.float32).reshape(8, 1, 1, 1),
    ),
    "a part": model([node("Split", ["v"], ["other", "w"], axis=0)], v=np.concatenate([W, -W])),
    "behind others": model(
        [node("Identity", ["v"], ["a"]), node("Neg", ["a"], ["b"]), node("Cast", ["b"], ["w"], to=TensorProto.FLOAT)],
        v=W.astype(np.float16),
    ),
    "dequantised": model(
        [node("DequantizeLinear", ["v", "scale"], ["a"]), node("Transpose", ["a"], ["w"], perm=[1, 0, 2, 3])],
        v=np.arange(-144, 144).reshape(4, 8, 3, 3).clip(-128, 127).astype(np.int8),
        scale=np.float32(0.25),
    ),
    "of an older set": model([node("Unsqueeze", ["v"], ["w"], axes=[3])], opset=11, v=W[..., 0]),
}


@pytest.mark.parametrize("how", MADE)
def test_weights_are_those_of_a_run(how):
    made = MADE[how]
    x = np.random.default_rng(1).standard_normal((1, 4, 5, 5)).astype(np.float32)
    results = Graph(made).run({"x": x})
    weight = convc.load(made, precision="bf16x6").convs[0].weight
    np.testing.assert_array_equal(weight, results["w"])
    np.testing.assert_array_equal(Graph(made, fuse=True).run({"x": x})["y"], results["y"])


def test_the_verbs_take_them():
    assert convc.verify(MADE["normalised"]).ok


@pytest.mark.parametrize(
    "nodes",
    [
        [node("RandomNormalLike", ["b"], ["r"]), node("Add", ["r", "b"], ["w"])],
        [node("Reshape", ["b", "x"], ["w"])],
        [node("Mul", ["b", "nothing"], ["w"])],
    ],
    ids=["drawn", "of an input", "of nothing"],
)
def test_what_is_no_constant_is_refused(nodes):
    with pytest.raises(NodeError, match="the weights must be constant, and 'w' is not"):
        convc.load(model(nodes, b=W))


def test_texts_are_not_folded():
    for kind, made in ((TensorProto.STRING, 0), (TensorProto.INT64, 1)):
        results = folded(node("Cast", ["b"], ["c"], to=kind), 17, [W])
        assert (results is not None) == made, kind


def test_a_chain_that_is_too_long_is_refused():
    chain = [node("Neg", [f"v{index}"], [f"v{index + 1}"]) for index in range(2000)]
    chain[-1].output[0] = "w"
    with pytest.raises(NodeError, match="must be constant"):
        convc.load(model(chain, v0=W))


@pytest.mark.parametrize(
    "large",
    [
        node("Expand", ["b", "t"], ["e"]),
        node("Tile", ["b", "s"], ["e"]),
        node("Pad", ["b", "p"], ["e"]),
    ],
    ids=lambda each: each.op_type,
)
def test_memory_is_asked_for_before_it_is_taken(large, monkeypatch):
    monkeypatch.setattr("onnx.reference.ReferenceEvaluator", lambda *_, **__: pytest.fail("it was computed"))
    extents = {"s": [1 << 20, 1 << 20, 1, 1], "t": [1 << 40, *W.shape], "p": [0] * 4 + [1 << 20, 1 << 20, 0, 0]}
    nodes = [large, node("ReduceMax", ["e"], ["m"], axes=[0, 1]), node("Add", ["b", "m"], ["w"])]
    with pytest.raises(LimitError, match=rf"^error\[C300\]: folding node 'e' \({large.op_type}\) needs \S+ [TP]iB"):
        convc.load(model(nodes, b=W, **extents))
