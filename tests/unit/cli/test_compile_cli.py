"""``convc compile``: what it prints, what it refuses, and that a refused call leaves nothing behind."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from convc.errors import PlanError


def model_of(path, nodes, weights=(), x_shape=(1, 4, 8, 8), y_shape=None):
    """Write a float32 model with one input ``x`` and one output ``y``."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y_shape)],
        [onnx.numpy_helper.from_array(np.asarray(w, np.float32), n) for n, w in weights],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)
    return path


def conv(weight=(8, 4, 3, 3), x_shape=(1, 4, 8, 8), **attributes):
    """Nodes, weights and input shape of a model of one Conv called ``c``."""
    return {
        "nodes": [helper.make_node("Conv", ["x", "w"], ["y"], name="c", **attributes)],
        "weights": [("w", np.zeros(weight))],
        "x_shape": x_shape,
    }


def test_the_report_lists_layers_notes_and_what_was_left_out(convc, two, tmp_path):
    said = convc.good("compile", two, "-o", tmp_path / "b")
    assert "stem" in said
    assert "1x3x16x16 * 16x5x5, stride 2, pad 1,1,2,2 -> 8x8" in said
    assert "the 5 columns of a filter row are folded into K" in said
    assert "fused: stem + relu" in said
    assert "2 layers, 2 kernels" in said
    assert os.listdir(tmp_path) == ["b"]


def test_one_layer_another_type_and_the_cubin(convc, two, tmp_path):
    said = convc.good(
        "compile", two, "-o", tmp_path / "b", "--layer", "head", "--dtype", "bf16", "--assemble", "--wide"
    )
    assert "bf16 -> f32" in said
    assert "registers" in said
    (cubin,) = (tmp_path / "b").glob("kernels/*/kernel.cubin")
    assert cubin.read_bytes()[:4] == b"\x7fELF"
    row = next(line for line in said.splitlines() if line.startswith(cubin.parent.name)).split()
    assert 1 <= int(row[1]) <= 255
    assert int(row[3]) > 0


def test_batch_fills_an_open_batch(convc, tmp_path):
    model = model_of(tmp_path / "m.onnx", **conv(x_shape=("n", 4, 8, 8)))
    assert "1x4x8x8" in convc.good("compile", model, "-o", tmp_path / "b")
    assert "3x4x8x8" in convc.good("compile", model, "-o", tmp_path / "b", "--batch", 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'MODEL'"),
        (("m.onnx",), "Missing option '-o'"),
        (("m.onnx", "-o", "b", "--dtype", "f64"), "'f64' is not one of"),
        (("m.onnx", "-o", "b", "--batch", "-1"), "-1 is not in the range"),
        (("m.onnx", "-o", "b", "--layers", "c"), "No such option"),
    ],
)
def test_a_bad_call_is_refused(convc, arguments, message):
    assert message in convc.refused("compile", *arguments)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file or folder"),
        (b"", "error[O100]"),
        (b"this is not a model at all", "error[O100]"),
        ("half", "error[O100]"),
    ],
)
def test_a_file_that_is_no_model_is_refused(convc, tiny, tmp_path, content, message):
    path = tmp_path / "m.onnx"
    whole = tiny.read_bytes()
    if content is not None:
        path.write_bytes(whole[: len(whole) // 2] if content == "half" else content)
    said = convc.refused("compile", path, "-o", tmp_path / "b")
    assert message in said
    assert "m.onnx" in said
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"nodes": [helper.make_node("Relu", ["x"], ["y"])]}, "no convolution"),
        (conv(weight=(8, 2, 3, 3), group=3), "C/3"),
        (conv(weight=(8, 4, 3), x_shape=(1, 5, 8)), "'c'"),
        (conv(weight=(8, 4, 9, 9)), "no pixel"),
        (conv(x_shape=(1, 4, "h", 8)), "not fixed"),
        (conv(x_shape=(1, 2**31, 2**31, 8), weight=(8, 1, 1, 1)), "'c'"),
        (conv(weight=(8, 4, 1, 1), x_shape=(2**40, 4, 8, 8)), "error["),
    ],
)
def test_a_convolution_that_cannot_be_compiled_is_named(convc, tmp_path, parts, message):
    path = model_of(tmp_path / "m.onnx", **parts)
    assert message in convc.refused("compile", path, "-o", tmp_path / "b")
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_one_layer_compiles_although_another_cannot(convc, tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], name="good"),
        helper.make_node("Conv", ["h", "v"], ["y"], name="grouped", group=3),
    ]
    weights = [("w", np.zeros((8, 4, 3, 3))), ("v", np.zeros((8, 4, 1, 1)))]
    model = model_of(tmp_path / "m.onnx", nodes, weights)
    assert "'grouped'" in convc.refused("compile", model, "-o", tmp_path / "b")
    said = convc.refused("compile", model, "-o", tmp_path / "b", "--layer", "grouped")
    assert "error[O200]" in said
    assert "group" in said
    said = convc.good("compile", model, "-o", tmp_path / "b", "--layer", "good")
    assert "1 layer, 1 kernel" in said


def test_weights_that_are_drawn_are_refused_with_the_node(convc, tmp_path):
    parts = conv()
    parts["nodes"].insert(0, helper.make_node("RandomNormalLike", ["w0"], ["w"]))
    parts["weights"] = [("w0", np.zeros((8, 4, 3, 3)))]
    said = convc.refused("compile", model_of(tmp_path / "m.onnx", **parts), "-o", tmp_path / "b")
    assert "must be constant" in said
    assert "'c'" in said


def test_external_data_outside_the_folder_is_refused(convc, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    path = model_of(folder / "m.onnx", **conv())
    (tmp_path / "secret.bin").write_bytes(bytes(4 * 8 * 4 * 9))
    model = onnx.load(path)
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../secret.bin")
    path.write_bytes(model.SerializeToString())
    assert "secret.bin" in convc.refused("compile", path, "-o", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_an_unknown_layer_lists_the_layers(convc, two, tmp_path):
    said = convc.refused("compile", two, "-o", tmp_path / "b", "--layer", "tail")
    assert "no layer 'tail'" in said
    assert "stem, head" in said


def test_a_folder_with_other_files_is_refused_before_any_work(convc, tiny, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    said = convc.refused("compile", tiny, "-o", tmp_path)
    assert "holds 'notes.txt'" in said
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_without_ptxas_assemble_is_refused_and_nothing_is_written(convc, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("CONVC_PTXAS", str(tmp_path / "none"))
    said = convc.refused("compile", tiny, "-o", tmp_path / "b", "--assemble")
    assert "error[T100]" in said
    assert os.listdir(tmp_path) == []


def test_an_assembler_that_refuses_leaves_nothing(convc, tiny, tmp_path, monkeypatch):
    script = tmp_path / "ptxas"
    script.write_text('#!/bin/sh\necho "ptxas x, line 3; error   : I don\'t like it" >&2; exit 1\n')
    script.chmod(0o755)
    monkeypatch.setenv("CONVC_PTXAS", str(script))
    assert "I don't like it" in convc.refused("compile", tiny, "-o", tmp_path / "b", "--assemble")
    assert os.listdir(tmp_path) == ["ptxas"]


def test_a_folder_that_may_not_be_written_is_refused(convc, tiny, tmp_path):
    (tmp_path / "file").write_text("")
    assert "error[I100]" in convc.refused("compile", tiny, "-o", tmp_path / "file" / "b")


def test_layers_by_pattern_and_several(convc, two, tmp_path):
    assert "head" not in convc.good("compile", two, "-o", tmp_path / "one", "--layer", "st*")
    said = convc.good("compile", two, "-o", tmp_path / "both", "--layer", "head", "--layer", "stem")
    assert "stem" in said
    assert "head" in said
    convc.good("check", tmp_path / "both", "--layer", "s*", "--layer", "h*")


def test_a_layer_that_is_nearly_right(convc, two, tmp_path):
    assert "did you mean 'stem'?" in convc.refused("compile", two, "-o", tmp_path / "b", "--layer", "stm")
    assert "did you mean 'stem'?" in convc.refused("inspect", two, "--layer", "stm")
    assert "matches 2 layers, expected one" in convc.refused("inspect", two, "--layer", "*e*")


def test_the_plan_and_the_estimate_are_in_the_json(convc, two, tmp_path):
    build = convc.good("compile", two, "-o", tmp_path / "b", "--json", tmp_path / "c.json", "--schedule", "reload")
    data = json.loads((tmp_path / "c.json").read_text())
    for kernel in data["kernels"].values():
        assert kernel["estimate"]["schedule"] == kernel["plan"]["schedule"]["name"] == "reload"
        assert kernel["estimate"]["cycles"] == kernel["plan"]["estimate"]["cycles"]
        assert kernel["estimate"]["microseconds"] == pytest.approx(kernel["estimate"]["cycles"] / 1850)
        assert 0 < kernel["estimate"]["peak_share"] < 1
        assert str(round(kernel["estimate"]["cycles"])) in build


def test_the_next_command_works_as_printed(convc, two, tmp_path):
    said = convc.good("verify", two, "--layer", "head", "--schedule", "reload", "--precision", "bf16x3")
    command = said.splitlines()[-1]
    assert command == f"next: convc inspect {two} --layer head --precision bf16x3 --schedule reload"
    assert "bf16x3" in convc.good(*command.split()[2:])


def test_a_schedule_that_auto_could_not_take_is_said(convc, two, tmp_path, monkeypatch):
    from convc.compiler.emit import kernel

    emit = kernel.emit

    preferred: list[str] = []

    def failing(program):
        preferred.append(program.schedule)
        if program.schedule == preferred[0]:
            raise PlanError("too long to write down")
        return emit(program)

    monkeypatch.setattr(kernel, "emit", failing)
    options = ("--columns", "off", "--store", "direct")
    said = convc.good("compile", two, *options, "-o", tmp_path / "b", "--json", tmp_path / "c.json")
    assert re.search(rf"^  head: (\w| )+ in place of {preferred[0]}: too long to write down$", said, re.M)
    kernels = json.loads((tmp_path / "c.json").read_text())["kernels"].values()
    assert {"too long to write down"} == {each["reason"] for made in kernels for each in made["estimate"]["fell_back"]}
