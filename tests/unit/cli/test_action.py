"""The GitHub Action of the repository: its YAML, the options that it names, and its script on kernel folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from convc.cli.main import main

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / ".github" / "actions" / "check" / "action.yml").read_text(encoding="utf-8")
ACTION = yaml.safe_load(TEXT)
SAXPY = ROOT / "tests" / "foreign" / "saxpy"
KERNELS = ROOT / "tests" / "unit" / "recorder" / "kernels.ptx"

(SCRIPT,) = (step["run"] for step in ACTION["runs"]["steps"] if step.get("id") == "check")


def test_inputs_and_outputs_are_those_that_are_used():
    assert ACTION["runs"]["using"] == "composite"
    assert set(re.findall(r"inputs\.([\w-]+)", TEXT)) == set(ACTION["inputs"])
    assert [name for name, field in ACTION["inputs"].items() if "default" not in field] == ["paths"]
    assert ACTION["outputs"]["sarif"]["value"] == "${{ steps.check.outputs.sarif }}"
    assert all("shell" in step for step in ACTION["runs"]["steps"] if "run" in step)


@pytest.mark.parametrize("command", ["exec", "check", "compile"])
def test_its_commands_have_the_options_that_it_gives(command):
    calls = re.findall(rf"convc {command} [^|;]*", SCRIPT)
    shown = CliRunner().invoke(main, [command, "--help"]).output
    options = {option for call in calls for option in re.findall(r"(?<= )--?[a-z]+", call)} | {"--strict"}
    assert calls
    assert {
        option for option in options - ({"--strict"} if command == "compile" else set()) if option not in shown
    } == set()


def test_kernel_folders_are_checked_and_their_findings_gathered(tmp_path):
    racy = tmp_path / "racy kernel"
    racy.mkdir()
    shutil.copy(KERNELS, racy / "kernel.ptx")
    launch = {
        "format": "convc-launch/1", "entry": "race", "grid": [1, 1, 1], "block": [64, 1, 1],
        "buffers": {"out": {"dtype": "u32", "shape": [1]}}, "params": [{"kind": "pointer", "buffer": "out"}],
    }  # fmt: skip
    (racy / "launch.json").write_text(json.dumps(launch))
    good = tmp_path / "good"
    good.mkdir()
    shutil.copy(KERNELS, good / "kernel.ptx")
    (good / "launch.json").write_text(json.dumps({**launch, "entry": "count", "block": [1, 1, 1]}))
    outputs = tmp_path / "outputs"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "CONVC_PATHS": f"{good}\n\n{racy}\n",
        "CONVC_STRICT": "true",
        "GITHUB_OUTPUT": str(outputs),
    }
    script = SCRIPT.replace("convc exec", "python -m convc exec")
    done = subprocess.run(["bash", "-e", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert outputs.read_text() == f"sarif={tmp_path / 'convc.sarif'}\n"
    (run,) = json.loads((tmp_path / "convc.sarif").read_text())["runs"]
    assert {result["ruleId"] for result in run["results"]} == {"race-shared-memory", "race-global-memory"}
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["race-global-memory", "race-shared-memory"]
