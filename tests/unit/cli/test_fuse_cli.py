"""Fused and not: what the commands say, and that both are right."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from convc.build.folder import load_build


@pytest.fixture
def block(tmp_path):
    """A residual block in float16: two 3x3 convolutions with BatchNormalization, SiLU between, Add and Relu behind."""
    rng = np.random.default_rng(0)
    values = {f"w{i}": (rng.normal(size=(24, 24, 3, 3)) / 15).astype(np.float16) for i in (1, 2)}
    for i in (1, 2):
        values |= {
            f"s{i}": rng.uniform(0.5, 2, 24).astype(np.float16),
            f"o{i}": rng.normal(size=24).astype(np.float16),
            f"m{i}": rng.normal(size=24).astype(np.float16),
            f"v{i}": rng.uniform(0.5, 2, 24).astype(np.float16),
        }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "conv1", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["a", "s1", "o1", "m1", "v1"], ["b"], "bn1"),
        helper.make_node("Sigmoid", ["b"], ["g"], "gate"),
        helper.make_node("Mul", ["b", "g"], ["c"], "swish"),
        helper.make_node("Conv", ["c", "w2"], ["d"], "conv2", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["d", "s2", "o2", "m2", "v2"], ["e"], "bn2"),
        helper.make_node("Add", ["e", "x"], ["f"], "add"),
        helper.make_node("Relu", ["f"], ["y"], "relu"),
    ]
    shape = (1, 24, 9, 10)
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, shape)],
        [numpy_helper.from_array(array, name) for name, array in values.items()],
    )
    path = tmp_path / "block.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)
    return path


@pytest.mark.parametrize("schedule", ["auto", "reload", "stationary"])
def test_a_fused_block_is_right(convc, block, schedule):
    said = convc.good("verify", block, "--schedule", schedule)
    assert "fused: conv1 + bn1 + gate + swish" in said
    assert "fused: conv2 + bn2 + add + relu" in said
    assert "then residual, relu" in said
    assert "2 of 2 layers right" in said
    assert "not compiled" not in said


def test_nothing_is_fused_on_demand(convc, block):
    report = json.loads(convc.good("verify", block, "--no-fuse", "--json", "-"))
    assert report["ok"]
    assert [layer["problem"]["epilogue"] for layer in report["layers"]] == [[], []]
    assert len(report["skipped"]) == 6


def test_a_build_knows_what_was_fused(convc, block, tmp_path):
    said = convc.good("compile", block, "-o", tmp_path / "b", "--assemble")
    assert "fused: conv2 + bn2 + add + relu" in said
    record = load_build(tmp_path / "b").record("conv2")
    assert record.fused == ("bn2", "add", "relu")
    assert (record.input.name, record.residual.name, record.output.name) == ("c", "x", "y")
    convc.good("compile", block, "-o", tmp_path / "plain", "--no-fuse")
    assert load_build(tmp_path / "plain").record("conv2").residual is None


def test_inspect_names_the_nodes_and_the_steps(convc, block):
    said = convc.good("inspect", block, "--layer", "conv2", "--full")
    assert "fused        bn2, add, relu" in said
    assert "epilogue.apply_1" in said
    assert "max with 0" in said
    assert "\nfused " not in convc.good("inspect", block, "--layer", "conv2", "--no-fuse")
    assert "fused into convolution 'conv2'" in convc.refused("inspect", block, "--layer", "relu")


def test_a_network_runs_fused_unless_told_not_to(convc, block, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(1, 24, 9, 10)).astype(np.float16))
    outputs = {}
    for words, says in (
        ([], "2 convolutions from PTX with 6 nodes fused into them, 1 buffer handed over"),
        (["--no-fuse"], "2 convolutions from PTX, "),
    ):
        target = tmp_path / f"y{len(words)}.npy"
        said = convc.good("run", block, "--input", tmp_path / "x.npy", "-o", target, *words)
        assert says in said
        assert f"{6 if words else 0} nodes on the host" in said
        outputs[len(words)] = np.load(target).astype(np.float64)
    expected = ReferenceEvaluator(str(block)).run(None, {"x": np.load(tmp_path / "x.npy")})[0].astype(np.float64)
    for y in outputs.values():
        assert np.abs(y - expected).max() < 8 * 2.0**-11 * np.abs(expected).max()
    assert (outputs[0] != outputs[1]).any()
