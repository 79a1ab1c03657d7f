"""Causal convolutions: written out, compiled, and equal to what onnx's own reference makes of the operator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from convc import backend
from convc.frontend.expand_causal import expand_causal_conv
from convc.frontend.onnx_reader import read_model


def model(
    *, bias: bool = True, past: bool = True, activation: str = "none", copies: int = 1, name: str = "mixer"
) -> onnx.ModelProto:
    """One or two in a row: 2 sequences of 6 channels and 11 steps, filters of 4 taps."""
    rng = np.random.default_rng(1)
    nodes, constants, states, last = [], [], [], "x"
    for copy in range(copies):
        inputs = [last, f"w{copy}", f"b{copy}" if bias else "", f"past{copy}" if past else ""]
        constants.append(onnx.numpy_helper.from_array(rng.standard_normal((6, 1, 4)).astype(np.float32), f"w{copy}"))
        if bias:
            constants.append(onnx.numpy_helper.from_array(rng.standard_normal(6).astype(np.float32), f"b{copy}"))
        last = f"y{copy}"
        called = f"{name}{copy}" if name else ""
        outputs = [last, f"state{copy}"]
        nodes.append(helper.make_node("CausalConvWithState", inputs, outputs, name=called, activation=activation))
        states.append(f"past{copy}")

    def tensor(tensor_name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(tensor_name, TensorProto.FLOAT, shape)

    inputs = [tensor("x", 2, 6, 11), *(tensor(state, 2, 6, 3) for state in states if past)]
    outputs = [tensor(last, 2, 6, 11), *(tensor(f"state{copy}", 2, 6, 3) for copy in range(copies))]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=11)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("past", [True, False])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_the_convolution_in_it_runs_from_its_text(tmp_path, bias, past, activation):
    made, file = model(bias=bias, past=past, activation=activation, copies=2), tmp_path / "m.onnx"
    onnx.save(made, file)
    network = read_model(file)
    assert [conv.name for conv in network.convs] == ["mixer0", "mixer1"]
    assert {conv.problem.groups for conv in network.convs} == {6}
    feeds = {
        value.name: np.random.default_rng(2).standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim])
        for value in made.graph.input
    }
    feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    outputs = backend.prepare(made).run([feeds[value.name] for value in made.graph.input])
    expected = ReferenceEvaluator(made).run(None, feeds)
    for found, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_without_a_name_it_is_called_as_its_result():
    whole = expand_causal_conv(model(name=""))
    assert [node.name for node in whole.graph.node if node.op_type == "Conv"] == ["y0"]


def test_other_models_are_left_alone():
    made = model()
    made.graph.node[0].op_type = "Conv"
    assert expand_causal_conv(made) is made


@pytest.mark.parametrize("spoil", [lambda node: node.attribute.pop(), lambda node: node.input.pop()])
def test_what_onnx_does_not_write_out_stays(spoil):
    """Or is written out from what is left of it; nothing but a model comes back."""
    made = model(activation="silu")
    for _ in range(4):
        if made.graph.node[0].input:
            spoil(made.graph.node[0])
        if not made.graph.node[0].attribute:
            break
    assert isinstance(expand_causal_conv(made), onnx.ModelProto)
