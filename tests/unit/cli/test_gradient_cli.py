"""Gradients from the command line: compiled, run, checked and verified as layers of their own."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from convc import ConvcError, InputData, ReadOptions, load, load_build, run, run_layer, verify
from convc.verification.reference import conv_sums


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A convolution of stride 2 in two groups, with bias and Relu, and a 1x1 behind it."""
    rng = np.random.default_rng(0)
    values = {
        "w1": rng.integers(-2, 3, (16, 8, 3, 3)).astype(np.float16),
        "b1": np.ones(16, np.float16),
        "w2": rng.integers(-2, 3, (8, 16, 1, 1)).astype(np.float16),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], "stem", strides=[2, 2], pads=[1] * 4, group=2),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "w2"], ["y"], "head"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, (2, 16, 9, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, (2, 8, 5, 4))],
        [numpy_helper.from_array(array, name) for name, array in values.items()],
    )
    path = tmp_path_factory.mktemp("gradients") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def build(convc, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("build") / "b"
    convc.good("compile", model, "--gradient", "both", "-o", folder)
    return folder


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_gradients_are_verified_as_layers(convc, model, target):
    said = json.loads(convc.good("verify", model, "--gradient", "both", "--target", target, "--json", "-"))
    assert [layer["name"] for layer in said["layers"]] == ["stem_dgrad", "stem_wgrad", "head_dgrad", "head_wgrad"]
    assert all(layer["ok"] for layer in said["layers"])


def test_the_input_gradient_takes_the_filters_of_the_model(model, build):
    forward = load(model, fuse=False).convs[0]
    dy = np.random.default_rng(1).integers(-3, 4, forward.problem.y_shape).astype(np.float32)
    found = run(build, dy, "stem_dgrad").astype(np.float32)
    # y is linear in x: <y(x), dy> is <x, dx> for each x.
    x = np.random.default_rng(2).integers(-3, 4, forward.problem.x_shape).astype(np.float32)
    plain = replace(forward.problem, bias=False)
    assert (conv_sums(plain, x, forward.weight) * dy).sum() == (x * found).sum()


def test_the_weight_gradient_takes_x_and_dy(convc, model, build, tmp_path):
    forward = load(model, fuse=False).convs[0]
    rng = np.random.default_rng(1)
    x, w, dy = (
        rng.integers(-2, 3, shape).astype(np.float32)
        for shape in (forward.problem.x_shape, forward.problem.w_shape, forward.problem.y_shape)
    )
    found = run_layer(build, x, "stem_wgrad", dy=dy)
    assert found.ok
    assert found.y.shape == forward.problem.w_shape
    plain = replace(forward.problem, bias=False)
    assert (conv_sums(plain, x, w) * dy).sum() == (w * found.y.astype(np.float32)).sum()
    np.savez(tmp_path / "in.npz", x=x, dy=dy)
    convc.good("run", build, "--layer", "stem_wgrad", "--input", tmp_path / "in.npz", "-o", tmp_path / "dw.npy")
    assert np.array_equal(np.load(tmp_path / "dw.npy"), found.y)
    assert "clean" in convc.good("check", build, "--layer", "stem_wgrad")


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_gradients_are_added_to_old_ones(convc, model, target, tmp_path):
    asked = (model, "--gradient", "both", "--accumulate", "--target", target)
    said = json.loads(convc.good("verify", *asked, "--json", "-"))
    assert all(layer["ok"] for layer in said["layers"])
    assert {layer["problem"]["epilogue"][0]["in_place"] for layer in said["layers"]} == {True}
    convc.good("compile", *asked, "-o", tmp_path / "b", "--layer", "head_wgrad")
    convc.good("compile", model, "--gradient", "weights", "-o", tmp_path / "plain", "--layer", "head_wgrad")
    rng = np.random.default_rng(1)
    shapes = {"x": (2, 16, 5, 4), "dy": (2, 8, 5, 4), "residual": (8, 16, 1, 1)}
    arrays = {name: rng.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()}
    np.savez(tmp_path / "in.npz", **arrays)
    convc.good("run", tmp_path / "b", "--input", tmp_path / "in.npz", "-o", tmp_path / "dw.npy")
    plain = run(tmp_path / "plain", arrays["x"], dy=arrays["dy"])
    assert np.array_equal(np.load(tmp_path / "dw.npy"), plain + arrays["residual"].astype(np.float16))
    assert "clean" in convc.good("check", tmp_path / "b")
    with pytest.raises(ConvcError, match=r"adds a residual of shape .*, and there is none"):
        run(tmp_path / "b", arrays["x"], dy=arrays["dy"])
    with pytest.raises(ConvcError, match=r"expected residual of shape \[8, 16, 1, 1\], got \[4\]"):
        run(tmp_path / "b", arrays["x"], dy=arrays["dy"], residual=np.zeros(4))


def test_accumulating_is_about_gradients(convc, model):
    said = convc.refused("verify", model, "--accumulate")
    assert "accumulate adds gradients to old ones, and no gradient is asked for" in said
    assert "--gradient" in said
    with pytest.raises(ConvcError, match="no gradient is asked for"):
        load(model, accumulate=True)
    with pytest.raises(ConvcError, match="a loaded network already has"):
        verify(load(model), read=ReadOptions(accumulate=True))
    with pytest.raises(ConvcError, match="a whole network runs forward only"):
        verify(model, feeds=InputData(seed=0), read=ReadOptions(accumulate=True))


def test_a_build_knows_what_its_layers_are_gradients_of(model, build):
    layer = load_build(build).record("stem_wgrad")
    assert layer.gradient.forward == load(model, fuse=False).convs[0].problem
    assert layer.filter.name == "a_grad"
    assert not list((build / "weights").glob("stem_wgrad.filter*"))


def test_a_launch_elsewhere_takes_the_filters_from_dy(convc, build, tmp_path):
    arguments = ("--layer", "head_wgrad", "--seed", 1, "--emit-host", tmp_path / "host.cu")
    convc.good("launch", build, *arguments)
    assert {file.name for file in tmp_path.iterdir()} == {"host.cu", "activation.bin", "filter.bin", "bias.bin"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"layer": "stem_wgrad"}, "a gradient of weights needs dy of shape [2, 16, 5, 4] (N, K, P, Q) beside x"),
        ({"layer": "stem_wgrad", "residual": np.zeros(1)}, "the layer takes x and dy, not residual"),
        ({"layer": "head_dgrad", "dy": np.zeros(1)}, "the layer takes x and residual, not dy"),
        ({"layer": "stem"}, "there is no layer 'stem'"),
    ],
)
def test_operands_of_another_kind_are_refused(build, arguments, says):
    with pytest.raises(ConvcError) as refused:
        run_layer(build, np.zeros((2, 16, 9, 8), np.float32), **arguments)
    assert says in refused.value.message


@pytest.mark.parametrize("verb", ["verify", "inspect", "time"])
def test_a_model_without_the_gradient_that_is_asked_for_is_refused(convc, model, verb):
    said = convc.refused(verb, model, "--gradient", "weights", "--dtype", "mxfp8")
    assert "there is no gradient of weights in mxfp8: filters share scale factors" in said
    assert "stem" in said


def test_a_gradient_that_is_missing_is_named(convc, model):
    said = convc("time", model, "--gradient", "both", "--dtype", "mxfp8")
    assert said.exit_code == 0
    assert "left out: stem_wgrad, head_wgrad: there is no gradient of weights in mxfp8" in said.stderr


def test_a_whole_network_runs_forward(convc, model, tmp_path):
    said = convc.refused("verify", model, "--gradient", "input", "--reweight", 7)
    assert "a whole network runs forward only" in said
    with pytest.raises(ConvcError, match="a whole network runs forward only"):
        verify(model, feeds=InputData(seed=0), read=ReadOptions(gradient="input"))
    with pytest.raises(ConvcError, match=r"gradient must be .input. or .weights. or .both. or None"):
        load(model, gradient="bias")


def test_inspect_says_which_gradient_a_layer_is(convc, model, build):
    for source in ((model, "--gradient", "both"), (build,)):
        listed = json.loads(convc.good("inspect", *source, "--json", "-"))["layers"]
        assert [layer["operator"] for layer in listed] == ["dgrad", "wgrad"] * 2
    rows = [line.split() for line in convc.good("inspect", build).splitlines()]
    assert {row[0]: row[1] for row in rows if row and row[0].startswith("head")} == {
        "head_dgrad": "dgrad",
        "head_wgrad": "wgrad",
    }


def test_commands_take_a_training_graph(convc, tmp_path):
    w = np.ones((8, 8, 3, 3), np.float16)
    node = helper.make_node(
        "ConvGrad", ["dy", "x", "w"], ["dx", "dw", "db"], "conv", domain="com.microsoft", pads=[1] * 4
    )
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, (1, 8, 5, 5)) for name in ("dy", "x")]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, None) for name in node.output]
    graph = helper.make_graph([node], "training", inputs, results, [numpy_helper.from_array(w, "w")])
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
    file = tmp_path / "training.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), file)
    said = json.loads(convc.good("verify", file, "--json", "-"))
    assert [(layer["name"], layer["ok"]) for layer in said["layers"]] == [("conv_dgrad", True), ("conv_wgrad", True)]
    assert "2 of 2 convolutions right" in convc.good("verify", file, "--reweight", 1)
    refused = convc.refused("inspect", file, "--gradient", "both")
    assert "its own are not made" in refused
    assert "conv_dgrad" in refused
