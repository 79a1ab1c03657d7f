"""Reading ConvInteger and QLinearConv: what is inconsistent is refused in words that say what and where."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.quantised_models import onnxruntime_outputs

import convc
from convc.errors import NodeError, ProblemError
from convc.frontend.onnx_reader import read_model, read_node
from convc.frontend.tensors import tensor_array

X = np.zeros((1, 2, 5, 6), np.uint8)
W = np.arange(24, dtype=np.int8).reshape(2, 2, 3, 2) - 12


def integer(*more: np.ndarray | None, x: np.ndarray = X, w: np.ndarray | None = W, **attributes):
    arrays = [x, w, *more]
    names = ["" if array is None else f"i{index}" for index, array in enumerate(arrays)]
    return read_node(helper.make_node("ConvInteger", names, ["y"], **attributes), "c3", arrays)


def linear(**changes: np.ndarray | None):
    given = {
        "x": X,
        "x_scale": np.float32(0.5),
        "x_zero_point": np.uint8(7),
        "w": W,
        "w_scale": np.float32(0.25),
        "w_zero_point": np.int8(0),
        "y_scale": np.float32(2),
        "y_zero_point": np.int8(-3),
    } | changes
    names = ["" if array is None else name for name, array in given.items()]
    arrays = [None if array is None else np.asarray(array) for array in given.values()]
    return read_node(helper.make_node("QLinearConv", names, ["y"]), "q1", arrays)


def test_conv_integer():
    conv = integer(np.uint8(5), np.array([1, -2], np.int8), pads=[1, 0, 0, 0])
    assert (conv.problem.types, conv.problem.pad_value, conv.problem.bias) == ("u8 x s8 -> s32", 5, True)
    expected = W.astype(int) - np.array([1, -2]).reshape(2, 1, 1, 1)
    assert np.array_equal(conv.weight, expected)
    assert np.array_equal(conv.bias, -5 * expected.sum(axis=(1, 2, 3)))
    assert (conv.output.dtype, conv.multiplier) == ("s32", None)
    plain = integer()
    assert (plain.problem.bias, plain.bias, plain.problem.pad_value) == (False, None, 0)


def test_qlinear_conv():
    conv = linear(w_scale=np.array([0.25, 0.5], np.float32), bias=np.array([9, -9], np.int32))
    assert conv.problem.types == "u8 x s8 -> s8"
    assert conv.problem.out_zero_point == -3
    assert conv.multiplier.tolist() == [0.0625, 0.125]
    assert np.array_equal(conv.bias, np.array([9, -9]) - 7 * W.astype(int).sum(axis=(1, 2, 3)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: integer(x=X.astype(np.float32)), "the activations of a ConvInteger must be u8 or s8, got f32"),
        (lambda: integer(w=W.astype(np.float32)), "the weights must be uint8 or int8, got float32"),
        (lambda: integer(w=None), "the weights is missing"),
        (
            lambda: integer(np.int8(0)),
            "the x_zero_point must be uint8, as the numbers that it belongs to are, got int8",
        ),
        (lambda: integer(np.zeros(2, np.uint8)), "the x_zero_point must be a scalar, got shape (2,)"),
        (
            lambda: integer(None, np.zeros(3, np.int8)),
            "the w_zero_point must be a scalar or one number per output channel, (2,), got shape (3,)",
        ),
        (
            lambda: integer(None, None, None),
            "a ConvInteger has 2 to 4 inputs and 1 output, got 5 and 1",
        ),
        (lambda: integer(shape=[1]), "attribute 'shape' is not one of ConvInteger, or has the wrong type"),
        (lambda: linear(w=np.int8(3)), "weights must have shape (K, C, [[T,] R,] S), for 1 to 3 spatial axes, got ()"),
        (lambda: linear(y_zero_point=None), "the y_zero_point is missing"),
        (lambda: linear(y_zero_point=np.int32(0)), "the y_zero_point must be uint8 or int8, got int32"),
        (lambda: linear(x_scale=np.float64(1)), "the x_scale must be float32, got float64"),
        (lambda: linear(y_scale=np.float32(0)), "the y_scale must be positive and finite, got 0"),
        (
            lambda: linear(w_scale=np.array([1, np.inf], np.float32)),
            "the w_scale must be positive and finite, got inf",
        ),
        (lambda: linear(y_scale=np.ones(2, np.float32)), "the y_scale must be a scalar, got shape (2,)"),
        (
            lambda: linear(x_scale=np.float32(1e30), y_scale=np.float32(1e-30)),
            "x_scale * w_scale / y_scale is too large for float32",
        ),
        (
            lambda: linear(x_scale=np.float32(1e30), w_scale=np.float32(1e30)),
            "x_scale * w_scale / y_scale is too large for float32",
        ),
        (lambda: linear(bias=np.zeros(2, np.float32)), "the bias must be int32 of shape (2,), got float32 (2,)"),
        (lambda: linear(bias=np.zeros(3, np.int32)), "the bias must be int32 of shape (2,), got int32 (3,)"),
    ],
)
def test_what_is_inconsistent_is_refused(make, message):
    with pytest.raises(NodeError) as caught:
        make()
    assert caught.value.message == message
    assert "where: node '" in str(caught.value)


def test_geometry_is_checked_as_for_any_convolution():
    with pytest.raises(ProblemError, match="no pixel along H"):
        integer(w=np.zeros((2, 2, 9, 2), np.int8))
    with pytest.raises(NodeError, match="the weights"):
        integer(w=np.zeros((2, 3, 3, 2), np.int8))


def test_weights_that_nobody_knows_are_refused(tmp_path):
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("ConvInteger", ["x", "w"], ["y"], name="c9")],
            "g",
            [helper.make_tensor_value_info(name, 2, shape) for name, shape in (("x", X.shape), ("w", W.shape))],
            [helper.make_tensor_value_info("y", 6, None)],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(NodeError, match="the weights must be constant, and 'w' is not"):
        read_model(path)


@pytest.mark.parametrize(("kind", "values"), [(2, [0, 255]), (3, [-128, 127])])
def test_bytes_are_read_in_both_forms(kind, values, tmp_path):
    tensor = helper.make_tensor("t", kind, [2], values)
    assert tensor_array(tensor, tmp_path).tolist() == values
    raw = helper.make_tensor("t", kind, [2], np.array(values).astype(np.int8).tobytes(), raw=True)
    assert tensor_array(raw, tmp_path).tolist() == values
    tensor.int32_data[1] += 1
    with pytest.raises(Exception, match=f"must be in {values[0]}..{values[1]}"):
        tensor_array(tensor, tmp_path)


def dynamic(padded: bool) -> onnx.ModelProto:
    """As onnxruntime's dynamic quantiser writes a convolution: the zero point is computed of the data."""
    w = np.random.default_rng(5).integers(0, 255, (6, 4, 3, 3)).astype(np.uint8)
    pads = [1] * 4 if padded else [0] * 4
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("ConvInteger", ["q", "w", "zero", "w_zero"], ["sums"], name="c", pads=pads),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "scale"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array(120, np.uint8), "w_zero")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 7])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "c", "h", "w"])
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("padded", [True, False])
def test_a_zero_point_that_a_run_computes(padded):
    made = dynamic(padded)
    network = convc.load(made)
    problem = network.convs[0].problem
    assert problem.bias
    assert problem.pad_value == (128 if padded else 0)
    assert network.assumed == (
        "c: a run computes the zero point 'zero'; what is planned, timed and verified here, and compiled, has 128",
    )
    assert convc.verify(made).ok
    assert convc.time(made).layers
    x = np.random.default_rng(9).uniform(-1, 3, (1, 4, 8, 7)).astype(np.float32)
    report = convc.verify(made, feeds=x)
    assert report.ok
    assert report.layers[0].problem.pad_value != 128 or not padded
    expected = onnxruntime_outputs(made, {"x": x}, [])["y"]
    np.testing.assert_array_equal(convc.run_model(made, x)["y"], expected)
