"""The nine models that come with the onnx package: 401 convolutions, of which all but the grouped ones are read."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from convc.frontend.onnx_reader import read_model

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

MODELS = {
    "bvlc_alexnet": (5, 3),
    "densenet121": (121, 0),
    "inception_v1": (57, 0),
    "inception_v2": (69, 0),
    "resnet50": (53, 0),
    "shufflenet": (49, 48),
    "squeezenet": (26, 0),
    "vgg19": (16, 0),
    "zfnet512": (5, 0),
}
"""Convolutions, and how many of them are grouped."""


def test_the_table_is_complete():
    assert {path.stem.removeprefix("light_") for path in LIGHT.glob("*.onnx")} == set(MODELS)
    assert sum(count for count, _ in MODELS.values()) == 401


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("batch", [None, 2])
def test_light_model(name, batch):
    path = LIGHT / f"light_{name}.onnx"
    count, grouped = MODELS[name]
    if name == "shufflenet" and batch:  # it reshapes to batch 1, between its groups
        network = read_model(path, batch=batch)
        left_out = [node for node in network.skipped if node.op_type == "Conv"]
        assert len(network.convs) + len(left_out) == count
        assert "node 'n15' (Concat): ONNX's shape inference refuses it" in left_out[0].reason
        assert "leave --batch and --shape out" in left_out[0].reason
        return
    network = read_model(path, batch=batch)
    assert len(network.convs) == count
    assert sum(node.problem.groups > 1 for node in network.convs) == grouped
    assert not any(node.op_type == "Conv" for node in network.skipped)
    assert {node.problem.batch for node in network.convs} == {batch or 1}
    graph = onnx.load(path).graph
    assert len(network.skipped) + len(network.convs) == len(graph.node)
    for node in network.convs:
        assert node.weight.shape == node.problem.w_shape
        assert node.weight.min() == node.weight.max(), "these models fill each weight with one number"
