"""What the reader finds in good models; convolutions are checked by running the same file with ONNX Runtime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.examples import some
from support.onnx_cases import node_cases

import convc
from convc.errors import InputError, NodeError, ProblemError
from convc.frontend.input_shapes import every_shape
from convc.frontend.onnx_reader import read_model
from convc.ir import dtypes
from convc.ir.network import SkippedNode, TensorRef
from convc.verification import reference


def save(path, nodes, *, x=(1, 3, 8, 9), initializers=None, outputs=("y",), element=TensorProto.FLOAT, **model):
    """Write a model with a graph input x; initializers are arrays by name."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", element, x)],
        [helper.make_tensor_value_info(name, element, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()],
    )
    options = {"ir_version": 10, "opset_imports": [helper.make_opsetid("", 22)]} | model
    path.write_bytes(helper.make_model(graph, **options).SerializeToString())
    return path


def conv(inputs=("x", "w"), output="y", **attributes):
    return helper.make_node("Conv", list(inputs), [output], **attributes)


def integers(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


@st.composite
def attributes(draw):
    def axes(low, high, count=2):
        return [draw(st.integers(low, high)) for _ in range(count)]

    kernel = axes(1, 4)
    mode = draw(st.sampled_from([None, "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    strides, dilations = axes(1, 4), axes(1, 3)
    if mode in ("SAME_UPPER", "SAME_LOWER"):  # ONNX Runtime takes no dilation here, and crops for narrow filters
        strides, dilations = [min(pair) for pair in zip(strides, kernel, strict=True)], [1, 1]
    found = {"strides": strides, "dilations": dilations, "kernel_shape": kernel, "pads": axes(0, 3, 4)}
    for name in draw(st.sets(st.sampled_from(list(found)))):
        del found[name]
    if mode:
        found["auto_pad"] = mode
    if mode not in (None, "NOTSET"):
        found.pop("pads", None)
    return kernel, found


@given(attributes(), st.integers(1, 12), st.integers(1, 12), st.integers(1, 3), st.booleans())
@settings(max_examples=some(120), deadline=None)
def test_every_form_of_conv_means_what_onnx_runtime_says(tmp_path_factory, form, height, width, batch, biased):
    kernel, attrs = form
    w, x = integers((5, 2, *kernel)), integers((batch, 2, height, width), seed=1)
    values = {"w": w, "b": integers(5, seed=2)} if biased else {"w": w}
    path = tmp_path_factory.mktemp("m") / "m.onnx"
    save(path, [conv(["x", *values], **attrs)], x=x.shape, initializers=values)
    try:
        node = read_model(path).convs[0]
    except ProblemError:
        return  # an empty output: see test_problem
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})[0]
    got = reference.conv_problem(node.problem, x, node.weight, node.bias)
    assert node.output.shape == expected.shape
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel", [(1, 1), (2, 1), (3, 4)])
@pytest.mark.parametrize("stride", [(4, 4), (3, 5), (1, 2)])
def test_automatic_pads_mean_what_the_onnx_reference_says(tmp_path, mode, kernel, stride):
    w, x = integers((2, 3, *kernel)), integers((1, 3, 8, 9), seed=1)
    path = save(tmp_path / "m.onnx", [conv(auto_pad=mode, strides=stride)], initializers={"w": w})
    node = read_model(path).convs[0]
    expected = ReferenceEvaluator(onnx.load(path)).run(None, {"x": x})[0]
    assert np.array_equal(reference.conv_problem(node.problem, x, node.weight), expected)


@pytest.mark.parametrize(("mode", "pads"), [("SAME_UPPER", (1, 3, 2, 3)), ("SAME_LOWER", (2, 3, 1, 3))])
def test_automatic_pads_with_dilation(tmp_path, mode, pads):
    """Pads for ceil(8 / 2) by ceil(9 / 1) pixels and a filter of span 5 by 7."""
    node = conv(auto_pad=mode, strides=[2, 1], dilations=[4, 3])
    path = save(tmp_path / "m.onnx", [node], initializers={"w": integers((1, 3, 2, 3))})
    problem = read_model(path).convs[0].problem
    assert problem.out_extent == (4, 9)
    assert problem.pad_lo + problem.pad_hi == pads


def test_a_whole_record(tmp_path):
    w, b = integers((4, 3, 2, 2)), integers(4, seed=1)
    path = save(
        tmp_path / "m.onnx",
        [conv(["x", "w", "b"], name="first", pads=[1, 0, 0, 1])],
        x=(2, 3, 8, 9),
        initializers={"w": w, "b": b},
    )
    network = read_model(path)
    assert network.name == "g"
    assert network.inputs == (TensorRef(name="x", dtype="f32", shape=(2, 3, 8, 9)),)
    assert network.outputs == (TensorRef(name="y", dtype="f32", shape=(2, 4, 8, 9)),)
    assert network.skipped == ()
    (node,) = network.convs
    assert node.name == node.problem.name == "first"
    assert node.input == network.inputs[0]
    assert node.output == network.outputs[0]
    assert (node.problem.operand, node.problem.out, node.problem.bias) == ("tf32", "f32", True)
    assert (node.problem.pad_lo, node.problem.pad_hi) == ((1, 0), (0, 1))
    assert np.array_equal(node.weight, w)
    assert np.array_equal(node.bias, b)


@pytest.mark.parametrize(
    ("element", "storage", "operand", "out"),
    [
        (TensorProto.FLOAT16, np.float16, "f16", "f16"),
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16, "bf16", "bf16"),
        (TensorProto.FLOAT, np.float32, "tf32", "f32"),
    ],
)
@pytest.mark.parametrize("override", [None, "f16", "bf16", "tf32"])
@pytest.mark.parametrize("raw", [True, False])
def test_types(tmp_path, element, storage, operand, out, override, raw):
    values = np.random.default_rng(0).standard_normal((2, 3, 1, 1)).astype(storage)
    stored = (
        numpy_helper.from_array(values, "w")
        if raw
        else helper.make_tensor("w", element, values.shape, values.astype(np.float32).ravel())
    )
    graph = helper.make_graph(
        [conv()],
        "g",
        [helper.make_tensor_value_info("x", element, (1, 3, 4, 4))],
        [helper.make_tensor_value_info("y", element, None)],
        [stored],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph), path)
    node = read_model(path, operand=override).convs[0]
    assert node.problem.operand == (override or operand)
    assert node.problem.out == out
    rounded = dtypes.quantise(node.problem.operand_dtype, values.astype(np.float64))
    assert node.weight.dtype == np.float32
    assert np.array_equal(node.weight, rounded)


def test_weights_too_large_for_the_operand_type(tmp_path):
    path = save(tmp_path / "m.onnx", [conv(name="c")], initializers={"w": np.full((1, 3, 1, 1), 7e4, np.float32)})
    assert read_model(path).convs[0].weight.max() == dtypes.quantise(dtypes.TF32, np.array(7e4))
    with pytest.raises(NodeError, match="3 weights are too large for f16, for example 70000"):
        read_model(path, operand="f16")


def constant_nodes(value: np.ndarray) -> dict[str, list[onnx.NodeProto]]:
    """Ways to make the tensor w of a graph."""
    tensor = numpy_helper.from_array(value)
    return {
        "Constant": [helper.make_node("Constant", [], ["w"], value=tensor)],
        "Identity": [
            helper.make_node("Constant", [], ["v"], value=tensor),
            helper.make_node("Identity", ["v"], ["u"]),
            helper.make_node("Identity", ["u"], ["w"]),
        ],
        "Cast": [
            helper.make_node("Constant", [], ["v"], value=numpy_helper.from_array(value.astype(np.float64))),
            helper.make_node("Cast", ["v"], ["w"], to=TensorProto.FLOAT),
        ],
        "int Cast": [
            helper.make_node("Constant", [], ["v"], value=numpy_helper.from_array(value.astype(np.int64))),
            helper.make_node("Cast", ["v"], ["i"], to=TensorProto.INT32),
            helper.make_node("Cast", ["i"], ["w"], to=TensorProto.FLOAT),
        ],
    }


@pytest.mark.parametrize("made_by", ["Constant", "Identity", "Cast", "int Cast"])
@pytest.mark.parametrize("filters", [2, 200])
def test_constants_come_in_many_ways(tmp_path, made_by, filters):
    value = integers((filters, 3, 2, 2))
    path = save(tmp_path / "m.onnx", [*constant_nodes(value)[made_by], conv()])
    network = read_model(path)
    assert np.array_equal(network.convs[0].weight, value)
    assert network.convs[0].output.shape == (1, filters, 7, 8)
    assert len(network.skipped) == len(constant_nodes(value)[made_by])


def test_constant_of_shape_and_number_attributes(tmp_path):
    fill = helper.make_tensor("v", TensorProto.FLOAT, [1], [0.5])
    path = save(
        tmp_path / "m.onnx",
        [
            helper.make_node("Constant", [], ["shape"], value_ints=[2, 3, 1, 1]),
            helper.make_node("ConstantOfShape", ["shape"], ["w"], value=fill),
            helper.make_node("Constant", [], ["b"], value_floats=[1.5, -2.0]),
            conv(["x", "w", "b"]),
            helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
            conv(["x", "zeros", ""], "z"),
            helper.make_node("Constant", [], ["k"], value_int=1),
            helper.make_node("Constant", [], ["l"], value_float=1.0),
        ],
    )
    first, second = read_model(path).convs
    assert np.array_equal(first.weight, np.full((2, 3, 1, 1), 0.5))
    assert first.bias.tolist() == [1.5, -2.0]
    assert not second.weight.any()
    assert second.bias is None


def test_a_graph_of_several_nodes(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [
            conv(["x", "w1"], "a", name="same", strides=[2, 2]),
            helper.make_node("Relu", ["a"], ["r"], name="relu"),
            helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]),
            conv(["p", "w2"], "c", name="same"),
            conv(["p", "w2"], "d"),
            conv(["p", "w2"], "e", name="same"),
        ],
        initializers={"w1": integers((4, 3, 1, 1)), "w2": integers((6, 4, 3, 2))},
        outputs=("c", "d"),
    )
    network = read_model(path)
    assert [node.name for node in network.convs] == ["same", "same_2", "d", "same_3"]
    assert network.convs[1].problem.x_shape == (1, 4, 3, 4)
    assert network.skipped == (
        SkippedNode(name="relu", op_type="Relu", reason="not a convolution"),
        SkippedNode(name="p", op_type="MaxPool", reason="not a convolution"),
    )


def test_a_convolution_that_is_no_matrix_product_is_listed_with_the_reason(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [conv(["x", "w1"], "a"), helper.make_node("DeformConv", ["a", "w1", "x"], ["c"], name="moved")],
        initializers={"w1": integers((3, 3, 1, 1))},
        outputs=("c",),
    )
    (skipped,) = read_model(path).skipped
    assert (skipped.name, skipped.op_type) == ("moved", "DeformConv")
    assert skipped.reason.startswith("its read addresses depend on data")


@pytest.mark.parametrize(("ir_version", "opset"), [(3, 7), (4, 9), (7, 11), (8, 13), (10, 22)])
def test_versions(tmp_path, ir_version, opset):
    w = integers((4, 3, 3, 3))
    path = save(
        tmp_path / "m.onnx",
        [conv()],
        initializers={"w": w},
        ir_version=ir_version,
        opset_imports=[helper.make_opsetid("ai.onnx", opset), helper.make_opsetid("com.example", 99)],
    )
    assert np.array_equal(read_model(path).convs[0].weight, w)


def test_the_newest_versions(tmp_path):
    newest = {
        "ir_version": onnx.IR_VERSION,
        "opset_imports": [helper.make_opsetid("", onnx.defs.onnx_opset_version())],
    }
    path = save(tmp_path / "m.onnx", [conv()], initializers={"w": integers((4, 3, 3, 3))}, **newest)
    assert len(read_model(path).convs) == 1


def test_a_symbolic_batch_is_set(tmp_path):
    nodes = [
        conv(["x", "w"], "a"),
        helper.make_node("Constant", [], ["s"], value_ints=[0, 4, 3, -1]),
        helper.make_node("Reshape", ["a", "s"], ["r"]),
        conv(["r", "v"], "y"),
    ]
    values = {"w": integers((4, 3, 3, 3)), "v": integers((2, 4, 1, 1))}
    path = save(tmp_path / "m.onnx", nodes, x=("N", 3, 8, 9), initializers=values)
    network = read_model(path, batch=5)
    assert [node.problem.x_shape for node in network.convs] == [(5, 3, 8, 9), (5, 4, 3, 14)]
    assert network.inputs[0].shape == (5, 3, 8, 9)
    assert network.outputs[0].shape == (5, 2, 3, 14)
    network = read_model(path)
    assert [node.problem.x_shape for node in network.convs] == [(1, 3, 8, 9), (1, 4, 3, 14)]
    assert network.assumed == ("the batch of 'x' is open, and taken to be 1 (--batch N, or --shape x:1x3x8x9)",)


def test_the_name_of_a_layer_is_one_line(tmp_path):
    nodes = [helper.make_node("Conv", ["x", "w"], [output], name="a\n2 of\t2\r") for output in ("p", "q")]
    path = save(tmp_path / "m.onnx", nodes, outputs=("p", "q"), initializers={"w": integers((4, 3, 3, 3))})
    assert [conv.name for conv in read_model(path).convs] == ["a 2 of 2 ", "a 2 of 2 _2"]


@pytest.mark.parametrize(("batch", "shapes", "said"), [
    (None, {"x": (1, 3, 1), "y": (1, 4), "z": ()},
     ["the batch of 'y' is open, and taken to be 1 (--batch N, or --shape y:1x4)",
      "extents of 'x' that are open are taken to be 1 (--shape x:1x3x1)"]),
    (5, {"x": (5, 3, 1), "y": (1, 4), "z": ()},
     ["extents of 'x' that are open are taken to be 1 (--shape x:5x3x1)"]),
    ({"y": (7, 4)}, {"x": (1, 3, 7), "y": (7, 4), "z": ()},
     ["the batch of 'x' is open, and taken to be 1 (--batch N, or --shape x:1x3x7)"]),
    ({"x": (2, 3, 9)}, {"x": (2, 3, 9), "y": (9, 4), "z": ()}, []),
])  # fmt: skip
def test_what_is_open_besides_the_batch_is_1_and_said(batch, shapes, said):
    declared = {"x": [None, 3, "length"], "y": ["length", 4], "z": []}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in declared.items()]
    assert every_shape(inputs, batch) == (shapes, said)


def test_a_batch_of_0_is_no_open_one(tmp_path):
    weights = {"w": integers((4, 3, 3, 3))}
    path = save(tmp_path / "m.onnx", [conv()], x=(0, 3, 8, 9), initializers=weights)
    network = read_model(path)
    assert network.convs == ()
    assert network.skipped[0].reason.startswith("the input 'x' has no elements: (0, 3, 8, 9)")
    with pytest.raises(InputError, match="the model has a batch of 0, got 2"):
        convc.load(path, batch=2)
    with pytest.raises(InputError, match=r"the model declares \[0, 3, 8, 9\], got \[1, 3, 8, 9\]"):
        convc.load(path, batch={"x": (1, 3, 8, 9)})
    with pytest.raises(InputError, match=r"expected an array of shape \[0, 3, 8, 9\], got \[1, 3, 8, 9\]"):
        convc.run_model(path, np.zeros((1, 3, 8, 9), np.float32))
    path = save(path, [conv()], x=(-1, 3, 8, 9), initializers=weights)  # as some exporters write an open one
    assert read_model(path, batch=2).convs[0].problem.batch == 2
    network = read_model(path, batch={"x": (2, 3, 8, 9)})
    assert network.convs[0].problem.x_shape == (2, 3, 8, 9)
    assert network.assumed == ()


def test_a_batch_replaces_the_model_s(tmp_path):
    path = save(tmp_path / "m.onnx", [conv()], x=(1, 3, 8, 9), initializers={"w": integers((4, 3, 3, 3))})
    assert read_model(path, batch=7).convs[0].problem.batch == 7
    with pytest.raises(InputError, match="batch must be at least 0, got -1"):
        read_model(path, batch=-1)


def test_operand_names_are_checked(tmp_path):
    with pytest.raises(InputError, match=r"operand must be one of f16, bf16, tf32, e4m3, e5m2, .*, got 'f32'"):
        read_model(tmp_path / "none.onnx", operand="f32")


def onnx_node_models() -> list[onnx.ModelProto]:
    """The models of the onnx package's own tests of Conv; their weights are graph inputs."""
    return [case.model for case in node_cases("conv").values()]


@pytest.mark.parametrize("model", onnx_node_models(), ids=lambda model: model.graph.name)
def test_weights_may_be_bound_from_outside(tmp_path, model):
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    with pytest.raises(NodeError) as caught:
        read_model(path)
    assert caught.value.message == "the weights must be constant, and 'W' is not"
    assert "as an initializer" in caught.value.hint
    network = read_model(path, constants={"W": np.ones((1, 1, 3, 3), np.float32)})
    assert [ref.name for ref in network.inputs] == ["x"]
    expected = tuple(dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim)
    assert network.convs[0].output.shape == expected
    assert network.convs[0].weight.sum() == 9


def test_there_are_six_such_models():
    assert len(onnx_node_models()) == 6


def test_bound_constants_are_checked(tmp_path):
    path = save(tmp_path / "m.onnx", [conv()], initializers={"w": integers((4, 3, 3, 3))})
    with pytest.raises(InputError, match="the model has no input named q"):
        read_model(path, constants={"q": np.zeros(3)})
    with pytest.raises(InputError, match="the constant for 'x' has elements of int16"):
        read_model(path, constants={"x": np.zeros(3, np.int16)})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"xx": (1, 3, 8, 9)}, "no input named 'xx'"),
        ({"x": (1, 3, 8)}, r"the model declares \[N, 3, H, 9\], got \[1, 3, 8\]"),
        ({"x": (1, 4, 8, 9)}, "the model declares"),
        ({"x": (-2, 3, 8, 9)}, "at least 0"),
    ],
)
def test_shapes_of_inputs_are_checked(tmp_path, shapes, message):
    path = save(
        tmp_path / "m.onnx", [conv(["x", "w"], "y")], x=("N", 3, "H", 9), initializers={"w": integers((4, 3, 3, 3))}
    )
    assert read_model(path, batch={"x": (2, 3, 7, 9)}).convs[0].problem.x_shape == (2, 3, 7, 9)
    with pytest.raises(NodeError, match="not fixed"):
        read_model(path)
    with pytest.raises(InputError, match=message):
        read_model(path, batch=shapes)
