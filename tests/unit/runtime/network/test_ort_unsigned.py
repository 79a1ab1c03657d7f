"""Products of bytes that onnxruntime is asked for: the same numbers on every processor, whatever the signs."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from convc.runtime.network import ort_session
from convc.runtime.network.ort_unsigned import OPERANDS, without_signs

SIGNS = [("u1", "i1"), ("i1", "u1"), ("i1", "i1"), ("u1", "u1")]


def operands(shape_a, shape_b, types, seed):
    """Numbers at the ends of their types, where sums of two products do not fit into 16 bits."""
    rng = np.random.default_rng(seed)
    for shape, kind in zip((shape_a, shape_b), types, strict=True):
        ends = np.iinfo(kind)
        yield rng.choice([ends.min, ends.max, ends.max - 1], shape).astype(kind)


def node_outputs(node, arrays):
    answer = ort_session.run_node(node, 21, arrays)
    assert not isinstance(answer, str), answer
    return answer


@pytest.mark.parametrize("types", SIGNS)
@pytest.mark.parametrize("zeros", [(), (3, -2), (None, 5)], ids=["none", "both", "second"])
def test_a_product_of_matrices(types, zeros):
    a, b = operands((16, 64), (64, 32), types, seed=1)
    points = [None if zero is None else np.array(abs(zero), kind) for zero, kind in zip(zeros, types, strict=False)]
    names = ["a", "b", *["" if point is None else f"z{at}" for at, point in enumerate(points)]]
    node = helper.make_node("MatMulInteger", names, ["y"])
    za, zb = (0 if point is None else int(point) for point in (*points, *[None] * (2 - len(points))))
    exact = (a.astype(int) - za) @ (b.astype(int) - zb)
    np.testing.assert_array_equal(node_outputs(node, [a, b, *points]), exact)


@pytest.mark.parametrize("types", SIGNS)
def test_a_convolution_with_padding(types):
    """Padding is the zero point, so that it moves too."""
    x, w = operands((1, 64, 8, 8), (32, 64, 3, 3), types, seed=2)
    zero = np.array(7, x.dtype)
    node = helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], pads=[1, 1, 1, 1])
    padded = np.pad(x.astype(int) - 7, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    exact = np.einsum("nchwrs,kcrs->nkhw", windows, w.astype(int))
    np.testing.assert_array_equal(node_outputs(node, [x, w, zero]), exact)


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_convolution_with_requantisation(per_channel):
    x, w = operands((1, 64, 8, 8), (32, 64, 3, 3), ("u1", "i1"), seed=3)
    channels = 32 if per_channel else 1
    scales = [np.array(1, "f4"), np.full(channels, 1, "f4"), np.array(2.0**14, "f4")]
    zeros = [np.array(9, "u1"), np.full(channels, 0, "i1"), np.array(128, "u1")]
    node = helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"])
    given = [x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2]]
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(int) - 9, (3, 3), axis=(2, 3))
    exact = np.einsum("nchwrs,kcrs->nkhw", windows, w.astype(int))
    expected = np.clip(np.round(exact / 2.0**14) + 128, 0, 255)
    np.testing.assert_array_equal(node_outputs(node, given), expected)


def model_of(node, types, constants=()):
    inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in types.items()]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")], list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


@pytest.mark.parametrize(("name", "signs"), list(itertools.product(OPERANDS, SIGNS)))
def test_no_product_of_both_kinds_is_left(name, signs):
    kinds = [TensorProto.INT8 if sign == "i1" else TensorProto.UINT8 for sign in signs]
    (a, za), (b, zb) = OPERANDS[name]
    inputs = [""] * (zb + 1)
    types = {}
    for label, index, kind in (("a", a, kinds[0]), ("za", za, kinds[0]), ("b", b, kinds[1]), ("zb", zb, kinds[1])):
        inputs[index] = label
        types[label] = kind
    model = model_of(helper.make_node(name, inputs, ["y"]), types)
    before = model.SerializeToString()
    without_signs(model)
    product = model.graph.node[-1]
    first, second = ("a", "b") if kinds[0] == kinds[1] else _expected(name, kinds)
    assert (product.input[a], product.input[b]) == (first, second)
    assert (product.input[za] == "za") == (first == "a")
    assert (product.input[zb] == "zb") == (second == "b")
    assert (model.SerializeToString() == before) == ((first, second) == ("a", "b"))


def _expected(name, kinds):
    """The operand with a sign changes; that of a result's type stays, and then there is nothing to be done."""
    if kinds[1] == TensorProto.INT8:
        return "a", "b.unsigned"
    return ("a", "b") if name in ("QLinearConv", "QLinearMatMul", "QGemm") else ("a.unsigned", "b")


def test_a_tensor_of_two_products_is_moved_once():
    w = numpy_helper.from_array(np.ones((4, 4), "i1"), "w")
    model = model_of(helper.make_node("MatMulInteger", ["x", "w"], ["y"]), {"x": TensorProto.UINT8}, [w])
    model.graph.node.append(helper.make_node("MatMulInteger", ["x", "w"], ["y2"]))
    without_signs(model)
    assert [node.op_type for node in model.graph.node] == ["Cast", "Add", "Cast", "MatMulInteger", "MatMulInteger"]


def test_what_is_not_known_stays():
    """The type of a tensor between two nodes, without a zero point: it may have a sign."""
    model = model_of(helper.make_node("MatMulInteger", ["between", "w"], ["y"]), {"w": TensorProto.INT8})
    before = model.SerializeToString()
    without_signs(model)
    assert model.SerializeToString() == before
