"""Constants behind QuantizeLinear and DequantizeLinear, beside onnxruntime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from support.examples import some

from convc.errors import ModelError, NodeError
from convc.frontend.constants import Constants
from convc.frontend.onnx_reader import read_model
from convc.ir import dtypes

TYPES = {"u8": np.uint8, "s8": np.int8, "s32": np.int32}


def graph(nodes: list[onnx.NodeProto], **arrays: np.ndarray) -> onnx.GraphProto:
    return onnx.GraphProto(node=nodes, initializer=[numpy_helper.from_array(a, name) for name, a in arrays.items()])


def folded(nodes: list[onnx.NodeProto], name: str = "y", **arrays: np.ndarray) -> np.ndarray | None:
    return Constants(graph(nodes, **arrays), None, {}).value(name)


def by_onnxruntime(nodes: list[onnx.NodeProto], arrays: dict[str, np.ndarray], opset: int) -> np.ndarray:
    whole = helper.make_graph(nodes, "g", [], [onnx.ValueInfoProto(name="y")], graph([], **arrays).initializer)
    made = helper.make_model(whole, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {})[0]


@st.composite
def scaled(draw, kinds: tuple[str, ...]):
    """(attributes, arrays, opset) of a node on numbers (4, 6, 2) with one scale, or some per axis or block."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = TYPES[draw(st.sampled_from(kinds))]
    limits = np.iinfo(dtype)
    shape = (4, 6, 2)
    axis = draw(st.integers(-3, 2))
    way = draw(st.sampled_from(["one", "axis", "block"]))
    attributes, own = {}, ()
    if way == "axis":
        attributes, own = {"axis": axis}, (shape[axis],)
    elif way == "block":
        block = draw(st.integers(2, 4))
        attributes = {"axis": axis, "block_size": block}
        own = tuple(-(-e // block) if i == axis % 3 else e for i, e in enumerate(shape))
    arrays = {
        "x": rng.integers(limits.min, limits.max, shape, dtype, endpoint=True),
        "s": np.exp2(rng.uniform(-20, 5, own)).astype(np.float32),
    }
    if draw(st.booleans()):
        top = 0 if dtype is np.int32 else limits.max  # zero points of s32 are 0
        arrays["z"] = rng.integers(min(limits.min, 0) if top else 0, top, own, dtype, endpoint=True)
    return attributes, arrays, 21 if way == "block" else draw(st.sampled_from([13, 19, 21, 23]))


STORED = ["INT4", "UINT4", "INT16", "UINT16", "FLOAT8E4M3FN", "FLOAT8E5M2"]


def stored(element: str) -> dict[str, onnx.TensorProto]:
    """Numbers (4, 5) of a type that nothing is computed in, of which 4-bit ones end inside a byte, and zero points."""
    number = TensorProto.DataType.Value(element)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    patterns = np.random.default_rng(5).integers(0, 120, 21).astype(np.uint8)
    own = patterns.view(dtype) if element.startswith("FLOAT") else (patterns % 16).astype(dtype)
    zero = np.zeros(3, dtype) if element.startswith("FLOAT") else np.array([1, 0, 5], dtype)
    return {"x": numpy_helper.from_array(own.reshape(7, 3), "x"), "z": numpy_helper.from_array(zero, "z")}


@pytest.mark.parametrize("where", ["initializers", "nodes", "files"])
@pytest.mark.parametrize("element", STORED)
def test_weights_of_types_that_are_only_stored(element, where, tmp_path):
    tensors = stored(element)
    scale = numpy_helper.from_array(np.float32([0.5, 0.3, 7]), "s")
    nodes = [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], axis=1)]
    whole = onnx.GraphProto(name="g", node=nodes, initializer=[scale, *tensors.values()])
    whole.output.add(name="y")
    made = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {})
    if where == "nodes":
        made = [helper.make_node("Constant", [], [name], value=tensor) for name, tensor in tensors.items()]
        whole = onnx.GraphProto(node=[*made, *nodes], initializer=[scale])
    if where == "files":
        (tmp_path / "x.bin").write_bytes(b"..." + tensors["x"].raw_data)
        tensor = whole.initializer[1]
        onnx.external_data_helper.set_external_data(tensor, "x.bin", offset=3)
        tensor.ClearField("raw_data")
    np.testing.assert_array_equal(Constants(whole, tmp_path, {}).value("y"), expected)


@pytest.mark.parametrize(("element", "needed"), [("INT4", 11), ("FLOAT8E5M2", 21), ("UINT16", 42)])
def test_stored_weights_of_another_size(element, needed):
    tensors = stored(element)
    tensors["x"].raw_data += b"0"
    nodes = [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], axis=1)]
    whole = onnx.GraphProto(node=nodes, initializer=[*tensors.values(), numpy_helper.from_array(np.ones(3, "f4"), "s")])
    with pytest.raises(ModelError, match=f"needs {needed} bytes of data, got {needed + 1}"):
        Constants(whole, None, {}).value("y")


@pytest.mark.parametrize("element", ["INT4", "UINT4", "INT16"])
def test_real_constants_become_narrow_ones_and_back(element):
    number = TensorProto.DataType.Value(element)
    zero = numpy_helper.from_array(np.array(2, helper.tensor_dtype_to_np_dtype(number)), "z")
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])]  # fmt: skip
    arrays = {"x": np.float32([-1e9, -3, -0.26, 0, 0.5, 3, 1e9]), "s": np.float32(0.5)}
    whole = graph(nodes, **arrays)
    whole.initializer.append(zero)
    whole.name = "g"
    whole.output.add(name="y")
    made = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(Constants(whole, None, {}).value("y"), session.run(None, {})[0])


@settings(max_examples=some(150), derandomize=True, database=None)
@given(scaled(("u8", "s8", "s32")))
def test_dequantised_constants_are_those_of_onnxruntime(drawn):
    attributes, arrays, opset = drawn
    nodes = [helper.make_node("DequantizeLinear", list(arrays), ["y"], **attributes)]
    np.testing.assert_array_equal(folded(nodes, **arrays), by_onnxruntime(nodes, arrays, opset))


@settings(max_examples=some(150), derandomize=True, database=None)
@given(scaled(("u8", "s8")), st.integers(0, 2**32 - 1))
def test_quantised_constants_are_those_of_onnxruntime(drawn, seed):
    attributes, arrays, opset = drawn
    rng = np.random.default_rng(seed)
    scale = np.exp2(np.rint(np.log2(arrays["s"]))) if seed % 2 else arrays["s"]  # with powers of two there are ties
    halves = rng.integers(-600, 600, arrays["x"].shape) / 2
    arrays["x"] = (halves * scale.flat[0]).astype(np.float32)
    arrays["s"] = scale.astype(np.float32)
    nodes = [helper.make_node("QuantizeLinear", list(arrays), ["y"], **attributes)]
    np.testing.assert_array_equal(folded(nodes, **arrays), by_onnxruntime(nodes, arrays, opset))


def test_other_types_of_result():
    x = np.array([-3, 100], np.int8)
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"])
    half = folded([node], x=x, s=np.float16(0.1))
    assert half.dtype == np.float16
    assert np.array_equal(half, (x.astype(np.float32) * np.float32(np.float16(0.1))).astype(np.float16))
    wide = folded([helper.make_node("DequantizeLinear", ["x", "s"], ["y"], output_dtype=TensorProto.BFLOAT16)],
                  x=x, s=np.float32(0.1))  # fmt: skip
    assert wide.dtype == ml_dtypes.bfloat16
    asked = helper.make_node("QuantizeLinear", ["r", "s"], ["y"], output_dtype=TensorProto.INT8)
    assert folded([asked], r=np.float32([-9.0]), s=np.float32(2)).tolist() == [-4]
    contrib = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], domain="com.microsoft")
    assert folded([contrib], x=x, s=np.float32(2)).tolist() == [-6, 200]


def test_weights_of_any_depth_of_nodes():
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]),
        helper.make_node("Identity", ["q"], ["i"]),
        helper.make_node("DequantizeLinear", ["i", "s", "z"], ["d"]),
        helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT16),
    ]
    got = folded(nodes, w=np.float32([0.7, -9]), s=np.float32(0.5), z=np.uint8(3))
    assert (got.dtype, got.tolist()) == (np.float16, [0.5, -1.5])


def test_what_is_no_constant():
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])
    arrays = {"x": np.int8([1]), "s": np.float32(1), "z": np.int8(0)}
    for missing in arrays:
        assert folded([node], **{name: array for name, array in arrays.items() if name != missing}) is None
    assert folded([helper.make_node("DequantizeLinear", ["x", "s"], ["y"], domain="other")], **arrays) is None
    assert folded([helper.make_node("Identity", ["x"], ["y"], domain="com.microsoft")], **arrays) is None
    circle = [helper.make_node("DequantizeLinear", ["y", "s"], ["y"])]
    assert folded(circle, **arrays) is None


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("DequantizeLinear", {"x": np.float32([1])}, "float32 times float32 to float32 is not computed"),
        ("DequantizeLinear", {"s": np.float64(1)}, "int8 times float64 to float64 is not computed"),
        ("DequantizeLinear", {"z": np.uint8(0)}, "the zero point must be int8, as the numbers are, got uint8"),
        ("DequantizeLinear", {"s": np.float32([1, 2, 3])}, r"shape \(3,\) do not go with \(2, 2\) along axis 1"),
        ("QuantizeLinear", {"x": np.int8([1])}, "int8 over float32 to int8 is not computed"),
        ("QuantizeLinear", {"x": np.float32([np.nan])}, "a number to be quantised is NaN"),
    ],
)  # fmt: skip
def test_refusals(kind, changes, message):
    arrays = {"x": np.int8([[1, 2], [3, 4]]), "s": np.float32(1), "z": np.int8(0)} | changes
    with pytest.raises(ModelError, match=message):
        folded([helper.make_node(kind, ["x", "s", "z"], ["y"])], **arrays)


def test_a_convolution_takes_such_weights(tmp_path):
    w = np.arange(-36, 36, dtype=np.int8).reshape(2, 4, 3, 3)
    arrays = {"w": w, "s": np.float32([0.5, 2]), "z": np.int8([1, 0]), "b": np.int32([3, -8]), "t": np.float32(0.25)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wr"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "t"], ["br"]),
        helper.make_node("Conv", ["x", "wr", "br"], ["y"], name="c"),
    ]
    shown = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 5, 5))]
    made = graph(nodes, **arrays)
    made.input.extend(shown)
    made.output.append(onnx.ValueInfoProto(name="y"))
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    model.graph.name = "g"
    (conv,) = read_model(model).convs
    assert conv.problem.types == "tf32 -> f32"
    real = (w - arrays["z"].reshape(2, 1, 1, 1).astype(int)) * arrays["s"].reshape(2, 1, 1, 1)
    assert np.array_equal(conv.weight, dtypes.quantise(dtypes.BY_NAME["tf32"], real))
    assert conv.bias.tolist() == [0.75, -2]
    del model.graph.initializer[1]  # the scale of the weights
    with pytest.raises((NodeError, ModelError)):
        read_model(model)
