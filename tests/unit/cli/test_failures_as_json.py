"""Every command with ``--json`` writes one object there, also where it ends with an error."""

from __future__ import annotations

import json

import click
import jsonschema
import pytest

from convc import errors
from convc.api import launching
from convc.cli.main import COMMANDS, main
from convc.support.resources import schema_file

FAULT = ("tcgen05.wait::ld", "trap;\n    tcgen05.wait::ld")


def with_json() -> set[str]:
    """The commands that take ``--json``."""
    with click.Context(main) as ctx:
        commands = {name: main.get_command(ctx, name) for name in COMMANDS}
    return {name for name, command in commands.items() if any("--json" in param.opts for param in command.params)}


CALLS = [
    ("audit", "no", "I100"),
    ("check", "no", "I100"),
    ("compile", "no.onnx -o new", "I100"),
    ("compile", "- -o new", "O100"),
    ("exec", "no.ptx no.json", "I100"),
    ("explain", "P999", "I100"),
    ("inspect", "no.onnx", "I100"),
    ("inspect", "-", "O100"),
    ("launch", "no.ptx no.json", "I100"),
    ("probe", "--apply no.json", "I100"),
    ("record", "-- ./no", "I100"),
    ("run", "no --input x.npy -o y.npy", "I100"),
    ("run", "no.onnx --input x.npy -o y.npy", "I100"),
    ("survey", "no", "I100"),
    ("time", "no.onnx", "I100"),
    ("time", "-", "O100"),
    ("verify", "no.onnx", "I100"),
    ("verify", "no.onnx --reweight 1", "I100"),
    ("verify", "- --layer a --reweight 1", None),
]


def test_every_command_with_json_is_called():
    assert {name for name, _, _ in CALLS} == with_json()


def failed(result, code: int) -> dict:
    """The one object on stdout, which fits its schema."""
    assert result.exit_code == code, result.output
    report = json.loads(result.stdout)
    jsonschema.validate(report, json.loads(schema_file("convc-error/1").read_text("utf-8")))
    assert report["exit_code"] == code
    return report


@pytest.mark.parametrize(("name", "words", "code"), CALLS)
def test_a_bad_input_is_an_object(convc, tmp_path, monkeypatch, name, words, code):
    monkeypatch.chdir(tmp_path)
    result = convc(name, "--json", "-", *words.split(), stdin=b"no model")
    report = failed(result, 2)
    assert report["code"] == code
    for part in ("message", "where", "hint"):
        assert report[part] in result.stderr
    assert report["findings"] == []
    again = convc(name, "--json", "r.json", *words.split(), stdin=b"no model")
    assert (again.stdout, again.stderr) == ("", result.stderr)
    assert json.loads((tmp_path / "r.json").read_text()) == report


def test_a_fault_of_the_machine_is_a_finding(convc, build, kernel, x, tmp_path):
    kernel.write_text(kernel.read_text().replace(*FAULT, 1))
    launch = kernel.parent / "launch.json"
    report = failed(convc("run", build, "--input", x, "-o", tmp_path / "y.npy", "--json", "-"), 1)
    assert not (tmp_path / "y.npy").exists()
    assert (report["code"], report["span"]["file"]) == ("M100", str(kernel))
    done = convc("exec", kernel, launch, "--json", "-")
    assert done.exit_code == 1
    assert "error[M100]" in done.stderr
    (found,) = json.loads(done.stdout)["findings"]
    assert report["findings"] == [found]
    assert (found["rule"], found["line"]) == ("fault", report["span"]["line"])
    checked = convc("check", build, "--json", "-")
    assert checked.exit_code == 1
    assert [each["rule"] for each in json.loads(checked.stdout)["findings"]] == ["fault"]
    (timed,) = failed(convc("time", kernel, launch, "--json", "-"), 1)["findings"]
    assert (timed["rule"], timed["line"]) == (found["rule"], found["line"])


def test_a_launch_that_hangs_on_a_gpu_is_said_before_the_process_is_ended(convc, build, tmp_path, monkeypatch):
    def hang(*_, **__):
        raise launching.Hang("it hangs")

    def leave(code):
        raise SystemExit(code)

    monkeypatch.setattr("convc.api.launch", hang, raising=False)
    monkeypatch.setattr("os._exit", leave)
    assert failed(convc("launch", build, "--seed", "1", "--json", "-"), 1)["code"] == "G200"


@pytest.mark.parametrize("raised", [MemoryError(), PermissionError(13, "Permission denied", "m.onnx")])
def test_errors_of_the_system_are_objects_too(convc, tmp_path, monkeypatch, raised):
    def fail(*_, **__):
        raise raised

    monkeypatch.setattr("convc.api.compile", fail, raising=False)
    report = failed(convc("compile", "m.onnx", "-o", tmp_path / "b", "--json", "-"), 2)
    assert report["code"] in (errors.LimitError.code, errors.InputError.code)


def test_a_report_that_would_replace_an_input_is_not_written(convc, tiny, tmp_path):
    model = tmp_path / "m.onnx"
    model.write_bytes(tiny.read_bytes())
    assert "would overwrite" in convc.refused("verify", model, "--layer", "none", "--json", model)
    assert model.read_bytes() == tiny.read_bytes()
