"""``convc survey``: a line for each model of a folder, whatever becomes of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import jsonschema
import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

import convc
from convc.api import surveying
from convc.cli.main import main
from convc.support.resources import model_folder, schema_file
from convc.verification.survey import REFUSED, RIGHT, UNFINISHED, WRONG


def survey(*words: object) -> Result:
    return CliRunner().invoke(main, ["survey", *map(str, words)], prog_name="convc")


def model(nodes: list[onnx.NodeProto], x: list[int | str], constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, x)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [given], [made], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def folder(tmp_path):
    """Models of every verdict but wrong, one of them in a folder of its own."""
    shutil.copy(model_folder() / "tiny_two_convs.onnx", tmp_path / "right.onnx")
    (tmp_path / "damaged.onnx").write_bytes(b"no model")
    (tmp_path / "deep").mkdir()
    relu = helper.make_node("Relu", ["x"], ["y"])
    onnx.save(model([relu], ["batch", 3, "height", 5], {}), tmp_path / "deep" / "none.onnx")
    (tmp_path / "notes.txt").write_text("not a model")
    return tmp_path


def test_each_model_has_a_line(folder):
    done = survey(folder, "--json", folder / "report.json", "--markdown", folder / "report.md", "--extent", 4)
    assert done.exit_code == 0, done.output
    report = json.loads((folder / "report.json").read_text())
    schema = json.loads(schema_file("convc-survey/1").read_text("utf-8"))
    jsonschema.validate(report, schema, cls=jsonschema.Draft202012Validator)
    lines = {line["file"]: line for line in report["models"]}
    assert {file: line["verdict"] for file, line in lines.items()} == {
        "damaged.onnx": REFUSED,
        "deep/none.onnx": RIGHT,
        "right.onnx": RIGHT,
    }
    right = lines["right.onnx"]
    assert (right["convolutions"], right["verified"], right["outputs"], right["outputs_right"]) == (2, 2, 1, 1)
    assert right["oracle"].startswith("onnxruntime")
    assert set(right["seconds"]) == {"list", "verify", "run"}
    assert lines["deep/none.onnx"]["convolutions"] == 0
    assert "damaged.onnx" in lines["damaged.onnx"]["problem"]
    table = (folder / "report.md").read_text().splitlines()
    assert [row.split("|")[1].strip() for row in table[2:]] == sorted(lines)


def test_the_page_ends_with_the_counts(folder):
    done = survey(folder / "right.onnx")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "1 model: 1 right, 0 wrong, 0 refused, 0 unfinished"


def test_a_model_that_takes_too_long_costs_its_own_line(folder):
    report = convc.survey(folder / "right.onnx", limit=0.01)
    assert [(line.verdict, line.problem) for line in report.models] == [(UNFINISHED, "not finished within 0.01 s")]
    assert report.ok


def steps(monkeypatch, **made: Callable[..., object]) -> surveying.SurveyedModel:
    """A line whose steps are those of the tiny model, but for some: ``verify`` of layers, ``run`` of the network."""
    real = surveying.verify

    def verify(*given: object, **options: object) -> object:
        return made.get("run" if "feeds" in options else "verify", real)(*given, **options)

    monkeypatch.setattr(surveying, "verify", verify)
    task = surveying._Task(
        file=model_folder() / "tiny_conv.onnx",
        name="tiny_conv.onnx",
        seed=0,
        sample=None,
        extent=8,
        host="reference",
        read=convc.ReadOptions(),
        cache=False,
    )
    return surveying._look_at(task)


def raising(error: Exception):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_wrong_layer_outlives_a_step_that_is_right(monkeypatch):
    layer = surveying.verify(model_folder() / "tiny_conv.onnx").layers[0]

    class Wrong:
        ok = False
        name = layer.name
        verdict = "WRONG"

    class Report:
        layers = (Wrong,)
        count_right = 0

    line = steps(monkeypatch, verify=lambda *_, **__: Report)
    assert (line.verdict, line.verified, line.outputs_right, line.problem) == (WRONG, 0, 1, "conv: WRONG")


def test_a_mistake_of_our_own_is_wrong_and_no_traceback(monkeypatch):
    line = steps(monkeypatch, run=raising(ZeroDivisionError("by zero")))
    assert (line.verdict, line.verified) == (WRONG, 1)
    assert line.problem == "an error in convc: ZeroDivisionError: by zero"


def test_a_kernel_that_faults_is_wrong_and_a_model_that_is_not_taken_is_refused(monkeypatch):
    fault = steps(monkeypatch, run=raising(convc.errors.MachineFault("reads outside")))
    assert fault.verdict == WRONG
    refused = steps(monkeypatch, run=raising(convc.errors.NodeError("no such node")))
    assert refused.verdict == REFUSED


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "there is no such file or folder"),
        (["."], "no .onnx file here"),
        ([".", "--limit", "0"], "--limit"),
        ([".", "--extent", "0"], "--extent"),
    ],
)
def test_mistakes_are_said(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = survey(*words)
    assert done.exit_code == 2
    assert said in done.output


def test_open_axes_are_guessed_and_named_ones_follow_the_batch():
    from convc.frontend.input_shapes import guessed_shapes

    def value(name: str, *dims: int | str | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

    inputs = [value("a", "n", 3, "h", None), value("b", 2, "n"), value("c", 1, 2), value("d", None, 5)]
    assert guessed_shapes(inputs, {"d": (7, 5)}, 16) == {"a": (1, 3, 16, 16), "b": (2, 1), "d": (7, 5)}
