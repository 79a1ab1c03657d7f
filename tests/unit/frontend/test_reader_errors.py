"""Models that are refused, and the words they are refused with."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from convc.errors import ConvcError, LimitError, ModelError, NodeError, ProblemError
from convc.frontend.onnx_reader import read_model
from convc.support import memory as limits

FLOAT = TensorProto.FLOAT


def build(nodes, *, x=(1, 4, 8, 8), element=FLOAT, tensors=(), inputs=()) -> ModelProto:
    """A model with inputs x and more, and the weights w (6, 4, 3, 3)."""
    weights = numpy_helper.from_array(np.ones((6, 4, 3, 3), np.float32), "w")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", element, x), *inputs],
        [helper.make_tensor_value_info("y", element, None)],
        [weights, *tensors],
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 22)])


def conv(inputs=("x", "w"), **attributes):
    return helper.make_node("Conv", list(inputs), ["y"], name="c1", **attributes)


def refusal(tmp_path, model: ModelProto | bytes, kind: type[ConvcError], **options) -> ConvcError:
    path = tmp_path / "m.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    with pytest.raises(kind) as caught:
        read_model(path, **options)
    assert caught.value.exit_code == 2
    assert str(path) in caught.value.where
    return caught.value


def test_files_that_are_not_models(tmp_path):
    good = build([conv()]).SerializeToString()
    for data, message in (
        (b"", "the file is empty"),
        (b"\x00", "not an ONNX model, or cut short: the bytes are not a protobuf message"),
        (b"hello, this is no model", "not an ONNX model, or cut short: the bytes are not a protobuf message"),
        (good[:-20], "not an ONNX model, or cut short: the bytes are not a protobuf message"),
        (good[:2], "not an ONNX model, or cut short: there is no graph with nodes in it"),
    ):
        assert refusal(tmp_path, data, ModelError).message == message


def test_missing_and_special_files(tmp_path):
    with pytest.raises(ModelError, match="there is no such file or folder"):
        read_model(tmp_path / "none.onnx")
    for path in (tmp_path, "/dev/zero"):
        with pytest.raises(ModelError, match="the model must be a regular file"):
            read_model(path)


def test_files_too_large_for_protobuf(tmp_path, monkeypatch):
    path = tmp_path / "big.onnx"
    with path.open("wb") as file:
        file.truncate(3 << 30)  # takes no disk
    monkeypatch.setattr(limits, "available_memory", lambda: None)
    with pytest.raises(ModelError, match="the file has 3 GiB; one protobuf message holds 2 GiB at most"):
        read_model(path)
    monkeypatch.setattr(limits, "available_memory", lambda: 1 << 30)
    with pytest.raises(LimitError, match=r"reading big.onnx needs 6 GiB"):
        read_model(path)


@pytest.mark.parametrize(
    ("ir_version", "opsets", "message"),
    [
        (2, [("", 22)], "expected ONNX IR version 3 to"),
        (999, [("", 22)], "expected ONNX IR version 3 to"),
        (10, [("", 6)], "expected ONNX operator set 7 to"),
        (10, [("", 9999)], "expected ONNX operator set 7 to"),
        (10, [("other", 3)], "the model does not say which ONNX operator set it uses"),
    ],
)
def test_versions_out_of_range(tmp_path, ir_version, opsets, message):
    model = build([conv()])
    model.ir_version = ir_version
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*pair) for pair in opsets)
    assert refusal(tmp_path, model, ModelError).message.startswith(message)


def test_no_convolution(tmp_path):
    model = build([helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Relu", ["r"], ["y"])])
    error = refusal(tmp_path, model, ModelError)
    assert error.message == "the model has no convolution"
    assert error.hint == "it has 2 Relu"


@pytest.mark.parametrize(
    ("attributes", "kind", "message"),
    [
        ({"group": 0}, NodeError, "group must be at least 1, got 0"),
        (
            {"group": 2},
            NodeError,
            "the input has shape (N, C, H, W) = (1, 4, 8, 8), the weights (K, C/2, R, S) = (6, 4, 3, 3): "
            "they must have the same C",
        ),
        ({"kernel_shape": [3, 2]}, NodeError, "kernel_shape is (3, 2), the weights have (3, 3)"),
        ({"pads": [1, 1]}, NodeError, "pads must have 4 entries, got (1, 1)"),
        ({"strides": [1, 1, 1]}, NodeError, "strides must have 2 entries, got (1, 1, 1)"),
        ({"strides": [0, 1]}, NodeError, "strides must be at least 1, got (0, 1)"),
        ({"strides": [0, 1], "auto_pad": "SAME_UPPER"}, NodeError, "strides must be at least 1, got (0, 1)"),
        ({"dilations": [1, -1]}, NodeError, "dilations must be at least 1, got (1, -1)"),
        (
            {"pads": [0, -1, 0, 0]},
            NodeError,
            "pads must be at least 0, got (0, -1, 0, 0): crop the input before the convolution instead",
        ),
        ({"auto_pad": "SAME"}, NodeError, "auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got SAME"),
        (
            {"auto_pad": "SAME_UPPER", "pads": [2, 0, 0, 0]},
            NodeError,
            "auto_pad SAME_UPPER gives pads (1, 1, 1, 1), and the node also says pads (2, 0, 0, 0)",
        ),
        ({"group": "1"}, NodeError, "attribute 'group' is not one of Conv, or has the wrong type"),
        ({"activation": "Relu"}, NodeError, "attribute 'activation' is not one of Conv, or has the wrong type"),
        (
            {"dilations": [4, 1]},
            ProblemError,
            "the output has no pixel along H: the filter spans 9 pixels, the input with its padding has 8",
        ),
    ],
)
def test_attributes(tmp_path, attributes, kind, message):
    error = refusal(tmp_path, build([conv(**attributes)]), kind)
    assert error.message == message
    assert "'c1'" in error.where


def test_auto_pad_beside_equal_pads_is_fine(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(build([conv(auto_pad="SAME_UPPER", pads=[1, 1, 1, 1])]).SerializeToString())
    assert read_model(path).convs[0].problem.pad_hi == (1, 1)


def weights(shape, dtype=np.float32):
    return numpy_helper.from_array(np.ones(shape, dtype), "v")


@pytest.mark.parametrize(
    ("tensor", "x", "message"),
    [
        (
            weights((6, 4)),
            (1, 4, 8, 8),
            "weights must have shape (K, C, [[T,] R,] S), for 1 to 3 spatial axes, got (6, 4)",
        ),
        (weights((6, 4, 1, 1, 1, 1)), (1, 4, 8, 8, 8, 8), "weights must have shape (K, C, [[T,] R,] S), for 1 to 3"),
        (
            weights((6, 5, 3, 3)),
            (1, 4, 8, 8),
            "the input has shape (N, C, H, W) = (1, 4, 8, 8), the weights (K, C, R, S) = (6, 5, 3, 3): they must",
        ),
        (weights((6, 4, 3, 3)), (1, 4, 8), "the input has shape (N, C, H, W) = (1, 4, 8), the weights"),
        (weights((6, 4, 3, 3), np.float16), (1, 4, 8, 8), "the input is f32, the weights float16: they must be"),
    ],
)
def test_weight_shapes_and_types(tmp_path, tensor, x, message):
    error = refusal(tmp_path, build([conv(["x", "v"])], x=x, tensors=[tensor]), NodeError)
    assert error.message.startswith(message)


def test_zero_extents(tmp_path):
    model = build([conv(["x", "v"])], tensors=[weights((0, 4, 3, 3))])
    network = read_model(model)
    assert network.convs == ()
    assert network.skipped[0].reason.startswith("the weights 'v' have no elements: (0, 4, 3, 3)")


@pytest.mark.parametrize("shape", [(5,), (6, 1), ()])
def test_bias_of_another_length(tmp_path, shape):
    model = build([conv(["x", "w", "v"])], tensors=[weights(shape)])
    error = refusal(tmp_path, model, NodeError)
    assert error.message == f"the bias must have one number per output channel, (6,), got {shape}"


def test_weights_or_bias_that_are_computed(tmp_path):
    other = helper.make_tensor_value_info("v", FLOAT, (6, 4, 3, 3))
    error = refusal(tmp_path, build([conv(["x", "v"])], inputs=[other]), NodeError)
    assert error.message == "the weights must be constant, and 'v' is not"
    nodes = [helper.make_node("RandomNormalLike", ["w"], ["v"]), conv(["x", "v"])]
    assert refusal(tmp_path, build(nodes), NodeError).message == "the weights must be constant, and 'v' is not"
    error = refusal(tmp_path, build([conv(["x", "w", "q"])]), NodeError)
    assert error.message == "the bias must be constant, and 'q' is not"


@pytest.mark.parametrize("element", ["DOUBLE", "INT16"])
def test_element_types(tmp_path, element):
    number = getattr(TensorProto, element)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    tensor = numpy_helper.from_array(np.ones((6, 4, 3, 3), dtype), "v")
    model = build([conv(["x", "v"])], element=number, tensors=[tensor])
    if element == "DOUBLE":
        message = refusal(tmp_path, model, NodeError).message
        assert message == "convolutions of f64 are not compiled; f16, bf16 and f32 are"
    else:
        assert refusal(tmp_path, model, ModelError).message == "elements of int16 are not read"


def test_shapes_that_are_not_known(tmp_path):
    nodes = [helper.make_node("Mystery", ["x"], ["m"], domain="com.example"), conv(["m", "w"])]
    model = build(nodes)
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    error = refusal(tmp_path, model, NodeError)
    why = "node 'm' (Mystery): no shape inference for com.example Mystery"
    assert error.message == f"the shape of the input 'm' cannot be inferred: {why}"
    file = tmp_path / "m.onnx"
    known = "these commands know them from the data: convc run"
    assert error.hint == f"{known} {file}, or convc verify {file}, with --input FILE"
    error = refusal(tmp_path, build([conv()], x=(1, 4, "H", "W")), NodeError)
    why = "the input 'x' leaves axes 2 and 3 open"
    assert error.message == f"the shape of the input 'x' is not fixed: (1, 4, ?, ?): {why}"
    assert error.hint == "give the extents (the numbers are examples): --shape x:1x4x224x224"


def test_sparse_weights(tmp_path):
    values = numpy_helper.from_array(np.ones(1, np.float32), "v")
    made = build([conv(["x", "v"])])
    places = numpy_helper.from_array(np.array([7]), "")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [6, 4, 3, 3]))
    error = refusal(tmp_path, made, ModelError)
    assert (error.message, error.hint) == ("sparse initializers are not read", "store the weights as dense tensors")


def test_wrong_numbers_of_inputs(tmp_path):
    error = refusal(tmp_path, build([conv(["x"])]), ConvcError)
    assert "c1" in str(error) or "Conv" in str(error)


def test_several_refusals_are_counted_and_can_be_skipped(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="good"),
        helper.make_node("Conv", ["x", "w"], ["b"], name="bad", group=2),
        helper.make_node("Conv", ["x", "w"], ["y"], name="worse", auto_pad="?"),
    ]
    error = refusal(tmp_path, build(nodes), NodeError)
    assert "'bad'" in error.where
    assert error.hint == "2 of the model's 3 convolutions are refused"
    network = read_model(tmp_path / "m.onnx", skip_refused=True)
    assert [node.name for node in network.convs] == ["good"]
    assert [node.name for node in network.skipped] == ["bad", "worse"]
    assert network.skipped[0].reason.startswith("the input has shape (N, C, H, W) = (1, 4, 8, 8), the weights (K, C/2")
    refusal(tmp_path, build(nodes[1:]), NodeError, skip_refused=True)


def test_constants_that_lie_about_themselves(tmp_path):
    def lying(**changes) -> TensorProto:
        tensor = TensorProto(name="v", data_type=FLOAT, dims=(6, 4, 3, 3), raw_data=bytes(864))
        for name, value in changes.items():
            tensor.ClearField(name)
            if isinstance(value, tuple):
                getattr(tensor, name).extend(value)
            elif value is not None:
                setattr(tensor, name, value)
        return tensor

    for tensor, message in (
        (lying(raw_data=bytes(860)), "shape (6, 4, 3, 3) needs 864 bytes of data, got 860"),
        (lying(raw_data=None), "shape (6, 4, 3, 3) needs 216 elements, got 0"),
        (lying(dims=(6, -4, 3, 3)), "extents must not be negative, got (6, -4, 3, 3)"),
        (lying(data_type=TensorProto.STRING), "elements of string are not read"),
        (lying(data_type=77), "elements of type 77 are not read"),
        (
            lying(data_type=TensorProto.FLOAT16, raw_data=None, dims=(1,), int32_data=(70000,)),
            "16-bit elements must be stored as patterns 0..65535",
        ),
    ):
        error = refusal(tmp_path, build([conv(["x", "v"])], tensors=[tensor]), ModelError)
        assert error.message == message
        assert "tensor 'v'" in error.where


def test_constant_nodes_that_cannot_be_read(tmp_path):
    text = helper.make_node("Constant", [], ["v"], value_string="w")
    assert "'value_string' is not read" in refusal(tmp_path, build([text, conv(["x", "v"])]), ModelError).message
    cast = helper.make_node("Cast", ["w"], ["v"], to=TensorProto.STRING)
    assert "a cast to string is not" in refusal(tmp_path, build([cast, conv(["x", "v"])]), ModelError).message
    loop = [helper.make_node("Identity", ["u"], ["v"]), helper.make_node("Identity", ["v"], ["u"])]
    message = refusal(tmp_path, build([*loop, conv(["x", "v"])]), ModelError).message
    assert message == "the graph has a cycle: 'v', 'u'"


def shape_model(dims, **attributes):
    shape = numpy_helper.from_array(np.array(dims), "s")
    node = helper.make_node("ConstantOfShape", ["s"], ["v"], **attributes)
    return build([node, conv(["x", "v"])], tensors=[shape])


def test_constant_of_shape(tmp_path):
    error = refusal(tmp_path, shape_model([1 << 30, 4, 1 << 10, 3]), LimitError)
    assert error.message.startswith(
        "node 'v' (ConstantOfShape) of shape (1073741824, 4, 1024, 3) needs 48 TiB (52776558133248 bytes) of"
    )
    assert "negative" in refusal(tmp_path, shape_model([6, -1, 3, 3]), ModelError).message
    assert "list of int64" in refusal(tmp_path, shape_model([6.0, 4.0, 3.0, 3.0]), ModelError).message
    two = helper.make_tensor("t", FLOAT, [2], [1, 2])
    assert "one number to fill with" in refusal(tmp_path, shape_model([6, 4, 3, 3], value=two), ModelError).message
    itself = helper.make_node("ConstantOfShape", ["v"], ["v"])
    message = refusal(tmp_path, build([itself, conv(["x", "v"])]), ModelError).message
    assert message == "the graph has a cycle: 'v'"


def test_names_that_are_not_text(tmp_path):
    data = build([conv()]).SerializeToString()
    for good, bad in ((b"c1", b"c\xff"), (b"\x01w", b"\x01\xff"), (b"\x01g", b"\x01\xfe")):
        assert good in data
        error = refusal(tmp_path, data.replace(good, bad), ModelError)
        assert error.message == "a name in the model is not valid UTF-8"
