"""Convolutions in the bodies of If, Loop and Scan: listed, compiled, run from their PTX, verified turn by turn."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.quantised_models import onnxruntime_outputs

import convc
from convc.api.options import ReadOptions
from convc.errors import NodeError
from convc.runtime.network.executor import Graph

RNG = np.random.default_rng(6)
W = (RNG.standard_normal((4, 4, 3, 3)) / 6).astype(np.float32)
X = np.abs(RNG.standard_normal((1, 4, 8, 8))).astype(np.float32)
FRAMES = RNG.standard_normal((3, 1, 4, 8, 8)).astype(np.float32)


def node(kind: str, given: list[str], made: list[str], **attributes) -> onnx.NodeProto:
    return helper.make_node(kind, given, made, **attributes)


def value(name: str, kind: int = TensorProto.FLOAT, shape: tuple | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def body(name: str, nodes: list, given: list, made: list, **constants: np.ndarray) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    return helper.make_graph(nodes, name, given, made, tensors)


def branches() -> list[onnx.NodeProto]:
    """One branch has weights of its own, the other those of the main graph; behind it is another convolution."""
    own = [node("Conv", ["x", "own"], ["t0"], name="c1", pads=[1] * 4), node("Relu", ["t0"], ["t"])]
    then = body("yes", own, [], [value("t")], own=W[::-1].copy())
    otherwise = body("no", [node("Conv", ["x", "w"], ["e"], name="c2", pads=[1] * 4)], [], [value("e")])
    return [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["positive"]),
        node("If", ["positive"], ["i"], name="pick", then_branch=then, else_branch=otherwise),
        node("Conv", ["i", "w"], ["y"], name="after"),
    ]


def loop(ends: bool = False) -> list[onnx.NodeProto]:
    """A convolution three times, or until the condition of the body says no."""
    condition = node("Less", ["number", "one"], ["goes"]) if ends else node("Identity", ["going"], ["goes"])
    nodes = [
        node("Conv", ["a", "w"], ["b"], name="step", pads=[1] * 4),
        node("Tanh", ["b"], ["next"]),
        condition,
        node("ReduceMean", ["next"], ["mean"], keepdims=0),
    ]
    inputs = [value("number", TensorProto.INT64, ()), value("going", TensorProto.BOOL, ()), value("a")]
    outputs = [value("goes", TensorProto.BOOL, ()), value("next"), value("mean")]
    return [node("Loop", ["three", "yes", "x"], ["y", "means"], name="rep", body=body("b", nodes, inputs, outputs))]


def scan() -> list[onnx.NodeProto]:
    nodes = [
        node("Conv", ["frame", "w"], ["b"], name="frame", pads=[1] * 4),
        node("Add", ["state", "b"], ["sum"]),
        node("Identity", ["b"], ["made"]),
    ]
    inner = body("b", nodes, [value("state"), value("frame")], [value("sum"), value("made")])
    return [node("Scan", ["x", "frames"], ["y", "all"], name="video", body=inner, num_scan_inputs=1,
                 scan_input_directions=[1], scan_output_axes=[1])]  # fmt: skip


def nested() -> list[onnx.NodeProto]:
    """A branch inside a loop."""
    yes = body("yes", [node("Conv", ["a", "w"], ["t"], name="c", pads=[1] * 4)], [], [value("t")])
    no = body("no", [node("Neg", ["a"], ["e"])], [], [value("e")])
    nodes = [
        node("Equal", ["number", "one"], ["now"]),
        node("If", ["now"], ["next"], name="pick", then_branch=yes, else_branch=no),
        node("Identity", ["going"], ["goes"]),
    ]
    inputs = [value("number", TensorProto.INT64, ()), value("going", TensorProto.BOOL, ()), value("a")]
    inner = body("b", nodes, inputs, [value("goes", TensorProto.BOOL, ()), value("next")])
    return [node("Loop", ["three", "", "x"], ["y"], name="rep", body=inner)]


STEP = "rep/body/step"
CASES = {
    "if": (branches(), ["pick/then_branch/c1", "pick/else_branch/c2", "after"]),
    "loop": (loop(), [STEP, f"{STEP}, turn 2", f"{STEP}, turn 3"]),
    "loop that ends": (loop(ends=True), [STEP, f"{STEP}, turn 2"]),
    "scan": (scan(), ["video/body/frame", "video/body/frame, turn 2", "video/body/frame, turn 3"]),
    "nested": (nested(), ["rep/body/pick/then_branch/c, turn 2"]),
}


def model(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    constants = {"w": W, "zero": np.float32(0), "three": np.array(3), "one": np.array(1), "yes": np.array(True)}
    inputs = [value("x", shape=X.shape)] + [value("frames", shape=FRAMES.shape)] * (nodes[0].op_type == "Scan")
    outputs = [value(name) for name in nodes[-1].output]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", CASES)
def test_they_run_as_onnxruntime_runs_them_and_are_verified(name):
    nodes, ran = CASES[name]
    made = model(nodes)
    taken = {1: ["pick/then_branch/c1", "after"], -1: ["pick/else_branch/c2", "after"]}
    for sign in (1, -1):
        feeds = {"x": sign * X, "frames": FRAMES}
        feeds = {each.name: feeds[each.name] for each in made.graph.input}
        expected = onnxruntime_outputs(made, feeds, [])
        got = convc.run_model(made, feeds, read=ReadOptions(precision="tf32x3"))
        for each in made.graph.output:
            np.testing.assert_allclose(got[each.name], expected[each.name], rtol=1e-3, atol=1e-3)
        report = convc.verify(made, feeds=feeds)
        assert report.ok
        assert [layer.name for layer in report.layers] == (taken[sign] if name == "if" else ran)
        assert not report.network.stats.hidden


@pytest.mark.parametrize("name", CASES)
def test_they_are_listed_and_verified_one_by_one(name):
    made = model(CASES[name][0])
    listed = {conv.name for conv in convc.load(made).convs}
    assert listed == {layer.split(", turn")[0] for layer in CASES[name][1]}
    assert convc.verify(made).ok


def test_what_changes_from_turn_to_turn_is_left_out():
    """Carried rows grow by two in each turn."""
    nodes = [node("Conv", ["a", "w"], ["next"], name="step", pads=[2, 1, 2, 1]), node("Identity", ["going"], ["goes"])]
    inputs = [value("number", TensorProto.INT64, ()), value("going", TensorProto.BOOL, ()), value("a")]
    inner = body("b", nodes, inputs, [value("goes", TensorProto.BOOL, ()), value("next")])
    made = model([node("Conv", ["x", "w"], ["z"]), node("Loop", ["three", "", "x"], ["y"], name="rep", body=inner)])
    network = convc.load(made)
    assert [conv.name for conv in network.convs] == ["z"]
    reason = next(each.reason for each in network.skipped if each.name == STEP)
    assert "its extents change between iterations" in reason
    assert convc.run_model(made, X)["y"].shape == (1, 4, 14, 8)


def test_a_condition_is_one_boolean():
    nodes = branches()
    nodes[2].input[0] = "s"
    with pytest.raises(NodeError, match="a condition is one boolean, got float32"):
        Graph(model(nodes)).run({"x": X})


def test_loops_in_loops_are_looked_into_a_bounded_number_of_times():
    def inside(depth: int) -> onnx.GraphProto:
        grown = node("Concat", ["a", "a"], ["next"], axis=0)
        nodes = [node("Loop", ["three", "", "a"], ["next"], body=inside(depth - 1)) if depth else grown]
        nodes.append(node("Identity", ["going"], ["goes"]))
        inputs = [value("number", TensorProto.INT64, ()), value("going", TensorProto.BOOL, ()), value("a")]
        return body("b", nodes, inputs, [value("goes", TensorProto.BOOL, ()), value("next")])

    nodes = [node("Loop", ["three", "", "x"], ["y"], body=inside(20)), node("Conv", ["x", "w"], ["z"])]
    assert len(convc.load(model(nodes)).convs) == 1
