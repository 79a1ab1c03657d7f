"""Work that has no room is refused before anything is drawn: for what, how much it needs, how much there is."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

SIDE = 1 << 17
"""Of an image of 17 G pixels: 3 channels of them are no array of any machine that tests run on."""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A convolution of 3 channels to 4, 1x1, on one image of ``SIDE`` x ``SIDE``."""
    w = numpy_helper.from_array(np.ones((4, 3, 1, 1), np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="c")
    path = tmp_path_factory.mktemp("large") / "large.onnx"
    graph = helper.make_graph([node], "large", [x], [y], [w])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("words", [("--seed", "1"), ("--input", "x.npy")])
def test_a_layer_that_has_no_room_is_named(convc, build, x, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("convc.support.memory.available_memory", lambda: 20_000)
    said = convc.refused("run", build, *words, "-o", "y.npy")
    assert "running layer 'conv' (x 1x16x12x12, y 1x24x12x12) needs " in said
    assert ", and 19.5 KiB are available" in said
    assert not (tmp_path / "y.npy").exists()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("verify", "running layer 'c' (x 1x3x{0}x{0}, y 1x4x{0}x{0})"),
        ("verify --sample 2", "a sample of 'c' (x 1x3x{0}x{0}, y 1x4x{0}x{0})"),
        ("verify --reweight 1", "the input 'x' of shape 1x3x{0}x{0}"),
        ("run --seed 1", "the input 'x' of shape 1x3x{0}x{0}"),
        ("time", "timing 'c'"),
        ("report -o r.html", "timing 'c'"),
    ],
)
def test_what_has_no_room_is_named(convc, large, tmp_path, monkeypatch, words, what):
    monkeypatch.chdir(tmp_path)
    verb, *options = words.split()
    said = convc.refused(verb, large, *options)
    assert said.startswith(f"error[C300]: {what.format(SIDE)} needs ")
    assert re.search(r"\(\d{12,} bytes\)|unable to allocate \S+ [GT]iB for an array with shape", said)
    assert re.search(r", and \S+ [A-Z]iB are available\n", said)
    assert "use a smaller batch or image" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pad", [1 << 45, (1 << 63) - 1])
def test_padding_that_no_array_can_have_is_named(convc, tmp_path, pad):
    """The kernel skips the filter column that meets nothing else; the reference is written from the definition."""
    w = numpy_helper.from_array(np.ones((16, 8, 1, 2), np.float16), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 8, 5, 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="wide", dilations=[1, pad], pads=[0, 0, 0, pad])
    graph = helper.make_graph([node], "g", [x], [y], [w])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    said = convc.refused("verify", tmp_path / "m.onnx")
    assert "error[C300]: the reference of 'wide' needs more memory than there is: unable to allocate" in said


def test_a_node_of_the_host_is_named_with_its_inputs(convc, tmp_path):
    count = helper.make_node("Constant", [], ["n"], value_ints=[1, 1, SIDE, SIDE])
    tile = helper.make_node("Tile", ["x", "n"], ["y"], name="much")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 9, 9])
    graph = helper.make_graph([count, tile], "g", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    said = convc.refused("run", tmp_path / "m.onnx", "--seed", "1", "-o", tmp_path / "y.npy")
    assert re.search(r"error\[C300\]: 'y' of node 'much' \(Tile\) needs .*TiB .*of memory, and .* are available", said)
    assert "use a smaller" in said
