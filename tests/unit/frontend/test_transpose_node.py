"""`ConvTranspose` nodes mean what they mean to ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from support.examples import some

from convc.errors import ConvcError, NodeError, ProblemError
from convc.frontend.onnx_reader import read_node
from convc.verification import reference


def runtime(node, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """What ONNX Runtime computes."""
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0]


@st.composite
def nodes(draw):
    """(node, x, w): every attribute, given or left out."""
    rank = draw(st.integers(1, 3))
    kernel, stride, dilation, extent = ([draw(st.integers(1, 3)) for _ in range(rank)] for _ in range(4))
    groups, depth, filters = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    attributes = {"strides": stride, "dilations": dilation, "group": groups, "kernel_shape": kernel}
    attributes = {
        name: value for name, value in attributes.items() if name in ("strides", "group") or draw(st.booleans())
    }
    dilation = attributes.get("dilations", [1] * rank)
    if draw(st.booleans()):
        attributes["output_padding"] = [
            draw(st.integers(0, max(u, d) - 1)) for u, d in zip(stride, dilation, strict=True)
        ]
    match draw(st.sampled_from(["pads", "same", "shape", "valid", "none"])):
        case "pads":
            attributes["pads"] = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
        case "same":
            attributes["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER"]))
        case "shape":
            attributes["output_shape"] = [
                draw(st.integers(max(1, e * u - 2), e * u + 2)) for e, u in zip(extent, stride, strict=True)
            ]
            attributes["auto_pad"] = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER"]))
        case "valid":
            attributes["auto_pad"] = "VALID"
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.integers(-4, 5, (2, groups * depth, *extent)).astype(np.float32)
    w = rng.integers(-4, 5, (groups * depth, filters, *kernel)).astype(np.float32)
    return helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="t", **attributes), x, w


@settings(max_examples=some(200))
@given(nodes())
def test_nodes_mean_what_they_mean_to_onnx_runtime(case):
    node, x, w = case
    try:
        problem = read_node(node, "t", [x, w]).problem
    except ProblemError:  # nothing is left of the output
        assume(False)
    given_most = {a.name: list(a.ints) for a in node.attribute}.get("output_padding", [0] * problem.rank)
    assume(list(problem.output_padding) == given_most)  # ONNX Runtime does not add what is missing
    try:
        expected = runtime(node, x, w)
    except Exception:  # it takes less than ONNX says: output_padding below the stride alone, no pads that crop all
        assume(False)
    assert problem.y_shape == expected.shape
    assert np.array_equal(reference.conv_problem(problem, x, w), expected)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(1, 2, 1), (1, 4, 1), (2, 3, 1), (2, 4, 2), (3, 4, 1)])
def test_same_padding_of_a_filter_shorter_than_its_stride_gives_the_promised_extent(mode, kernel, stride, dilation):
    # ONNX: "pad the input so that output_shape[i] = input_shape[i] * strides[i]", and pads are at least 0. Without pads
    # there are too few pixels; ONNX Runtime leaves it at that, but not where the same extent is said by output_shape.
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (1, 2, 4)).astype(np.float32)
    w = rng.integers(-4, 5, (2, 3, kernel)).astype(np.float32)
    attributes = {"auto_pad": mode, "strides": [stride], "dilations": [dilation]}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="t", **attributes)
    problem = read_node(node, "t", [x, w]).problem
    assert problem.y_shape == (1, 3, 4 * stride)
    said = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes, output_shape=[4 * stride])
    assert np.array_equal(reference.conv_problem(problem, x, w), runtime(said, x, w))


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        ((4, 2), {}, "weights must have shape (C, K/G, [[T,] R,] S), for 1 to 3 spatial axes, got (4, 2)"),
        ((5, 2, 3), {}, "the input has shape (N, C, H, W) = (1, 4, 8), the weights (C, K/G, R, S) = (5, 2, 3): they"),
        ((4, 2, 3), {"group": 3}, "3 groups do not divide the 4 input channels"),
        ((4, 2, 3), {"group": 0}, "group must be at least 1, got 0"),
        ((4, 2, 3), {"output_padding": [1, 1]}, "output_padding must have 1 entries, got (1, 1)"),
        ((4, 2, 3), {"output_shape": [1, 1]}, "output_shape must have 1 entries, got (1, 1)"),
        ((4, 2, 3), {"kernel_shape": [2]}, "kernel_shape is (2,), the weights have (3,)"),
        ((4, 2, 3), {"auto_pad": "SAME"}, "auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got SAME"),
        ((4, 2, 3), {"strides": [0], "auto_pad": "SAME_UPPER"}, "strides must be at least 1, got (0,)"),
        ((4, 2, 3), {"pads": [1, 1], "auto_pad": "VALID"}, "auto_pad VALID says the pads, and the node also says pads"),
        ((4, 2, 3), {"pads": [6, 6]}, "the output has -2 pixels along W: the pads 6 and 6 crop more than there is"),
    ],
)  # fmt: skip
def test_a_wrong_node_is_refused(shape, attributes, message):
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="t", **attributes)
    with pytest.raises(ConvcError) as caught:
        read_node(node, "t", [np.zeros((1, 4, 8), np.float32), np.zeros(shape, np.float32)])
    assert caught.value.message.startswith(message)
    assert "'t'" in caught.value.where
    assert isinstance(caught.value, NodeError | ProblemError)
