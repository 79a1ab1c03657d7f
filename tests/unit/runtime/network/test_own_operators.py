"""Operators of the host that `onnx.reference` has otherwise than ONNX: `Scan`, `QuantizeLinear`, `QLinearConv`."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from convc.errors import NodeError
from convc.runtime.network.executor import Graph
from convc.runtime.network.host import HostNodes
from convc.runtime.network.ort_session import open_session, run_session

SCAN = """<ir_version: 8, opset_import: ["": {opset}]>
g ({ins}) => (float[s] last, float[m, n, k] sums) {{
    last, sums = Scan <num_scan_inputs = 2{more}, body = b (float[k] h, float[k] p, float[k] q)
        => (float[k] on, float[k] z) {{
        by = Mul (p, q)
        on = Add (h, by)
        z = Sub (on, q)
    }}> ({names})
}}"""
NEWER = {"opset": 16, "ins": "float[k] h, float[m, n] x, float[l, o] w", "names": "h, x, w"}
OLDER = {"opset": 8, "ins": "int64[b] lengths, float[b, k] h, float[b, m, k] x, float[b, m, k] w"}
RANDOM = np.random.default_rng(3)


def by_onnxruntime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    answer = run_session(open_session(model), feeds)
    assert not isinstance(answer, str), answer
    return answer


def both(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    graph = Graph(model)
    found = graph.run(feeds)
    assert graph.stats.elsewhere == {}
    return found, by_onnxruntime(model, feeds)


@pytest.mark.parametrize("more", [
    "",
    ", scan_input_directions = [1, 0]",
    ", scan_input_axes = [-1, 0]",  # the reference takes the first for 0
    ", scan_input_axes = [1, 1], scan_input_directions = [1, 1], scan_output_axes = [1], scan_output_directions = [1]",
    ", scan_output_axes = [-1]",
])  # fmt: skip
def test_a_scan_goes_along_any_axis_either_way(more):
    model = onnx.parser.parse_model(SCAN.format(more=more, **NEWER))
    feeds = {name: RANDOM.integers(-4, 4, (5, 5)).astype(np.float32) for name in ("x", "w")}
    found, expected = both(model, feeds | {"h": np.arange(5, dtype=np.float32)})
    for name in ("last", "sums"):
        np.testing.assert_array_equal(found[name], expected[name])


def test_a_scan_of_nothing_has_no_pieces():
    model = onnx.parser.parse_model(SCAN.format(more="", **NEWER).replace("float[k] z", "float[5] z"))
    feeds = {name: np.zeros((0, 5), np.float32) for name in ("x", "w")}
    found = Graph(model).run(feeds | {"h": np.ones(5, np.float32)})
    assert found["last"].tolist() == [1] * 5
    assert found["sums"].shape == (0, 5)
    feeds["w"] = np.zeros((2, 5), np.float32)
    with pytest.raises(NodeError, match=r"inputs that are scanned together have one length, got \[0, 2\]"):
        Graph(model).run(feeds | {"h": np.ones(5, np.float32)})


@pytest.mark.parametrize("directions", ["", ", directions = [1, 0]"])
@pytest.mark.parametrize("lengths", [None, [3, 1]])
def test_the_scan_of_operator_set_8_has_a_batch_axis(lengths, directions):
    names = "lengths, h, x, w" if lengths else '"", h, x, w'
    text = SCAN.format(more=directions, names=names, **OLDER).replace("float[s] last", "float[b, k] last")
    text = text if lengths else text.replace("int64[b] lengths, ", "")
    model = onnx.parser.parse_model(text.replace("float[m, n, k] sums", "float[b, m, k] sums"))
    feeds = {name: RANDOM.integers(-4, 4, (2, 3, 4)).astype(np.float32) for name in ("x", "w")}
    feeds["h"] = np.arange(8, dtype=np.float32).reshape(2, 4)
    if lengths:
        feeds["lengths"] = np.array(lengths)
    found, expected = both(model, feeds)
    np.testing.assert_array_equal(found["last"], expected["last"])
    for number, length in enumerate(lengths or [3, 3]):
        np.testing.assert_array_equal(found["sums"][number, :length], expected["sums"][number, :length])
        assert not found["sums"][number, length:].any(), "undefined: here 0"


QUANTIZE = """<ir_version: 10, opset_import: ["": {opset}]>
g ({real}[4, 2] x, {real}[n] scale, {kind}[n] zero) => ({kind}[4, 2] y) {{ y = QuantizeLinear (x, scale, zero) }}"""


@pytest.mark.parametrize(("opset", "real", "kind", "zero"), [
    (10, "float", "uint8", 7),
    (13, "float", "int8", -5),
    (21, "float", "int16", -32768),
    (21, "float16", "uint16", 65535),
    (23, "float16", "int8", 127),
])  # fmt: skip
def test_what_is_far_outside_saturates(opset, real, kind, zero):
    model = onnx.parser.parse_model(QUANTIZE.format(opset=opset, real=real, kind=kind))
    dtype = np.dtype({"float": np.float32, "float16": np.float16}[real])
    x = np.array([2.0, -2.0, 30000, -30000, 60000, -60000, np.inf, -np.inf], dtype).reshape(4, 2)
    scale = np.array([1e-5], dtype)  # 6e4 / 1e-5 is beyond 2^31
    found = Graph(model).run({"x": x, "scale": scale, "zero": np.array([zero], kind)})["y"]
    limits = np.iinfo(kind)
    assert found[1:].tolist() == [[limits.max, limits.min]] * 3
    assert found[0].tolist() == [limits.max, limits.min], "2 / 1e-5 is beyond 2^16"


def test_scales_of_each_channel_still_go_with_theirs():
    text = QUANTIZE.format(opset=13, real="float", kind="uint8")
    feeds = {"x": np.array([[1, 1], [2.5, 3e9], [-1, -3e9], [9, 60]], np.float32)}
    feeds |= {"scale": np.array([1, 0.25], np.float32), "zero": np.array([0, 128], np.uint8)}
    found, expected = both(onnx.parser.parse_model(text), feeds)
    assert found["y"].tolist() == [[1, 132], [2, 255], [0, 0], [9, 255]]
    assert expected["y"].tolist()[0] == [1, 132]


BLOCKED = """<ir_version: 10, opset_import: ["": 21]>
g (float[4, 5] x, float[n, m] scale, int8[n, m] zero) => (int8[4, 5] y)
{{ y = QuantizeLinear <axis = {axis}, block_size = 2> (x, scale, zero) }}"""


@pytest.mark.parametrize(("axis", "blocks"), [(0, (2, 5)), (1, (4, 3)), (-1, (4, 3))])
def test_scales_of_blocks_go_with_theirs(axis, blocks):
    feeds = {"x": RANDOM.integers(-300, 300, (4, 5)).astype(np.float32)}
    feeds |= {"scale": 2.0 ** RANDOM.integers(-2, 3, blocks).astype(np.float32)}
    feeds |= {"zero": RANDOM.integers(-9, 9, blocks).astype(np.int8)}
    found, expected = both(onnx.parser.parse_model(BLOCKED.format(axis=axis)), feeds)
    np.testing.assert_array_equal(found["y"], expected["y"])


def test_too_few_blocks_are_refused():
    feeds = {"x": np.ones((4, 5), np.float32), "scale": np.ones((1, 5), np.float32), "zero": np.zeros((1, 5), np.int8)}
    with pytest.raises(NodeError, match=r"a tensor of shape \(4, 5\) has no scales of \(1, 5\) in blocks of 2, axis 0"):
        Graph(onnx.parser.parse_model(BLOCKED.format(axis=0))).run(feeds)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("channels", [True, False])
def test_weights_have_scales_per_channel_in_any_number_of_dimensions(rank, channels):
    """`onnx.reference` spreads them over images."""
    rng = np.random.default_rng(rank)
    count = 6 if channels else 1
    arrays = {
        "xs": np.float32(0.02),
        "xz": np.uint8(120),
        "w": rng.integers(-127, 128, (6, 2, *(3,) * rank)).astype(np.int8),
        "ws": rng.uniform(0.01, 0.02, count).astype(np.float32),
        "wz": np.zeros(count, np.int8),
        "ys": np.float32(0.1),
        "yz": np.uint8(100),
        "b": rng.integers(-500, 500, 6).astype(np.int32),
    }
    node = onnx.helper.make_node("QLinearConv", ["x", *arrays], ["y"], pads=[1] * 2 * rank, strides=[2] * rank, group=2)
    x = rng.integers(0, 256, (2, 4, *(5,) * rank)).astype(np.uint8)
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x.shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in arrays.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    found = HostNodes(model, {}).build(node, "conv").run({"x": x} | arrays)[0]
    off = found.astype(int) - by_onnxruntime(model, {"x": x})["y"]
    assert found.dtype == np.uint8
    assert np.abs(off).max() <= 1  # near a tie


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_scales_of_few_channels_of_a_line(channels):
    """One scale a channel, in exact numbers: two channels are no case of their own."""
    scales = np.float32([1, 0.5, 0.25])[:channels]
    x = np.uint8([[[1, 2, 3, 4]]])
    w = np.ones((channels, 1, 2), np.uint8)
    one, zero = np.float32(1), np.uint8(0)
    arrays = {
        "xs": one,
        "xz": zero,
        "w": w,
        "ws": scales,
        "wz": np.zeros(channels, np.uint8),
        "ys": one / 4,
        "yz": zero,
    }
    node = onnx.helper.make_node("QLinearConv", ["x", *arrays], ["y"])
    graph = onnx.helper.make_graph([node], "g", [], [])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    (found,) = HostNodes(model, {}, "reference").build(node, "conv").run({"x": x} | arrays)
    assert found.tolist() == [[[int(4 * scale * each) for each in (3, 5, 7)] for scale in scales]]
