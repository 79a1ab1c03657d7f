"""The demo: six layers, a table, and what it leaves to read and to try."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from convc import api
from convc.cli import demo
from convc.cli.main import main
from convc.errors import PlanError
from convc.support.resources import make_models


def follow(said: str) -> list[str]:
    """Type the commands that the demo prints, as they stand there; what each of them says."""
    commands = [shlex.split(line) for line in said.split("\nNext:\n")[1].splitlines() if "convc " in line]
    heard = []
    for command in commands:
        at = max(place for place, word in enumerate(command) if word.endswith("convc"))
        done = CliRunner().invoke(main, command[at + 1 :], prog_name="convc")
        assert done.exit_code == 0, f"{command}: {done.output}"
        heard.append(done.stdout)
    return heard


@pytest.fixture
def one_layer(monkeypatch):
    """The demo with the layer alone that its commands are about."""
    models = make_models()
    layers = [layer for layer in models.read_layers("demo") if layer.name == demo.SHOWN]
    monkeypatch.setattr(models, "read_layers", lambda selection: layers)
    monkeypatch.setattr(demo, "make_models", lambda: models)


def test_what_it_tells_to_try_works_as_printed(one_layer, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert demo.main() == 0
    said = capsys.readouterr().out
    assert "1 of 1 layers right" in said
    (text,) = (line.strip() for line in said.splitlines() if line.endswith("kernel.ptx"))
    assert Path(text).read_text().startswith("//")
    inspected, checked, verified = follow(said)
    assert "tcgen05.mma" in inspected
    assert f"{demo.SHOWN}: clean, nothing found" in checked
    assert "1 of 1 layers right" in verified


@pytest.mark.slow
def test_the_demo_verifies_six_layers_and_keeps_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert demo.main() == 0
    said = capsys.readouterr().out
    assert "6 of 6 layers right" in said
    for layer in ("conv1", "layer1.0.conv2", "layer2.1.conv2", "layer3.1.conv2", "layer4.1.conv2"):
        assert layer in said
    assert len(list(demo.BUILD.glob("kernels/*/kernel.ptx"))) == 6
    assert all(heard for heard in follow(said))
    assert demo.main() == 0  # a second run replaces the first


def test_an_error_ends_the_demo_with_its_code(one_layer, tmp_path, monkeypatch, capsys):
    def fail(*arguments, **options):
        raise PlanError("no room")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(api, "verify", fail)
    assert demo.main() == 2
    assert "error[C200]: no room" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("build").write_text("in the way")
    assert demo.main() == 2
    assert "cannot make the folder" in capsys.readouterr().err


def test_the_program_is_named_so_that_a_shell_finds_it(tmp_path, monkeypatch):
    bin = tmp_path / ".venv" / "bin"
    bin.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(bin / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo.program() == f"{bin}/python -m convc"
    (bin / "convc").write_text("#!/bin/sh\n")
    (bin / "convc").chmod(0o755)
    assert demo.program() == ".venv/bin/convc"
    monkeypatch.setenv("PATH", str(bin))
    assert demo.program() == "convc"
