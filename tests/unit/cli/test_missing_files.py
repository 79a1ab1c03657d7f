"""A file that is not there is told at once: nothing is loaded for work that cannot be done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import convc as package
from convc.errors import ConvcError
from convc.ir.launch import load_launch
from convc.support.arrays import read_arrays
from convc.support.missing import NO_FILE, no_file
from convc.timing.parameters import read_chip

CALLS = (
    "inspect nope.onnx", "inspect nope.onnx --layer x", "verify nope.onnx", "compile nope.onnx -o b",
    "run nope.onnx --input x.npy", "run nope --input x.npy -o y.npy", "check nope", "time nope.onnx",
    "time nope.ptx nope.json", "exec nope.ptx nope.json", "launch nope", "launch nope.ptx nope.json",
    "draw lanes nope.onnx", "draw timeline nope.onnx", "draw roofline nope.onnx", "draw schedules nope.onnx",
    "draw memory-time nope.onnx", "report nope.onnx -o x.html", "probe --apply nope.json",
    "time m.onnx --chip nope.toml",
    "probe --chip nope.toml", "draw timeline m.onnx --chip nope.toml",
)  # fmt: skip

SCRIPT = f"""
import sys
from click.testing import CliRunner
from convc.cli.main import main
for call in {CALLS!r}:
    said = CliRunner().invoke(main, call.split())
    assert said.exit_code == 2 and {NO_FILE!r} in said.stderr, (call, said.output)
print(*sorted({{"numpy", "onnx", "islpy", "msgspec", "rich"}} & set(sys.modules)))
"""


def test_no_command_loads_a_library_for_a_file_that_is_not_there(tmp_path):
    (tmp_path / "m.onnx").touch()
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}
    said = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "\n"), said.stderr


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("resnet5O.onnx", "did you mean '{}/resnet50.onnx'?"),
        ("resnet50.onx", "did you mean '{}/resnet50.onnx'?"),
        ("nothing_like_it.onnx", ""),
        ("modles/x.onnx", "the folder '{}/modles' is not there; did you mean '{}/models'?"),
        ("dangling.onnx", "it is a link to 'gone.onnx', which is not there"),
    ],
)
def test_the_name_beside_it_is_guessed(tmp_path, name, hint):
    (tmp_path / "resnet50.onnx").touch()
    (tmp_path / "models").mkdir()
    (tmp_path / "dangling.onnx").symlink_to("gone.onnx")
    error = no_file(tmp_path / name)
    assert (error.message, error.hint) == (NO_FILE, hint.replace("{}", str(tmp_path)))


@pytest.mark.parametrize(
    "read",
    [
        package.load,
        package.load_build,
        read_arrays,
        load_launch,
        lambda path: read_chip(f"{path}.toml", []),
        lambda path: package.launch(path, path / "l.json", driver=object()),
    ],
)
def test_the_verbs_say_the_same(read, tmp_path):
    with pytest.raises(ConvcError) as raised:
        read(tmp_path / "nope")
    assert raised.value.message == NO_FILE
