"""Graphs with ConvGrad nodes: read as the convolutions that they are, run, verified, and refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from convc import ConvcError, InputData, ReadOptions, load, run_network, verify
from convc.frontend.expand_gradients import expand_gradients
from convc.ir.epilogue import AddResidual, ReluGrad
from convc.ir.gradients import input_gradient, weight_gradient, wgrad_operands, wgrad_result
from convc.ir.network import Gradient
from convc.ir.problem import ConvProblem
from convc.verification.reference import conv_sums

FORWARD = ConvProblem(
    batch=2, in_channels=8, out_channels=6, in_extent=(9, 8), kernel=(3, 2), stride=(2, 1), dilation=(1, 2),
    pad_lo=(1, 0), pad_hi=(1, 2), groups=2, out="f32",
)  # fmt: skip
RNG = np.random.default_rng(0)
W = RNG.integers(-2, 3, FORWARD.w_shape).astype(np.float16)
ATTRIBUTES = {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 1, 2], "group": 2}
VALUES = {
    name: RNG.integers(-2, 3, shape).astype(np.float16)
    for name, shape in (("dy", FORWARD.y_shape), ("x", FORWARD.x_shape), ("other", FORWARD.x_shape))
}


def training(*nodes, outputs, shapes=None, weights=True, **attributes):
    """A model of a ConvGrad and of what stands behind it; its inputs are those of VALUES that are read."""
    grad = helper.make_node(
        "ConvGrad", ["dy", "x", "w"], outputs, "conv", domain="com.microsoft", **(ATTRIBUTES | attributes)
    )
    made = {name for node in (grad, *nodes) for name in node.output}
    read = {name for node in (grad, *nodes) for name in node.input} - made
    extents = {name: array.shape for name, array in VALUES.items()} | {"w": W.shape} | (shapes or {})
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, extents[name])
        for name in sorted(read)
        if name != "w" or not weights
    ]
    left = [name for name in made if name and not any(name in node.input for node in nodes)]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, None) for name in sorted(left)]
    graph = helper.make_graph(
        [grad, *nodes], "training", inputs, results, [numpy_helper.from_array(W, "w")] if weights else []
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def expected(name):
    """A gradient of FORWARD by the convolutions that `convc.ir.gradients` makes of it, in float64."""
    x, dy, w = (VALUES["x"].astype(np.float32), VALUES["dy"].astype(np.float32), W.astype(np.float32))
    if name == "dx":
        return conv_sums(input_gradient(FORWARD), dy, w)
    if name == "db":
        return dy.sum(axis=(0, 2, 3))
    operands = wgrad_operands(Gradient(of="weights", forward=FORWARD), x, dy)
    return wgrad_result(conv_sums(weight_gradient(FORWARD), *operands))


def feeds(model):
    return {value.name: VALUES.get(value.name, W) for value in model.graph.input}


def test_a_training_graph_makes_all_three_gradients():
    model = training(outputs=["dx", "dw", "db"])
    made = run_network(model, feeds(model))
    for name in ("dx", "dw", "db"):
        assert np.array_equal(made.outputs[name].astype(np.float64), expected(name)), name


def test_kernels_are_held_against_the_definition_on_the_host():
    model = training(outputs=["dx", "dw", "db"])
    report = verify(model, feeds=InputData(arrays=feeds(model)))
    assert report.ok
    assert [layer.name for layer in report.layers] == ["conv_dgrad", "conv_wgrad"]
    assert [(output.decided_by, output.count_wrong, output.worst_error) for output in report.network.outputs] == [
        ("relative RMS error", 0, 0.0)
    ] * 3


@pytest.mark.parametrize(("outputs", "layers"), [(["dx"], "dgrad"), (["", "dw"], "wgrad"), (["", "dw", "db"], "wgrad")])
def test_gradients_that_are_left_out_are_not_made(outputs, layers):
    network = load(training(outputs=outputs))
    assert [conv.name for conv in network.convs] == [f"conv_{layers}"]


def test_weights_that_a_run_is_given_are_taken_then():
    model = training(outputs=["dx", "dw"], weights=False)
    assert [conv.name for conv in load(model).convs] == ["conv_wgrad"]
    assert np.array_equal(run_network(model, feeds(model)).outputs["dx"].astype(np.float64), expected("dx"))


MASK = helper.make_node("ReluGrad", ["dx", "x"], ["masked"], "mask", domain="com.microsoft")


@pytest.mark.parametrize("fuse", [True, False])
def test_a_gradient_takes_in_the_rectifier_behind_it_and_leaves_a_sum_to_the_host(fuse):
    model = training(MASK, helper.make_node("Add", ["masked", "other"], ["sum"], "add"), outputs=["dx"])
    (conv,) = load(model, fuse=fuse).convs
    assert conv.problem.epilogue == ((ReluGrad(),) if fuse else ())
    assert conv.fused == (("mask",) if fuse else ())
    made = run_network(model, feeds(model), read=ReadOptions(fuse=fuse)).outputs["sum"]
    assert np.array_equal(made, np.where(VALUES["x"] > 0, expected("dx"), 0) + VALUES["other"])


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("ReluGrad", ["x", "dx"], ["masked"], "mask", domain="com.microsoft"),
        helper.make_node("ReluGrad", ["dx", "dx"], ["masked"], "mask", domain="com.microsoft"),
    ],
    ids=["the gradient is the mask", "both"],
)
def test_a_rectifier_that_masks_something_else_stays_on_the_host(node):
    model = training(node, outputs=["dx"])
    (conv,) = load(model).convs
    assert (conv.problem.epilogue, conv.fused) == ((), ())
    dx = expected("dx").astype(np.float16)
    masked, mask = (dx if name == "dx" else VALUES["x"] for name in node.input)
    assert np.array_equal(run_network(model, feeds(model)).outputs["masked"], np.where(mask > 0, masked, 0))


def test_a_gradient_takes_in_the_sum_behind_it():
    model = training(helper.make_node("Add", ["other", "dx"], ["sum"], "add"), outputs=["dx"])
    (conv,) = load(model).convs
    assert conv.problem.epilogue == (AddResidual(),)
    assert conv.residual is not None
    assert (conv.residual.name, conv.fused) == ("other", ("add",))
    made = run_network(model, feeds(model), read=ReadOptions(fuse=True)).outputs["sum"]
    assert np.array_equal(made, expected("dx") + VALUES["other"])


def test_a_batch_of_nothing_has_a_gradient():
    empty = {"dy": VALUES["dy"][:0], "x": VALUES["x"][:0]}
    model = training(outputs=["dx", "dw"], shapes={name: array.shape for name, array in empty.items()})
    made = run_network(model, empty).outputs
    assert made["dx"].shape == (0, *FORWARD.x_shape[1:])
    assert not made["dw"].any()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"strides": [1, 1]}, "dY has shape 2x6x5x8, and the convolution of X, 2x8x9x8, with W, 6x4x3x2, makes"),
        ({"pads": [1, 0, 1, 0]}, "makes 2x6x5x6"),
        ({"group": 3}, "the input has shape"),
        ({"shapes": {"x": (2, 8, "h", 8)}}, "the shape of the input 'x' is not fixed"),
        ({"shapes": {"x": None}}, "the shape of the input 'x' cannot be inferred"),
        ({"auto_pad": "SAME"}, "auto_pad must be"),
    ],
)
def test_what_no_gradient_can_be_is_refused_by_name(changes, says):
    with pytest.raises(ConvcError, match=says) as refused:
        load(training(outputs=["dx"], **changes))
    assert "conv_dgrad" in refused.value.where


def test_a_node_without_its_inputs_is_refused():
    model = training(outputs=["dx"])
    model.graph.node[0].input.pop()
    with pytest.raises(ConvcError, match="has the inputs dY, X and W, and up to three outputs") as refused:
        load(model)
    assert "node 'conv' (ConvGrad)" in refused.value.where


def test_a_model_without_gradients_stays_the_same_object():
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], []))
    assert expand_gradients(model) is model
