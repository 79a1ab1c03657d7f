"""Whatever the bytes are, the reader answers with a network or an error of ours."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.examples import some
from support.qdq import qdq_model, qdq_nodes

from convc.errors import ConvcError, ModelError
from convc.frontend.onnx_reader import read_model
from convc.ir.network import Network

MODELS = Path(__file__).resolve().parents[3] / "models"


def computed_constants() -> bytes:
    """A model that uses every way to make a constant, and a Reshape that depends on one."""
    weights = helper.make_tensor("v", TensorProto.FLOAT16, [4, 4, 1, 1], np.arange(16.0))
    fill = helper.make_tensor("f", TensorProto.FLOAT, [1], [0.5])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], value=fill),
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["a", "to"], ["r"]),
        helper.make_node("Constant", [], ["half"], value=weights),
        helper.make_node("Cast", ["half"], ["full"], to=TensorProto.FLOAT),
        helper.make_node("Identity", ["full"], ["same"]),
        helper.make_node("Conv", ["r", "same"], ["y"], auto_pad="SAME_LOWER"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            helper.make_tensor("shape", TensorProto.INT64, [4], [4, 3, 3, 3]),
            helper.make_tensor("to", TensorProto.INT64, [4], [1, 4, 8, -1]),
        ],
    )
    return helper.make_model(graph, ir_version=10).SerializeToString()


QUANTISED = qdq_model(qdq_nodes(helper.make_node("Relu", ["c"], ["r"]))).SerializeToString()
SEEDS = (computed_constants(), (MODELS / "tiny_bf16.onnx").read_bytes(), QUANTISED)


@st.composite
def damaged(draw) -> bytes:
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data) - 1) | st.integers(0, min(200, len(data) - 1)))
        match draw(st.sampled_from(["set", "delete", "insert", "repeat"])):
            case "set":
                data[at] = draw(st.sampled_from([0, 1, 127, 128, 255]) | st.integers(0, 255))
            case "delete":
                del data[at : at + draw(st.integers(1, 4))]
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=4))
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
    return bytes(data[: draw(st.just(len(data)) | st.integers(0, len(data)))])


def check(path: Path, data: bytes, **options) -> None:
    path.write_bytes(data)
    answer = attempt(path, options)
    if isinstance(answer, Network):
        assert answer.convs
    else:
        assert answer.exit_code == 2
        assert str(answer).startswith(f"error[{answer.code}]: ")


def attempt(path: Path, options: dict) -> Network | ConvcError:
    try:
        return read_model(path, **options)
    except ConvcError as error:
        return error


@given(damaged(), st.sampled_from([None, 3]), st.sampled_from([None, "f16", "tf32"]), st.booleans())
@settings(max_examples=some(600), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_models(tmp_path, data, batch, operand, fuse):
    check(tmp_path / "m.onnx", data, batch=batch, operand=operand, fuse=fuse)


@given(st.binary(max_size=200))
@settings(max_examples=some(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes(tmp_path, data):
    check(tmp_path / "m.onnx", data)


def test_every_truncation(tmp_path):
    data = SEEDS[0]
    for length in range(0, len(data), 3):
        check(tmp_path / "m.onnx", data[:length])


def test_deep_nesting(tmp_path):
    """Nodes in graphs in attributes in nodes: protobuf stops at its own depth, and so do we."""

    def field(number: int, content: bytes) -> bytes:
        size, length = len(content), b""
        while size > 127:
            size, length = size >> 7, length + bytes([size & 127 | 128])
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    for depth, message in ((10, "the model has no convolution"), (1000, "not an ONNX model, or cut short")):
        graph = b""
        for _ in range(depth):
            node = field(4, b"If") + field(2, b"y") + field(5, field(1, b"then_branch") + field(6, graph))
            graph = field(1, node)
        path = tmp_path / "m.onnx"
        path.write_bytes(b"\x08\x0a" + field(7, graph) + field(8, b"\x10\x16"))
        with pytest.raises(ModelError, match=message):
            read_model(path)


def test_long_chains_of_identities(tmp_path):
    count = sys.getrecursionlimit() * 2
    nodes = [helper.make_node("Identity", [f"t{i}"], [f"t{i + 1}"]) for i in range(count)]
    nodes.append(helper.make_node("Conv", ["x", f"t{count}"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("t0", TensorProto.FLOAT, [1, 1, 1, 1], [2.0])],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=10).SerializeToString())
    assert read_model(path).convs[0].weight.item() == 2.0
