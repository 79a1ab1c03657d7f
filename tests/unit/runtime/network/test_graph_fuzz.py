"""Models from strangers: whatever the file says, a run ends in results or in an error of ours."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.examples import some
from support.qdq import X_SHAPE, qdq_model, qdq_nodes

from convc.compiler.kernels import Kernels
from convc.errors import ConvcError, ModelError, NodeError
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph
from convc.runtime.network.io import open_graph

TEXT = """<ir_version: 8, opset_import: ["": 11, "local": 1]>
g (float[1, 2, 6, 6] x, bool which) => (float[1, 4] y)
<float[4, 2, 3, 3] w> {
    a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
    h = local.double (a)
    s = If (which) <
        then_branch = yes () => (float[1, 4, 3, 3] t) { t = Neg (h) },
        else_branch = no () => (float[1, 4, 3, 3] e) { e = MaxPool <kernel_shape = [1, 1]> (h) }
    >
    p = GlobalAveragePool (s)
    shape = Constant <value = int64[2] {1, -1}> ()
    f = Reshape (p, shape)
    y = Softmax (f)
}
<domain: "local", opset_import: ["": 11]>
double (x) => (y) { y = Add (x, x) }"""


def seed_model() -> bytes:
    made = onnx.parser.parse_model(TEXT)
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((4, 2, 3, 3), np.float32), "w"))
    return made.SerializeToString()


DATA = seed_model()
FEEDS = {"x": np.ones((1, 2, 6, 6), np.float32), "which": np.array(True)}
KERNELS = Kernels()
CHANGES = st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 255)), min_size=1, max_size=3)


def test_the_model_runs():
    graph = Graph(onnx.ModelProto.FromString(DATA))
    np.testing.assert_allclose(graph.run(FEEDS)["y"], np.full((1, 4), 0.25))


def attempt(path, feeds=FEEDS, fuse=False) -> dict | ConvcError:
    try:
        return open_graph(path, Convolutions(kernels=KERNELS), fuse=fuse).run(feeds)
    except ConvcError as error:
        return error


@given(CHANGES)
@settings(max_examples=some(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_models(tmp_path, changes):
    data = bytearray(DATA)
    for at, value in changes:
        data[at] = value
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    answer = attempt(path)
    assert answer.exit_code == 2 if isinstance(answer, ConvcError) else answer


QUANTISED = [
    qdq_model(qdq_nodes(helper.make_node("Relu", ["c"], ["r"]))).SerializeToString(),
    qdq_model(qdq_nodes(helper.make_node("Sigmoid", ["c"], ["r"]))).SerializeToString(),
]
IMAGE = {"x": np.zeros(X_SHAPE, np.uint8)}


@given(st.sampled_from(QUANTISED), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3))
@settings(max_examples=some(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_quantised_models(tmp_path, seed, changes):
    data = bytearray(seed)
    for at, value in changes:
        data[at % len(data)] = value
    (tmp_path / "m.onnx").write_bytes(data)
    answer = attempt(tmp_path / "m.onnx", IMAGE, fuse=True)
    assert answer.exit_code == 2 if isinstance(answer, ConvcError) else answer


def test_functions_that_explode_are_refused():
    made = onnx.ModelProto.FromString(DATA)
    for depth in range(40):
        body = [helper.make_node(f"f{depth + 1}", ["x"], ["h"], domain="local")] * 2 if depth < 39 else []
        body += [helper.make_node("Neg", ["x"], ["y"])]
        opsets = [helper.make_operatorsetid("", 11), helper.make_operatorsetid("local", 1)]
        made.functions.append(helper.make_function("local", f"f{depth}", ["x"], ["y"], body, opsets))
    made.graph.node.insert(0, helper.make_node("f0", ["x"], ["more"], domain="local"))
    with pytest.raises(ModelError, match=r"has \d+ nodes, more than 1000000"):
        Graph(made)


def test_functions_that_call_themselves_are_refused():
    made = onnx.ModelProto.FromString(DATA)
    made.functions[0].node.append(helper.make_node("double", ["x"], ["z"], domain="local"))
    with pytest.raises(ModelError, match="the function 'double' calls itself"):
        Graph(made)


def test_external_data_inside_a_node_are_not_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.bin").write_bytes(bytes(8))
    tensor = TensorProto(data_type=TensorProto.UINT8, dims=[8], data_location=TensorProto.EXTERNAL, name="t")
    tensor.external_data.add(key="location", value="secret.bin")
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["y"], value=tensor)],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [8])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_operatorsetid("", 17)], ir_version=8)
    with pytest.raises(NodeError, match="external data inside a node are not read"):
        Graph(model, folder=tmp_path / "elsewhere").run({})


def test_external_data_inside_a_function_are_not_read(tmp_path, monkeypatch):
    """Also where onnx leaves the function as it is, written for another operator set, and the host would run it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.bin").write_bytes(bytes(8))
    tensor = TensorProto(data_type=TensorProto.UINT8, dims=[8], data_location=TensorProto.EXTERNAL, name="t")
    tensor.external_data.add(key="location", value="secret.bin")
    for opset in (11, 17):
        inner = helper.make_node("Constant", [], ["y"], value=tensor)
        function = helper.make_function("own", "f", [], ["y"], [inner], [helper.make_operatorsetid("", opset)])
        graph = helper.make_graph(
            [helper.make_node("f", [], ["y"], domain="own")],
            "g",
            [],
            [helper.make_tensor_value_info("y", TensorProto.UINT8, [8])],
        )
        sets = [helper.make_operatorsetid("", 17), helper.make_operatorsetid("own", 1)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=8, functions=[function])
        with pytest.raises(NodeError, match="external data inside a node are not read"):
            Graph(model, folder=tmp_path / "elsewhere").run({})


def test_functions_that_call_one_another_too_deeply():
    sets = [helper.make_operatorsetid("", 17), helper.make_operatorsetid("own", 1)]
    functions = []
    for index in range(2000):
        kind, domain = (f"f{index + 1}", "own") if index < 1999 else ("Relu", "")
        body = [helper.make_node(kind, ["x"], ["y"], domain=domain)]
        functions.append(helper.make_function("own", f"f{index}", ["x"], ["y"], body, sets))
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("f0", ["x"], ["y"], domain="own")], "g", value[:1], value[1:])
    with pytest.raises(ModelError, match="nested too deeply"):
        Graph(helper.make_model(graph, opset_imports=sets, ir_version=8, functions=functions))


def test_a_convolution_of_a_sequence_is_refused():
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[2, 2] x) => (float[N] y) { s = SequenceConstruct (x)  y = Conv (s, x) }"""
    with pytest.raises(NodeError, match="the inputs of a convolution must be tensors"):
        Graph(onnx.parser.parse_model(text)).run({"x": np.ones((2, 2), np.float32)})
