"""Reports to files and to stdout: JSON of every command, the verify table as Markdown and CSV, several models."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.kernel_edits import ONE_ULP, edited
from support.schedules import RELOAD_ONLY

from convc.compiler import kernels
from convc.ir.launch import KernelArtifact
from convc.support.resources import model_folder


@pytest.fixture
def bf16():
    """A bfloat16 model."""
    return model_folder() / "tiny_bf16.onnx"


@pytest.fixture
def wrong(monkeypatch):
    """Every kernel doubles one output channel of each tile."""
    compile_problem = kernels.compile_problem

    def off(problem, options):
        compiled = compile_problem(problem, options=RELOAD_ONLY)
        text = edited(compiled.artifact.ptx, ONE_ULP[0], r"\1 mul.rn.f32 %v1, %v1, 0f40000000;")
        artifact = KernelArtifact(ptx=text, launch=compiled.artifact.launch)
        return dataclasses.replace(compiled, artifact=artifact)

    monkeypatch.setattr(kernels, "compile_problem", off)


# ---- tables -------------------------------------------------------------------------------------------------


def cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown_is_the_table_of_the_terminal(convc, two, tmp_path):
    said = convc.good("verify", two, "--wide", "--markdown", tmp_path / "t.md")
    written = (tmp_path / "t.md").read_text()
    head, rule, *rows, empty, total = written.splitlines()
    assert cells(head)[:4] == ["layer", "convolution", "type", "schedule"]
    assert cells(head)[-1] == "verdict"
    assert all(re.fullmatch(r":?-+:?", cell) for cell in cells(rule))
    assert {len(cells(line)) for line in (head, rule, *rows)} == {17}
    assert [cells(row)[0] for row in rows] == ["stem", "head"]
    for row in rows:
        for cell in cells(row):
            assert cell in said
        assert cells(row)[-1] == "exact, in bound"
    assert empty == ""
    assert total == said.splitlines()[-2]


def test_csv_has_plain_numbers(convc, two):
    said = convc.good("verify", two, "--csv", "-")
    report = json.loads(convc.good("verify", two, "--json", "-"))
    rows = list(csv.DictReader(io.StringIO(said)))
    assert [row["layer"] for row in rows] == ["stem", "head"]
    for row, layer in zip(rows, report["layers"], strict=True):
        assert None not in row.values()
        assert row["model"] == report["source"]
        assert int(row["ctas"]) == layer["counters"]["ctas"]
        assert int(row["mmas"]) == layer["counters"]["mma"]
        assert int(row["activation_bytes"]) == layer["counters"]["tma_loads"]["activation"]["bytes"]
        assert int(row["filter_bytes"]) == layer["counters"]["tma_loads"]["filter"]["bytes"]
        normal = layer["checks"][1]["comparison"]
        assert float(row["worst_error"]) == abs(normal["got"] - normal["expected"]) <= normal["worst_error"]
        assert float(row["worst_ratio"]) == normal["worst_ratio"]
        assert float(row["seconds"]) > 0
        assert (row["integer"], row["normal"], row["ok"]) == ("exact", "in bound", "true")
    assert (rows[0]["kernel"], rows[0]["stride"], rows[0]["in_extent"]) == ("5x5", "2x2", "16x16")
    assert (rows[0]["operand"], rows[0]["out"], rows[0]["schedule"]) == ("tf32", "f32", "reload")


def test_wrong_layers_are_in_every_form(convc, tiny, tmp_path, wrong):
    files = [tmp_path / name for name in ("t.md", "t.csv", "t.json")]
    result = convc("verify", tiny, "--markdown", files[0], "--csv", files[1], "--json", files[2])
    assert result.exit_code == 1
    assert "WRONG" in cells(files[0].read_text().splitlines()[2])[-1]
    (row,) = csv.DictReader(io.StringIO(files[1].read_text()))
    assert row["ok"] == "false"
    assert "WRONG" in row["integer"]
    assert json.loads(files[2].read_text())["ok"] is False


def test_names_of_strangers_stay_in_their_cell(convc, tiny, tmp_path):
    model = onnx.load(tiny)
    model.graph.node[0].name = 'a|b,"c"\nd\\'
    onnx.save(model, tmp_path / "m.onnx")
    convc.good("verify", tmp_path / "m.onnx", "--markdown", tmp_path / "t.md", "--csv", tmp_path / "t.csv")
    lines = (tmp_path / "t.md").read_text().splitlines()
    assert len(lines) == 5
    assert cells(lines[2])[0] == 'a|b,"c" d\\\\'
    assert len(cells(lines[2])) == 17
    (row,) = csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text()))
    assert row["layer"] == 'a|b,"c" d\\'


def test_names_of_strangers_are_no_commands_to_whoever_shows_them(convc, tiny, tmp_path):
    """Neither to a terminal, by escape sequences in CSV, nor to a browser, by HTML or a link in Markdown."""
    model = onnx.load(tiny)
    model.graph.node[0].name = "\x1b[31m<img src=x onerror=alert(1)>[a](javascript:b)`"
    onnx.save(model, tmp_path / "m.onnx")
    convc.good("verify", tmp_path / "m.onnx", "--markdown", tmp_path / "t.md", "--csv", tmp_path / "t.csv")
    table = (tmp_path / "t.md").read_text()
    assert "\\[31m&lt;img src=x onerror=alert(1)>\\[a\\](javascript:b)\\`" in table
    assert "<img" not in table
    assert "\x1b" not in table + (tmp_path / "t.csv").read_text()
    (row,) = csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text()))
    assert row["layer"].startswith("\\x1b[31m<img src=x")


# ---- several models -----------------------------------------------------------------------------------------


def test_several_models_each_get_a_table(convc, tiny, two, bf16, tmp_path):
    files = [tmp_path / name for name in ("t.md", "t.csv", "t.json")]
    said = convc.good("verify", tiny, two, bf16, "--markdown", files[0], "--csv", files[1], "--json", files[2])
    places = [said.index(f"== {model} ==") for model in (tiny, two, bf16)]
    assert places == sorted(places)
    assert said.count("layers right") == 3
    report = json.loads(files[2].read_text())
    assert report["format"] == "convc-verify-models/2"
    assert report["ok"] is True
    assert [entry["model"] for entry in report["models"]] == [str(tiny), str(two), str(bf16)]
    assert [len(entry["layers"]) for entry in report["models"]] == [1, 2, 1]
    assert len(list(csv.DictReader(io.StringIO(files[1].read_text())))) == 4
    text = files[0].read_text()
    assert [line for line in text.splitlines() if line.startswith("### ")] == [
        f"### {entry['source']}" for entry in report["models"]
    ]


def test_a_model_that_cannot_be_read_does_not_stop_the_others(convc, tiny, two, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    result = convc("verify", tiny, tmp_path / "bad.onnx", two, "--json", tmp_path / "r.json")
    assert result.exit_code == 2
    assert "error[O100]" in result.stderr
    assert "bad.onnx" in result.stderr
    assert result.stdout.count("layers right") == 2
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["ok"] is False
    assert [entry["ok"] for entry in report["models"]] == [True, False, True]
    assert "error[O100]" in report["models"][1]["error"]


def test_a_wrong_layer_of_one_model_is_exit_code_1(convc, tiny, two, wrong):
    assert convc("verify", tiny, two).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--layer", "conv"), "--layer names a layer of one model"),
        (("--annotate", "out.onnx"), "--annotate copies one model"),
    ],
)
def test_what_is_of_one_model_is_refused_for_two(convc, tiny, two, arguments, words):
    assert words in convc.refused("verify", tiny, two, *arguments)


def test_no_model_is_a_bad_call(convc):
    assert "Missing argument 'MODEL...'" in convc.refused("verify")


# ---- where reports go ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--json", "--markdown", "--csv"])
def test_a_report_that_cannot_be_written_is_refused_before_the_work(convc, tiny, tmp_path, option):
    said = convc.refused("verify", tiny, option, tmp_path / "no" / "file")
    assert "the folder to write to does not exist" in said
    assert "this is a folder" in convc.refused("verify", tiny, option, tmp_path)


def test_only_one_report_goes_to_stdout(convc, tiny):
    said = convc.refused("verify", tiny, "--markdown", "-", "--csv", "-")
    assert "only one report can go to stdout" in said


def outputs(convc, *arguments) -> tuple[dict, str]:
    """The JSON on stdout, and what people are told on stderr."""
    result = convc(*arguments, "--json", "-")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


def test_compile_as_json(convc, two, tmp_path):
    report, told = outputs(convc, "compile", two, "-o", tmp_path / "b")
    assert "2 layers, 2 kernels" in told
    assert report["format"] == "convc-compile/1"
    assert report["folder"] == str(tmp_path / "b")
    assert [layer["name"] for layer in report["layers"]] == ["stem", "head"]
    assert {layer["kernel"] for layer in report["layers"]} == report["kernels"].keys()
    for kernel in report["kernels"].values():
        launch = json.loads(Path(kernel["file"]).with_name("launch.json").read_text())
        assert kernel["grid"] == launch["grid"]
        assert kernel["shared_bytes"] == launch["shared_bytes"]
        assert kernel["assembled"] is None
    assert report["skipped"] == []
    assert [layer["fused"] for layer in report["layers"]] == [["relu"], []]


def test_compile_as_json_with_what_ptxas_says(convc, tiny, tmp_path):
    report, told = outputs(convc, "compile", tiny, "-o", tmp_path / "b", "--assemble")
    (kernel,) = report["kernels"].values()
    assert kernel["assembled"]["spill_bytes"] == 0
    assert kernel["assembled"]["registers"] > 16
    assert "registers" in told


def test_run_as_json(convc, build, x, tmp_path):
    report, told = outputs(convc, "run", build, "--input", x, "-o", tmp_path / "y.npy")
    assert "wrote" in told
    y = np.load(tmp_path / "y.npy")
    assert report["format"] == "convc-run/1"
    assert report["layer"] == "conv"
    assert report["output"] == {"file": str(tmp_path / "y.npy"), "dtype": "float16", "shape": list(y.shape)}
    assert report["counters"]["mma"] > 0
    assert report["seconds"] > 0
    assert report["findings"] == []


def test_check_as_json_and_as_sarif(convc, build):
    report, told = outputs(convc, "check", build)
    assert (report["format"], report["findings"], report["ok"]) == ("convc-check/1", [], True)
    assert "conv: clean, nothing found" in told
    result = convc("check", build, "--sarif", "-")
    assert json.loads(result.stdout)["version"] == "2.1.0"
    assert "only one report" in convc("check", build, "--sarif", "-", "--json", "-").stderr


def test_inspect_as_json(convc, tiny):
    for call, format, says in (
        ((), "convc-layers/1", ""),
        (("--layer", "conv"), "convc-inspect/1", "wrote -: plan and estimate of conv"),
        (("--layer", "conv", "--lanes"), "convc-lanes/1", "wrote -: tile 0"),
    ):
        report, told = outputs(convc, "inspect", tiny, *call)
        assert report["format"] == format
        assert says in told


def test_explain_as_json(convc, tmp_path):
    everything, told = outputs(convc, "explain")
    assert told == ""
    listed = [entry["code"] for entry in everything["codes"]]
    lines = convc.good("explain").splitlines()
    assert len(listed) == sum(line.startswith("  ") for line in lines)
    assert "W100" in listed
    one, _ = outputs(convc, "explain", "P100")
    assert one["codes"] == [entry for entry in everything["codes"] if entry["code"] == "P100"]
    assert "P100: PtxSyntaxError" in convc.good("explain", "P100", "--json", tmp_path / "e.json")
    assert json.loads((tmp_path / "e.json").read_text()) == one


def test_a_bfloat16_result_is_reported_as_what_the_file_holds(convc, bf16, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 8, 10, 9), np.float32))
    assert convc("compile", bf16, "-o", tmp_path / "b").exit_code == 0
    for source, key in ((tmp_path / "b", "output"), (bf16, "outputs")):
        report, _ = outputs(convc, "run", source, "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
        told = report[key] if key == "output" else report[key][0]
        assert told["dtype"] == np.load(tmp_path / "y.npy").dtype.name == "float32"


def test_two_reports_need_two_files(convc, tiny, tmp_path):
    same = tmp_path / "same"
    for second in ("--csv", "--annotate"):
        assert "two reports have the same file name" in convc.refused("verify", tiny, "--json", same, second, same)
    assert not same.exists()
