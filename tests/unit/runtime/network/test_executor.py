"""Running a model: order, constants, feeds, functions and subgraphs, and errors that name the node."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from convc.errors import InputError, ModelError, NodeError
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph
from convc.runtime.network.steps import last_uses, plain_steps

RNG = np.random.default_rng(3)


def whole(*shape: int) -> np.ndarray:
    return RNG.integers(-3, 4, shape).astype(np.float32)


def model(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    made = onnx.parser.parse_model(text)
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    return made


BRANCHES = """<ir_version: 8, opset_import: ["": 17]>
g (float[N, 3, 8, 8] x) => (float[N, 4, 8, 8] y, float[N, 4] pooled) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w, b)
    r = Relu (a)
    c = Conv (r, v)
    y = Add (c, a)
    axes = Constant <value_ints = [2, 3]> ()
    pooled = ReduceSum <keepdims = 0> (y, axes)
}"""


def branches() -> onnx.ModelProto:
    return model(BRANCHES, w=whole(4, 3, 3, 3), b=whole(4), v=whole(4, 4, 1, 1))


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_a_graph_with_branches(precision):
    made = branches()
    graph = Graph(made, convolutions=Convolutions(precision=precision))
    assert graph.convolutions == ("a", "c")
    for batch in (1, 2):
        x = whole(batch, 3, 8, 8)
        got = graph.run({"x": x})
        assert list(got) == ["y", "pooled"]
        for mine, expected in zip(got.values(), ReferenceEvaluator(made).run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(mine, expected)  # whole numbers
        assert graph.stats.compiled == ["a", "c"]
        assert graph.stats.host == 3


def test_weights_that_are_computed_in_the_graph():
    made = model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[1, 3, 5, 5] x, float[2, 3, 3, 3] w) => (float[1, 2, 3, 3] y) {
            twice = Add (w, w)
            y = Conv (x, twice)
        }"""
    )
    graph = Graph(made)
    for _ in range(2):  # the second time with other weights
        feeds = {"x": whole(1, 3, 5, 5), "w": whole(2, 3, 3, 3)}
        np.testing.assert_array_equal(graph.run(feeds)["y"], ReferenceEvaluator(made).run(None, feeds)[0])


def test_an_initializer_that_is_an_input_may_be_replaced_for_a_run():
    made = branches()
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (4, 3, 3, 3)))
    graph = Graph(made)
    x, other = whole(1, 3, 8, 8), whole(4, 3, 3, 3)
    first = graph.run({"x": x})["y"]
    changed = graph.run({"x": x, "w": other})["y"]
    np.testing.assert_array_equal(changed, ReferenceEvaluator(made).run(None, {"x": x, "w": other})[0])
    np.testing.assert_array_equal(graph.run({"x": x})["y"], first)
    assert (first != changed).any()


def test_convolutions_in_functions_and_branches_run_from_ptx():
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (bool which, float[1, 2, 4, 4] x, float[2, 2, 1, 1] w) => (float[1, 2, 4, 4] y) {
            a = local.twice (x, w)
            y = If (which) <
                then_branch = yes () => (float[1, 2, 4, 4] t) { t = Conv (a, w) },
                else_branch = no () => (float[1, 2, 4, 4] e) { e = Identity (a) }
            >
        }
        <domain: "local", opset_import: ["": 17, "local": 1]>
        once (x, w) => (y) { y = Conv (x, w) }
        <domain: "local", opset_import: ["": 17, "local": 1]>
        twice (x, w) => (y) { h = local.once (x, w)  y = local.once (h, w) }"""
    )
    for which in (True, False):
        graph = Graph(made)
        feeds = {"which": np.array(which), "x": whole(1, 2, 4, 4), "w": whole(2, 2, 1, 1)}
        expected = feeds["x"]
        for _ in range(3 if which else 2):
            expected = np.einsum("nchw,kc->nkhw", expected, feeds["w"][..., 0, 0])
        np.testing.assert_array_equal(graph.run(feeds)["y"], expected)
        assert graph.stats.compiled[2:] == (["y/then_branch/t"] if which else [])
        assert len(graph.stats.compiled) == (3 if which else 2)
        assert not graph.stats.hidden


def test_functions_and_subgraphs_run():
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (bool which, float[1, 1, 4, 4] x) => (float[1, 1, 4, 4] y) {
            d = local.double (x)
            y = If (which) <
                then_branch = yes () => (float[1, 1, 4, 4] t) { t = Neg (d) },
                else_branch = no () => (float[1, 1, 4, 4] e) { e = Add (x, d) }
            >
        }
        <domain: "local", opset_import: ["": 17]>
        double (x) => (y) { y = Add (x, x) }"""
    )
    graph = Graph(made)
    x = whole(1, 1, 4, 4)
    np.testing.assert_array_equal(graph.run({"which": np.array(True), "x": x})["y"], -2 * x)
    np.testing.assert_array_equal(graph.run({"which": np.array(False), "x": x})["y"], 3 * x)


def test_a_refused_convolution_is_named_or_runs_on_the_host():
    made = model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (double[1, 3, 5, 5] x) => (double[1, 2, 3, 3] y) { y = Conv (x, w) }""",
        w=whole(2, 3, 3, 3).astype(np.float64),
    )
    x = whole(1, 3, 5, 5).astype(np.float64)
    with pytest.raises(NodeError, match="f64 are not compiled") as caught:
        Graph(made).run({"x": x})
    assert caught.value.where == "node 'y' (Conv)"
    graph = Graph(made, refused="host")
    for _ in range(2):
        np.testing.assert_array_equal(graph.run({"x": x})["y"], ReferenceEvaluator(made).run(None, {"x": x})[0])
        assert list(graph.stats.refused) == ["y"]
        assert "f64" in graph.stats.refused["y"]
        assert graph.stats.compiled == []


def test_constants_of_any_type():
    made = model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[2] x) => (bool[2] y, string[1] words) {
            limit = Constant <value_float = 0.5> ()
            above = Greater (x, limit)
            y = And (above, mask)
            words = Constant <value_strings = ["convolution"]> ()
        }""",
        mask=np.array([True, False]),
    )
    got = Graph(made).run({"x": np.array([1, 1], np.float32)})
    assert got["y"].tolist() == [True, False]
    assert got["words"].tolist() == ["convolution"]


def test_constants_can_be_replaced():
    made = branches()
    w = whole(4, 3, 3, 3)
    x = whole(1, 3, 8, 8)
    got = Graph(made, replaced={"w": w}).run({"x": x})["y"]
    changed = ReferenceEvaluator(
        model(BRANCHES, w=w, **{t.name: onnx.numpy_helper.to_array(t) for t in made.graph.initializer if t.name != "w"})
    )
    np.testing.assert_array_equal(got, changed.run(None, {"x": x})[0])
    with pytest.raises(ModelError, match="no constant named z"):
        Graph(made, replaced={"z": w})


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        "scale = Unsqueeze (s, axes)",
        "t = Identity (s) scale = Unsqueeze (t, axes)",
        "t = Add (s, s) scale = Unsqueeze (t, axes)",
        "t = Unsqueeze (s, axes) scale = Concat <axis = 1> (t)",
    ],
)
def test_what_nodes_make_of_a_replaced_constant_is_made_of_its_new_value(make: str, fuse: bool):
    text = f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[1, 3, 6, 6] x) => (float[1, 4, 6, 6] y) {{
            axes = Constant <value_ints = [0, 2, 3]> ()
            {make}
            c = Conv <pads = [1, 1, 1, 1]> (x, w)
            y = Mul (c, scale)
        }}"""
    kept = {"w": whole(4, 3, 3, 3)}
    old, new = np.array([1, 2, 3, 4], np.float32), np.array([-2, 5, 7, 1], np.float32)
    x = whole(1, 3, 6, 6)
    got = Graph(model(text, s=old, **kept), fuse=fuse, replaced={"s": new}).run({"x": x})["y"]
    np.testing.assert_array_equal(got, ReferenceEvaluator(model(text, s=new, **kept)).run(None, {"x": x})[0])


def test_tensors_are_let_go_after_their_last_use():
    graph = Graph(branches())
    steps = plain_steps(zip(graph.names, graph.model.graph.node, strict=True))
    freed = {name: index for index, names in last_uses(steps, graph.outputs).items() for name in names}
    assert freed == {"x": 0, "w": 0, "b": 0, "r": 2, "v": 2, "c": 3, "a": 3, "axes": 5}


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "the input 'x' is missing"),
        ({"x": whole(1, 3, 8, 8), "z": whole(1)}, "no input named 'z'"),
        ({"x": whole(1, 3, 8, 7)}, r"expected an array of shape \[N, 3, 8, 8\], got \[1, 3, 8, 7\]"),
        ({"x": whole(3, 8, 8)}, r"expected an array of shape \[N, 3, 8, 8\], got \[3, 8, 8\]"),
        ({"x": whole(1, 3, 8, 8).astype(np.float64)}, "expected an array of float32, got float64"),
    ],
)
def test_feeds_that_do_not_fit(feeds, message):
    with pytest.raises(InputError, match=message):
        Graph(branches()).run(feeds)


def test_two_inputs_that_disagree_on_an_extent():
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[N] x, float[N] z) => (float[N] y) { y = Add (x, z) }"""
    )
    with pytest.raises(InputError, match=r"N is 2 in the input 'x', and 3 here"):
        Graph(made).run({"x": whole(2), "z": whole(3)})


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("y = Relu (nobody)", ModelError, "no node computes its input 'nobody'"),
        ("z = Relu (x)", ModelError, "no node computes the output 'y'"),
        ("y = NoSuchOperator (x)", NodeError, "no host implementation of this operator"),
        ("y = MatMul (x, x)", NodeError, "the node fails on the host"),
        ("y = Conv (x, x)", NodeError, "weights must have shape"),
    ],
)
def test_graphs_that_do_not_run(body, error, message):
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[2, 3] x) => (float[2, 3] y) {{ {body} }}'
    with pytest.raises(error, match=message) as caught:
        Graph(onnx.parser.parse_model(text)).run({"x": whole(2, 3)})
    assert caught.value.where


@pytest.mark.parametrize("feature", ["known to onnxruntime", "sequences"])
def test_the_host_may_be_onnxruntime(feature, monkeypatch):
    if feature == "sequences":
        made = model(
            """<ir_version: 8, opset_import: ["": 17]>
            g (float[1, 4] x) => (seq(float[1, 2]) y) { y = SplitToSequence <axis = 1> (x, two) }""",
            two=np.array(2, np.int64),
        )
        feeds = {"x": whole(1, 4)}
    else:
        made, feeds = branches(), {"x": whole(2, 3, 8, 8)}
        monkeypatch.setattr(
            "convc.runtime.network.host.ReferenceNode.run", lambda node, values: pytest.fail("not asked for")
        )
    graph = Graph(made, host="onnxruntime")
    for _ in range(2):
        for mine, expected in zip(graph.run(feeds).values(), ReferenceEvaluator(made).run(None, feeds), strict=True):
            np.testing.assert_array_equal(mine, expected)


def test_a_host_that_is_not_known():
    with pytest.raises(InputError, match="host must be one of auto, onnxruntime, reference, got 'tpu'"):
        Graph(branches(), host="tpu")


def test_without_onnxruntime_the_host_cannot_be_onnxruntime(monkeypatch):
    monkeypatch.setattr("convc.runtime.network.ort_session.available", lambda: None)
    with pytest.raises(InputError, match="onnxruntime is not installed") as refused:
        Graph(branches(), host="onnxruntime")
    assert refused.value.hint == "pip install 'convc[onnxruntime]'"


def test_graphs_that_share_kernels_share_no_weights():
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[1, 2, 3, 3] x) => (float[1, 1, 3, 3] y) { y = Conv (x, w) }"""
    shared, x = Convolutions(), np.ones((1, 2, 3, 3), np.float32)
    for value in (1.0, 0.0):
        graph = Graph(model(text, w=np.full((1, 2, 1, 1), value, np.float32)), convolutions=shared)
        assert (graph.run({"x": x})["y"] == 2 * value).all()
    assert len(shared.kernels) == 1
