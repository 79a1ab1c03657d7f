"""Every JSON that a command writes has a shipped schema, which is made from the types, and fits it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner, Result

from convc import __version__
from convc.cli.main import main
from convc.explain.lane_tables import lanes_record
from convc.report.schemas import READ, WRITTEN, read_schema, written_schema
from convc.support.resources import PACKAGE, SCHEMAS, model_folder, schema_file
from convc.timing.kernel import KernelTime

SAXPY = Path(__file__).parents[2] / "foreign" / "saxpy"
PROBED = Path(__file__).parents[2] / "recordings" / "probes_h100.json"
FORMAT = re.compile(r"\"(convc-[a-z-]+/\d+)\"")
UNWRITTEN = {
    "convc-launch/1", "convc-build/4", "convc-launched/1", "convc-probed/1", "convc-record/1", "convc-tuning/1",
}  # fmt: skip
"""Files that are read, and what needs a GPU (tests/unit/gpu tries it with a driver that only notes) or a C compiler."""


def made(format: str) -> dict:
    """The schema of a format, as the types have it now."""
    if format in READ:
        return read_schema(format)
    record = lanes_record if format == "convc-lanes/1" else WRITTEN[format]
    return written_schema(format, record())


ALL = sorted({*WRITTEN, *READ, "convc-lanes/1"})


@pytest.mark.parametrize("format", ALL)
def test_the_shipped_schema_is_made_from_the_types(format, request):
    text = json.dumps(made(format), indent=1, sort_keys=True) + "\n"
    if request.config.getoption("--update-golden"):
        schema_file(format).write_text(text, "utf-8")
    assert schema_file(format).read_text("utf-8") == text, "run this test with --update-golden"
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_every_format_in_the_sources_has_a_schema():
    texts = [
        path.read_text("utf-8") for room in ("report", "cli", "explain") for path in (PACKAGE / room).rglob("*.py")
    ]
    assert {found for text in texts for found in FORMAT.findall(text)} == set(ALL)
    assert {path.name for path in SCHEMAS.iterdir()} == {schema_file(format).name for format in ALL}


def convc(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], prog_name="convc")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a build, good and bad models, an input, a kernel that is good and two that are not."""
    folder = tmp_path_factory.mktemp("schemas")
    tiny = model_folder() / "tiny_conv.onnx"
    shutil.copy(tiny, folder / "m.onnx")
    (folder / "bad.onnx").write_bytes(b"no model")
    assert convc("compile", tiny, "-o", folder / "b").exit_code == 0
    shutil.copytree(folder / "b", folder / "racy")
    (ptx,) = (folder / "racy").glob("kernels/*/kernel.ptx")
    ptx.write_text("".join(line for line in ptx.read_text().splitlines(True) if "tcgen05.wait::ld" not in line))
    np.save(folder / "x.npy", np.ones((1, 16, 12, 12), np.float16))
    shutil.copytree(SAXPY, folder / "k")
    shutil.copy(PROBED, folder / "probed.json")
    for name in ("x", "y"):
        np.save(folder / "k" / f"{name}.npy", np.arange(1000, dtype=np.float32))
    text = (folder / "k" / "kernel.ptx").read_text()
    (folder / "k" / "fault.ptx").write_text(text.replace("ld.global.f32", "ld.shared.f32"))
    return folder


CALLS = [
    ("convc-verify/3", "verify m.onnx", 0),
    ("convc-survey/1", "survey m.onnx", 0),
    ("convc-verify-models/2", "verify m.onnx bad.onnx", 2),
    ("convc-verify/3", "verify m.onnx --reweight 1", 0),
    ("convc-compile/1", "compile m.onnx -o new", 0),
    ("convc-run/1", "run b --input x.npy -o y.npy", 0),
    ("convc-network-run/2", "run m.onnx --input x.npy -o y.npy", 0),
    ("convc-lanes/1", "inspect m.onnx --layer conv --lanes", 0),
    ("convc-layers/1", "inspect m.onnx", 0),
    ("convc-inspect/1", "inspect m.onnx --layer conv", 0),
    ("convc-time/2", "time m.onnx", 0),
    ("convc-verify/3", "verify m.onnx --input x.npy", 0),
    ("convc-audit/1", "audit b", 0),
    ("convc-audit/1", "audit racy", 1),
    ("convc-check/1", "check b", 0),
    ("convc-check/1", "check racy --strict", 1),
    ("convc-exec/1", "exec k/kernel.ptx k/launch.json", 0),
    ("convc-exec/1", "exec k/fault.ptx k/launch.json --check", 1),
    ("convc-probe/1", "probe", 0),
    ("convc-settled/1", "probe --apply probed.json", 0),
    ("convc-explain/2", "explain", 0),
    ("convc-explain/2", "explain hang", 0),
    ("convc-error/1", "run no --input x.npy -o y.npy", 2),
]


@pytest.mark.parametrize(("format", "words", "code"), CALLS)
def test_what_a_command_writes_fits_its_schema(place, monkeypatch, format, words, code):
    monkeypatch.chdir(place)
    monkeypatch.setattr(KernelTime, "_at", lambda *_: 0.1)  # else a kernel is replayed for every parameter
    result = convc(*words.split(), "--json", "-")
    assert result.exit_code == code, result.output
    report = json.loads(result.stdout)
    assert list(report)[:2] == ["format", "convc"]
    assert (report["format"], report["convc"]) == (format, __version__)
    schema = jsonschema.Draft202012Validator(json.loads(schema_file(format).read_text("utf-8")))
    schema.validate(report)
    for name in ("format", "convc"):
        (error,) = schema.iter_errors({key: value for key, value in report.items() if key != name})
        assert error.message == f"'{name}' is a required property"


def test_every_report_is_tried():
    assert {format for format, _, _ in CALLS} == {*ALL} - UNWRITTEN


def test_the_files_that_are_read_fit_theirs(place):
    for format, file in (("convc-launch/1", SAXPY / "launch.json"), ("convc-build/4", place / "b" / "network.json")):
        jsonschema.validate(json.loads(file.read_text()), json.loads(schema_file(format).read_text()))


def test_infinity_is_null_and_fits():
    schema = made("convc-verify/3")
    assert schema["$defs"]["Comparison"]["properties"]["worst_ratio"] == {"type": ["number", "null"]}


def test_a_schema_is_printed():
    assert json.loads(convc("explain", "--schema", "convc-check/1").stdout) == made("convc-check/1")
    said = convc("explain", "--schema", "convc-chek/1")
    assert said.exit_code == 2
    assert "did you mean convc-check/1?" in said.stderr
    assert convc("explain", "P100", "--schema", "convc-check/1").exit_code == 2
