"""The frame of the command line: help, version, explanations, and how a command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields

import onnx
import pytest

import convc as package
from convc import ScheduleOptions, api, errors
from convc.cli.main import main

VERBS = (
    "audit", "check", "compile", "derive", "run", "verify", "inspect", "exec", "explain", "explain-descriptor", "draw",
    "report", "survey", "time", "tune", "launch", "probe", "record",
)  # fmt: skip


def test_the_commands_are_these(convc):
    said = convc.good("--help")
    listed = said.split("Commands:\n")[1].split("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines()] == sorted(VERBS)
    assert "..." not in listed
    assert "1: checked and wrong" in said


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help(convc, verb):
    assert f"Usage: convc {verb}" in convc.good(verb, "-h")


def test_every_choice_about_schedules_can_be_made_wherever_one_can():
    chosen = {field.name for field in fields(ScheduleOptions)}
    taken = {verb: {param.name for param in main.get_command(None, verb).params} for verb in VERBS if verb != "draw"}
    planning = {verb for verb, names in taken.items() if "schedule" in names}
    assert planning == {"compile", "verify", "time", "tune", "inspect", "report"}
    assert not any(chosen - taken[verb] for verb in planning)


HELP = """
import sys
from convc.cli.main import main
for verb in sys.argv[1:]:
    main([*([verb] if verb != "convc" else []), "--help"], prog_name="convc", standalone_mode=False)
    heavy = {"numpy", "onnx", "islpy", "jinja2", "rich"} & set(sys.modules)
    print("loaded:", verb, *sorted(heavy), file=sys.stderr)
"""


def test_no_help_loads_what_only_work_needs():
    """The names of schedules and switches are records of their own, and verbs and reports are imported when called."""
    done = subprocess.run(
        [sys.executable, "-c", HELP, "convc", *VERBS], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.splitlines() == [f"loaded: {verb}" for verb in ("convc", *VERBS)]


def test_version(convc):
    assert convc.good("--version") == f"convc, version {package.__version__}\n"


def test_an_unknown_command_is_a_bad_call(convc):
    assert "No such command 'prove'" in convc.refused("prove")


def test_reports_are_utf8_whatever_the_terminal(tmp_path):
    """And what a terminal cannot show is escaped, not a traceback."""
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) <float[2, 2, 1, 1] w = {1, 0, 0, 1}> { y = Conv (x, w) }"""
    )
    made.graph.node[0].name = "größe"
    onnx.save(made, tmp_path / "m.onnx")
    for words, encoding in ((("--json", "-"), "utf-8"), ((), "ascii")):
        call = [sys.executable, "-m", "convc", "verify", str(tmp_path / "m.onnx"), *words]
        done = subprocess.run(call, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}, check=False)
        assert done.returncode == 0, done.stderr
        assert ("größe" if words else r"gr\xf6\xdfe") in done.stdout.decode(encoding)


def test_a_name_that_is_not_utf8_is_refused_before_the_work(tmp_path):
    call = [sys.executable.encode(), b"-m", b"convc", b"verify", bytes(tmp_path) + b"/m\xff.onnx"]
    done = subprocess.run(call, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"the name is not valid UTF-8" in done.stderr


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 2, "error[C300]"),
        (PermissionError(13, "Permission denied", "m.onnx"), 2, "Permission denied"),
        (errors.DeadlockError("stuck"), 1, "error[M200]: stuck"),
        (errors.PlanError("no room"), 2, "error[C200]: no room"),
    ],
)
def test_how_a_command_ends(convc, tiny, tmp_path, monkeypatch, raised, code, message):
    def fail(*arguments, **options):
        raise raised

    monkeypatch.setattr(api, "compile", fail)
    result = convc("compile", tiny, "-o", tmp_path / "b")
    assert result.exit_code == code
    assert result.stdout == ""
    assert message in result.stderr


def test_a_reader_that_goes_away_is_no_error(tiny):
    command = [sys.executable, "-m", "convc", "inspect", str(tiny), "--layer", "conv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        complaint = process.stderr.read()
    assert process.returncode == 141
    assert complaint == b""


def test_the_process_ends_with_the_commands_code(tmp_path):
    command = [sys.executable, "-m", "convc", "compile", "no.onnx", "-o", "b"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error[I100]")
    assert os.listdir(tmp_path) == []


def test_the_verbs_of_the_package_stay_verbs_when_the_rooms_are_loaded():
    code = (
        "import importlib, pkgutil, types, convc, convc.api as api\n"
        "for found in pkgutil.walk_packages(convc.__path__, 'convc.'):\n"
        "    if found.name not in ('convc.__main__', 'convc.triton.driver'): importlib.import_module(found.name)\n"
        "for name in convc.__all__:\n"
        "    assert getattr(convc, name) is getattr(api, name)\n"
        "    assert not isinstance(getattr(convc, name), types.ModuleType), name\n"
        "from convc import verify\n"
        "assert verify is api.verify\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_the_package_lacks():
    with pytest.raises(AttributeError, match="no attribute 'prove'"):
        _ = package.prove


def test_a_model_comes_from_stdin(convc, two, tmp_path):
    command = [sys.executable, "-m", "convc", "compile", "-", "-o", "build"]
    done = subprocess.run(command, input=two.read_bytes(), capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "build" / "network.json").is_file()
    refused = convc("compile", "-", "-o", tmp_path / "none", stdin=b"")
    assert (refused.exit_code, "which is empty" in refused.stderr) == (2, True)
    assert "not an ONNX model" in convc("inspect", "-", "--layer", "stem", stdin=b"\xff\xff").stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shape", "x:1x3x16x16", "--batch", "1"], "give one of them"),
        (["--shape", "1x3x16x16"], "expected NAME:1x3x224x224"),
        (["--shape", "x:1x-3"], "expected NAME:1x3x224x224"),
        (["--shape", "x:1x3x16x16", "--shape", "x:1x3x16x16"], "comes twice"),
        (["--shape", "y:1x3x16x16"], "no input named 'y'"),
        (["--shape", "x:1x3x16x17"], "got [1, 3, 16, 17]"),
        (["--shape", "x:" + "9" * 40], "too large"),
    ],
)
def test_shapes_that_are_refused(convc, two, tmp_path, words, message):
    said = convc.refused("compile", two, "-o", tmp_path / "build", *words)
    assert message in said
