"""Convolutions between DequantizeLinear and QuantizeLinear: which become integer ones, and what they then compute."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.examples import some
from support.qdq import ARRAYS, X_SHAPE, node, qdq_model, qdq_nodes
from support.quantised_models import onnxruntime_outputs

from convc.frontend.constants import Constants
from convc.frontend.integer_convs import Integers, integer_convolutions
from convc.frontend.onnx_reader import node_names, read_model
from convc.ir.network import ConvNode
from convc.verification import reference

RELU = node("Relu", "c", "r", "act")


def found(model: onnx.ModelProto) -> Integers:
    return integer_convolutions(model, node_names(model.graph.node), Constants(model.graph, None, {}))


def conv_of(model: onnx.ModelProto) -> ConvNode:
    (conv,) = read_model(model, fuse=True).convs
    return conv


def numbers(seed: int, dtype: type = np.uint8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, X_SHAPE, dtype, endpoint=True)


def agrees(model: onnx.ModelProto, x: np.ndarray) -> int:
    """How many results are one step from onnxruntime's in floating point; all of these must be beside a tie."""
    conv = conv_of(model)
    expected = onnxruntime_outputs(model, {"x": x}, [])["y"].astype(int)
    sums = reference.conv_sums(conv.problem, x, conv.weight, conv.bias)
    off = np.abs(reference.conv_problem(conv.problem, x, conv.weight, conv.bias, conv.multiplier) - expected)
    scaled = sums * conv.multiplier.astype(np.float64).reshape(-1, 1, 1)
    beside_a_tie = np.abs(scaled - np.floor(scaled) - 0.5) <= 2.0**-14 * (1 + np.abs(scaled))
    assert off.max() <= 1
    assert not off[~beside_a_tie].any()
    return np.count_nonzero(off)


def test_the_pattern():
    model = qdq_model()
    before = model.SerializeToString()
    conv = conv_of(model)
    assert model.SerializeToString() == before
    problem = conv.problem
    assert (problem.types, problem.out_zero_point, problem.pad_value) == ("u8 x s8 -> u8", 100, 120)
    assert conv.fused == ("dx", "dw", "db", "q")
    assert (conv.input.name, conv.output.name) == ("x", "y")
    assert np.array_equal(conv.weight, ARRAYS["w"])
    np.testing.assert_allclose(conv.multiplier, ARRAYS["sw"] * 0.02 / 0.05, rtol=1e-6)
    assert np.array_equal(conv.bias, ARRAYS["b"] - 120 * ARRAYS["w"].astype(int).sum(axis=(1, 2, 3)))
    assert agrees(model, numbers(1)) == 0
    assert read_model(model, fuse=False).convs[0].problem.types == "tf32 -> f32"


SCALAR = {"sw": np.float32(0.01), "zw": np.int8(0), "sb": np.float32(0.01) * np.float32(0.02), "zb": np.int32(0)}
OTHERS: dict[str, tuple[list[onnx.NodeProto], dict, dict]] = {
    "one scale": (qdq_nodes(), SCALAR, {}),
    "one scale in a list": (qdq_nodes(), {"sx": np.float32([0.02]), "zx": np.uint8([120])}, {}),
    "operator set 10": (qdq_nodes(), SCALAR, {"opset": 10}),
    "operator set 21": (qdq_nodes(), {}, {"opset": 21}),
    "onnxruntime's own": ([helper.make_node(n.op_type, n.input, n.output, n.name, domain="com.microsoft", axis=0)
                           if "Linear" in n.op_type else n for n in qdq_nodes()], {}, {}),
    "u8 weights": (qdq_nodes(), {"w": ARRAYS["w"].view(np.uint8), "zw": np.uint8([128, 0, 255])}, {}),
    "s8": (qdq_nodes(), {"zx": np.int8(-7), "zy": np.int8(3)}, {"x": TensorProto.INT8}),
    "no zero points": ([node("DequantizeLinear", "x sx", "xr"), node("DequantizeLinear", "w sw", "wr", axis=0),
                        node("Conv", "xr wr", "c"), node("QuantizeLinear", "c sy", "y")], {}, {}),
    "a real bias": ([n for n in qdq_nodes() if n.name != "db"], {"br": np.float32([0.3, -0.2, 0.7])}, {}),
    "PyTorch's bias": ([node("ConstantOfShape", "n", "zb", value=helper.make_tensor("v", TensorProto.INT32, [1], [0])),
                        *qdq_nodes()], {"n": np.array([3])}, {}),
    "a bias in other steps": (qdq_nodes(), {"sb": np.float32([1e-5, 1e-5, 1e-5])}, {}),
    "weights quantised here": ([node("QuantizeLinear", "wf sw zw", "w", axis=0), *qdq_nodes()],
                               {"wf": ARRAYS["w"] * np.float32(0.011)}, {}),
    "relu that is saturation": (qdq_nodes(RELU), {"zy": np.uint8(0)}, {}),
    "clip that is saturation": (qdq_nodes(node("Clip", "c low high", "r")),
                                {"zy": np.uint8(0), "low": np.float32(0), "high": np.float32(12.75)}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_forms(name):
    nodes, arrays, more = OTHERS[name]
    model = qdq_model(nodes, arrays, **more)
    result = found(model)
    assert list(result.taken) == [n.name for n in nodes if n.op_type == "Conv"]
    assert not result.floating
    assert not [n for n in result.model.graph.node if n.op_type in ("Conv", "DequantizeLinear", "Relu", "Clip")]
    dtype = np.int8 if more.get("x") == TensorProto.INT8 else np.uint8
    assert agrees(model, numbers(2, dtype)) <= 2


@pytest.mark.parametrize(("zero", "types"), [(np.int8(0), "s8 -> u8"), (np.uint8(0), "u8 x s8 -> u8")])
def test_without_a_zero_point_numbers_have_the_type_that_they_were_quantised_to(zero, types):
    nodes = [
        node("DequantizeLinear", "x sx zx", "xf"),
        node("QuantizeLinear", "xf sx zi", "xi"),
        node("DequantizeLinear", "xi sx", "xr"),
        *qdq_nodes()[1:],
    ]
    assert conv_of(qdq_model(nodes, {"zi": zero})).problem.types == types


@pytest.mark.parametrize(
    ("activations", "bounds"),
    [
        ([RELU], (100, 255)),
        ([node("Clip", "c low high", "r", "act")], (80, 120)),
        ([node("Clip", "c low high", "d"), node("Relu", "d", "r", "act")], (100, 120)),
        ([node("Clip", "c high low", "r", "act")], (80, 80)),
    ],
)  # fmt: skip
def test_activations_that_do_more_than_saturation(activations, bounds):
    """They are a Clip of whole numbers behind the convolution."""
    model = qdq_model(qdq_nodes(*activations), {"low": np.float32(-1), "high": np.float32(1)})
    result = found(model)
    linear, clip = result.model.graph.node
    assert (linear.op_type, clip.op_type, clip.name) == ("QLinearConv", "Clip", "act")
    assert result.taken == {
        "conv": tuple(n.name for n in qdq_nodes(*activations) if n.op_type != "Conv" and n.name != "act")
    }
    x = numbers(4)
    expected = onnxruntime_outputs(model, {"x": x}, [])["y"]
    got = onnxruntime_outputs(result.model, {"x": x}, [])["y"]
    assert (got.min(), got.max()) == bounds
    assert np.abs(got.astype(int) - expected).max() <= 1
    assert np.count_nonzero(got != expected) <= 1


def changed(name: str, **changes) -> list[onnx.NodeProto]:
    """The nodes, one of them with other inputs, outputs or attributes."""
    nodes = qdq_nodes()
    one = next(n for n in nodes if n.name == name)
    for key, value in changes.items():
        if key in ("input", "output"):
            del getattr(one, key)[:]
            getattr(one, key).extend(value.split())
        elif key in ("op_type", "domain"):
            setattr(one, key, value)
        else:
            kept = [a for a in one.attribute if a.name != key]
            del one.attribute[:]
            one.attribute.extend([*kept, helper.make_attribute(key, value)])
    return nodes


PER_AXIS = np.float32([0.02] * 4)
NEAR_MISSES = [
    (qdq_nodes(), {"sx": None}, {}, "not constant: the scale of its activations"),
    (qdq_nodes(), {"zx": None}, {}, "not constant: the zero point of its activations"),
    (qdq_nodes(), {"sw": None}, {}, "not constant: the scale of its weights"),
    (qdq_nodes(), {"w": None}, {}, "not constant: the weights"),
    (qdq_nodes(), {"sy": None}, {}, "not constant: the scale of its result"),
    (qdq_nodes(), {"b": None}, {}, "not constant: the bias"),
    (qdq_nodes(), {"sx": PER_AXIS, "zx": np.full(4, 9, np.uint8)}, {}, "its activations have 4 scales, not one"),
    (qdq_nodes(), {"sy": PER_AXIS[:3], "zy": np.full(3, 9, np.uint8)}, {}, "its results have 3 scales, not one"),
    (changed("dw", axis=1), {"sw": PER_AXIS, "zw": np.zeros(4, np.int8)}, {}, "its weights have 4 scales along axis 1"),
    (changed("dw", block_size=2), {"sw": np.full((3, 2, 3, 3), 0.1, np.float32), "zw": np.zeros((3, 2, 3, 3), np.int8)},
     {"opset": 21}, "its weights have scales per block"),
    (qdq_nodes(), {"zx": np.uint16(9)}, {"opset": 21, "x": TensorProto.UINT16},
     "'zx' cannot be read: elements of uint16 are not read"),
    (changed("dx", input="x sx"), {}, {"opset": 21, "x": TensorProto.UINT16},
     "the type of 'x' is not known to have 8 bits"),
    (qdq_nodes(), {"zy": np.int16(9)}, {"opset": 21}, "'zy' cannot be read: elements of int16 are not read"),
    (qdq_nodes(), {"sx": np.float32(0)}, {}, "the scale of its activations must be float32, positive and finite"),
    (qdq_nodes(), {"sy": np.float32(np.nan)}, {}, "the scale of its results must be float32, positive and finite"),
    (qdq_nodes(), {"sx": np.float32(1e-30), "sw": np.full(3, 1e-30, np.float32)}, {},
     "its scales together are too large or too small for float32"),
    (qdq_nodes(), {"sw": np.float32([1e-30, 1, 1]), "sb": np.float32([1, 1, 1])}, {}, "its bias does not fit 32 bits"),
    (qdq_nodes(), {"sb": np.full(3, 0.0003, np.float32), "sy": np.float32(1e-3), "sw": np.full(3, 1, np.float32)}, {},
     "rounding its bias would change results by"),
    (qdq_nodes(), {"b": np.int32([2**31 - 1, 0, 0])}, {}, "its sums may overflow 32 bits"),
    (qdq_nodes(), {"b": np.zeros((3, 1), np.int32)}, {}, "its bias is float32 of shape (3, 1)"),
    (changed("conv", input="x wr br"), {}, {"x": TensorProto.FLOAT},
     "its activations do not come from a DequantizeLinear"),
    (changed("conv", input="xr wf br"), {"wf": np.zeros((3, 4, 3, 3), np.float32)}, {},
     "its weights do not come from a DequantizeLinear"),
    (changed("conv", op_type="ConvTranspose", pads=[0] * 4), {"w": ARRAYS["w"][:, :1].repeat(4, 0)[:4]}, {},
     "ConvTranspose has no integer form"),
    (qdq_nodes(), {}, {"outputs": ["y", "r"]}, "its result is an output of the model before it is quantised"),
    ([*qdq_nodes(), node("QuantizeLinear", "r sx zx", "z")], {}, {"outputs": ["y", "z"]},
     "its result is read 2 times before it is quantised"),
    (qdq_nodes(node("Sigmoid", "c", "r")), {}, {}, "its result goes to Sigmoid before it is quantised"),
    (qdq_nodes(node("Relu", "c", "r", domain="com.microsoft")), {}, {},
     "its result goes to Relu before it is quantised"),
    (qdq_nodes(node("Relu", "c", "c", "act")), {}, {}, "its result is read before it is computed"),
    (qdq_nodes(RELU), SCALAR, {"opset": 11},
     "its activation is no saturation, and operator set 11 has no Clip of whole numbers"),
    (qdq_nodes(), SCALAR, {"opset": 9}, "operator set 9 has no QLinearConv"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "arrays", "more", "reason"), NEAR_MISSES, ids=[case[3] for case in NEAR_MISSES])
def test_near_misses(nodes, arrays, more, reason):
    result = found(model := qdq_model(nodes, arrays, **more))
    assert result.model is model
    assert not result.taken
    (why,) = result.floating.values()
    assert why.startswith(reason)


def test_a_near_miss_is_compiled_in_floating_point_and_said():
    model = qdq_model(qdq_nodes(node("Sigmoid", "c", "r")))
    network = read_model(model, fuse=True)
    (conv,) = network.convs
    assert conv.problem.types == "tf32 -> f32"
    assert conv.fused == ("r",)
    reasons = {skipped.name: skipped.reason for skipped in network.skipped}
    said = "conv stays floating-point: its result goes to Sigmoid before it is quantised"
    assert reasons == {"dx": said, "dw": said, "db": "not a convolution", "q": "not a convolution"}


def test_what_others_read_stays():
    """The activations are dequantised for a second reader and the weights for a second convolution."""
    second = [
        node("Conv", "xr wr", "e", "other"),
        node("QuantizeLinear", "e sy zy", "z", "last"),
        node("Neg", "xr", "n"),
    ]
    result = found(model := qdq_model([*qdq_nodes(), *second], outputs=["y", "z", "n", "br"]))
    assert [n.name for n in result.model.graph.node] == ["dx", "db", "conv", "other", "n"]
    assert result.taken == {"conv": ("dw", "q"), "other": ("last",)}
    x = numbers(7)
    expected = onnxruntime_outputs(model, {"x": x}, [])
    got = onnxruntime_outputs(result.model, {"x": x}, [])
    assert list(got) == list(expected)
    for name in ("n", "br"):
        assert np.array_equal(got[name], expected[name])
    for name in "yz":
        assert np.abs(got[name].astype(int) - expected[name]).max() <= 1


def test_names_that_are_taken():
    model = qdq_model()
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(9), "conv/x_scale"))
    (linear,) = found(model).model.graph.node
    assert linear.input[:3] == ["x", "conv/x_scale_", "conv/x_zero_point"]
    for one in model.graph.node:
        one.name = "same"
    result = found(model)
    assert [one.name for one in result.model.graph.node] == ["same_4"]
    assert result.taken == {"same_4": ("same", "same_2", "same_3", "same_5")}


def test_what_it_assumes():
    assert found(qdq_model()).assumes == set(ARRAYS)
    nodes = [node("Identity", "w", "v"), *changed("dw", input="v sw zw")]
    assert found(qdq_model(nodes)).assumes == set(ARRAYS)


@st.composite
def scalings(draw, known: bool):
    """Types, scales and zero points of a convolution, with results that fill the stored range.

    ``known``: only types that onnxruntime's QLinearConv takes.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = {"u8": np.uint8, "s8": np.int8}
    activations, filters, results = (kinds[draw(st.sampled_from(["u8", "s8"]))] for _ in range(3))
    if known:
        filters = np.int8 if activations is np.int8 else filters
        results = activations
    per_channel = draw(st.booleans())
    own = (3,) if per_channel else ()

    def number(dtype: type, shape: tuple[int, ...] = ()) -> np.ndarray:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)

    sx = np.float32(np.exp2(rng.uniform(-20, 5)))
    sw = np.exp2(rng.uniform(-3, 3, own) + rng.uniform(-15, 0)).astype(np.float32)
    if draw(st.booleans()):  # powers of two make exact ties
        sx = np.exp2(np.rint(np.log2(sx)))
        sw = np.exp2(np.rint(np.log2(sw)))
    step = np.float32(sx * np.max(sw))
    sy = np.exp2(np.rint(np.log2(step) + 10)) if draw(st.booleans()) else step * np.float32(rng.uniform(200, 3000))
    return {
        "sx": sx,
        "zx": number(activations),
        "w": number(filters, (3, 4, 3, 3)),
        "sw": sw,
        "zw": np.zeros(own, filters) if filters is np.int8 else np.full(own, number(filters)),
        "b": rng.integers(-3000, 3000, 3, np.int32),
        "sb": sx * sw,
        "zb": np.zeros(own, np.int32),
        "sy": np.float32(sy),
        "zy": number(results),
    }


@settings(max_examples=some(120), derandomize=True, database=None, deadline=None)
@given(scalings(known=False), st.integers(0, 2**32 - 1))
def test_any_scales_give_what_onnxruntime_gives(arrays, seed):
    dtype = arrays["zx"].dtype.type
    model = qdq_model(arrays=arrays, x=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    assume(found(model).taken)
    assert agrees(model, numbers(seed, dtype)) <= 9


@settings(max_examples=some(120), derandomize=True, database=None, deadline=None)
@given(scalings(known=True), st.integers(0, 2**32 - 1))
def test_any_scales_give_what_onnxruntimes_qlinear_conv_gives(arrays, seed):
    """Whose float32 product and rounding are the same: no result differs."""
    dtype = arrays["zx"].dtype.type
    model = qdq_model(arrays=arrays, x=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    result = found(model)
    assume(result.taken)
    x = numbers(seed, dtype)
    conv = conv_of(model)
    got = reference.conv_problem(conv.problem, x, conv.weight, conv.bias, conv.multiplier)
    expected = onnxruntime_outputs(result.model, {"x": x}, [])["y"]
    assert np.abs(got - expected).max() <= 1
    assert np.count_nonzero(got != expected) <= 1
