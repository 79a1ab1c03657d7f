"""Who runs a node on the host: who was chosen, or somebody else, and then that is said."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from convc.errors import NodeError
from convc.runtime.network.executor import Graph

X = np.array([[1, -2, 3, 4]], np.float32)
ADD = """<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>
g (uint8[1, 4] x) => (uint8[1, 4] y) {
    [added] y = com.microsoft.QLinearAdd (x, scale, zero, x, scale, zero, scale, zero)
}"""
SCATTER = """<ir_version: 8, opset_import: ["": 10]>
g (float[1, 4] x) => (float[1, 4] y) { [put] y = Scatter <axis = 1> (x, where, news) }"""
LP_POOL = """<ir_version: 8, opset_import: ["": 13]>
g (float[1, 1, 4] x) => (float[1, 1, 1] y) { [norm] y = GlobalLpPool <p = 2> (x) }"""


def model(text: str, **arrays: np.ndarray) -> onnx.ModelProto:
    made = onnx.parser.parse_model(text)
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return made


def scatter() -> onnx.ModelProto:
    return model(SCATTER, where=np.array([[2, 0]], np.int64), news=np.array([[9, 8]], np.float32))


@pytest.fixture
def alone(monkeypatch):
    """No onnxruntime."""
    monkeypatch.setattr("convc.runtime.network.ort_session.available", lambda: None)


@pytest.mark.parametrize(("host", "said"), [
    ("reference", {"added": "by onnxruntime: onnx.reference has no com.microsoft QLinearAdd"}),
    ("onnxruntime", {}),
])  # fmt: skip
def test_operators_of_onnxruntime_alone(host, said):
    made = model(ADD, scale=np.array(0.5, np.float32), zero=np.array(3, np.uint8))
    graph = Graph(made, host=host)
    for _ in range(2):
        assert graph.run({"x": np.array([[3, 5, 100, 250]], np.uint8)})["y"].tolist() == [[3, 7, 197, 255]]
        assert graph.stats.elsewhere == said
        assert graph.stats.host == 1


def test_what_the_reference_does_not_have_is_run_by_onnxruntime():
    graph = Graph(scatter(), host="reference")
    assert graph.run({"x": X})["y"].tolist() == [[8, -2, 9, 4]]
    assert graph.stats.elsewhere == {"put": "by onnxruntime: onnx.reference has no Scatter of this operator set"}
    graph = Graph(model(LP_POOL), host="reference")
    np.testing.assert_allclose(graph.run({"x": X[None]})["y"], np.sqrt(30), rtol=1e-6)
    assert list(graph.stats.elsewhere) == ["norm"]


def test_old_nodes_are_converted_where_nobody_has_them(alone):
    graph = Graph(scatter())
    said = "by onnx.reference in operator set 11: onnx.reference has no Scatter of this operator set"
    for _ in range(2):
        assert graph.run({"x": X})["y"].tolist() == [[8, -2, 9, 4]]
        assert graph.stats.elsewhere == {"put": said}


@pytest.mark.parametrize("host", ["reference", "onnxruntime"])
def test_a_branch_is_run_by_who_has_all_of_it(host):
    body = """{ z = Scatter <axis = 1> (x, where, news) } """
    text = f"""<ir_version: 8, opset_import: ["": 10]>
    g (float[1, 4] x, bool c) => (float[1, 4] y)
    {{ [choice] y = If (c) <then_branch = t () => (float[1, 4] z) {body},
                            else_branch = e () => (float[1, 4] o) {{ o = Identity (x) }}> }}"""
    made = model(text, where=np.array([[2, 0]], np.int64), news=np.array([[9, 8]], np.float32))
    graph = Graph(made, host=host)
    assert graph.run({"x": X, "c": np.array(True)})["y"].tolist() == [[8, -2, 9, 4]]
    assert list(graph.stats.elsewhere) == (["choice"] if host == "reference" else [])


def test_what_onnxruntime_does_not_take_is_run_by_the_reference():
    made = model("""<ir_version: 8, opset_import: ["": 7]>
    g (float[1, 4] x) => (float[1, 4] y) { [most] y = Max (x, two) }""", two=np.array([[2]], np.float32))  # fmt: skip
    graph = Graph(made)
    assert graph.run({"x": X})["y"].tolist() == [[2, 2, 3, 4]]
    assert graph.stats.evaluators == {"Max": "onnxruntime"}
    assert graph.stats.elsewhere["most"].startswith("by onnx.reference: onnxruntime does not run it: ")


def test_sequences_are_for_the_reference():
    made = model("""<ir_version: 8, opset_import: ["": 17]>
    g (float[1, 4] x) => (seq(float[1, 2]) s, float[1, 2] y) {
        s = SplitToSequence <axis = 1> (x, two)
        [pick] y = SequenceAt (s, zero)
    }""", two=np.array(2, np.int64), zero=np.array(0, np.int64))  # fmt: skip
    graph = Graph(made, host="onnxruntime")
    assert graph.run({"x": X})["y"].tolist() == [[1, -2]]
    assert graph.stats.evaluators == {"SplitToSequence": "onnx.reference", "SequenceAt": "onnx.reference"}
    assert graph.stats.elsewhere == {}


def test_onnxruntime_is_not_imported_where_nobody_needs_it(monkeypatch):
    monkeypatch.setattr("convc.runtime.network.ort_session.available", lambda: pytest.fail("not asked for"))
    made = model("""<ir_version: 8, opset_import: ["": 13]>
    g (float[1, 4] x) => (float[1, 4] y) { y = Relu (x) }""")
    assert Graph(made, host="reference").run({"x": X})["y"].tolist() == [[1, 0, 3, 4]]


def unknown(domain: str = "") -> onnx.ModelProto:
    node = helper.make_node("NoSuchOperator", ["x"], ["y"], "odd", domain=domain)
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 4))]
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(name, 13) for name in {"", domain}])


@pytest.mark.parametrize("domain", ["", "elsewhere"])
def test_what_nobody_has(domain):
    with pytest.raises(NodeError, match="no host implementation of this operator") as raised:
        Graph(unknown(domain)).run({"x": X})
    assert "onnxruntime does not run it: " in raised.value.hint
    assert raised.value.where == "node 'odd' (NoSuchOperator)"


def test_what_might_be_had(alone):
    with pytest.raises(NodeError) as raised:
        Graph(unknown("com.microsoft")).run({"x": X})
    assert raised.value.hint == "onnxruntime, which may have it, is not installed (pip install 'convc[onnxruntime]')"


def test_values_that_a_node_refuses_are_refused_by_whoever_runs_it():
    made = model("""<ir_version: 8, opset_import: ["": 13]>
    g (float[1, 4] x) => (float[m, n] y) { [product] y = MatMul (x, x) }""")
    for host in ("reference", "onnxruntime"):
        graph = Graph(made, host=host)
        with pytest.raises(NodeError, match="the node fails on the host"):
            graph.run({"x": X})
        assert graph.stats.elsewhere == {}


LOOP = """<ir_version: 8, opset_import: ["": 16]>
g (float[2, 1] x) => (float[2, 1] y, float[n, 2, 1] seen, float[n] turns) {
    [again] y, seen, turns = Loop (most, go, x) <body = b (int64 i, bool going, float[2, 1] h)
        => (bool on, float[2, 1] double, float[2, 1] before, float turn) {
            double = Add (h, h)
            before = Identity (h)
            turn = Cast <to = 1> (i)
            two = Constant <value_int = 2> ()
            on = Less (i, two)
        }>
}"""


@pytest.mark.parametrize(("most", "go", "turns"), [
    (4, None, 4),  # the condition that the body makes is not looked at
    (4, True, 3),
    (None, True, 3),
    (2, True, 2),
    (0, True, 0),
    (4, False, 0),
])  # fmt: skip
def test_a_loop_stacks_what_it_scans_along_a_new_axis(most, go, turns, alone):
    text = LOOP if go is not None else LOOP.replace("go, x", '"", x')
    constants = {"go": np.array(bool(go)), "most": np.array(most or 0)}
    made = model(text if most is not None else text.replace("most, ", '"", '), **constants)
    found = Graph(made).run({"x": np.ones((2, 1), np.float32)})
    assert found["y"].tolist() == [[2.0**turns]] * 2
    assert found["seen"].tolist() == [[[2.0**turn]] * 2 for turn in range(turns)]
    assert found["seen"].shape == (turns, 2, 1)
    assert found["turns"].tolist() == list(range(turns))
