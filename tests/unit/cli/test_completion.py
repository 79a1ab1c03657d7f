"""What a shell is told when it completes half a line, as click's documentation has it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CONVC = "import sys; sys.argv[0] = 'convc'; from convc.__main__ import entry; entry()"


def completed(line: str, shell: str = "bash") -> list[str]:
    """What may stand in the place of the last word of a line; nothing is said on stderr."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    told = {**os.environ, **words, "_CONVC_COMPLETE": f"{shell}_complete"}
    done = subprocess.run([sys.executable, "-c", CONVC], env=told, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_commands_and_options_are_completed():
    assert completed("convc ver") == ["plain,verify"]
    assert completed("convc compile m.onnx --sched") == ["plain,--schedule"]


@pytest.mark.parametrize(
    "line", ["convc compile m.onnx --schedule ", "convc inspect --target sm_90a m.onnx --schedule "]
)
def test_values_are_completed_although_the_option_lacks_one(line: str):
    assert {"plain,reload", "plain,slide"} <= set(completed(line))


def test_files_are_left_to_the_shell():
    assert completed("convc verify m") == ["file,m"]


@pytest.mark.parametrize(
    "line", ["convc verfy --s", "convc time --chip h200 --chip ", "convc compile --no-such x --sched"]
)
def test_a_mistake_in_the_line_says_nothing(line: str):
    completed(line)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_the_shell(shell: str):
    told = {**os.environ, "_CONVC_COMPLETE": f"{shell}_source"}
    done = subprocess.run([sys.executable, "-c", CONVC], env=told, capture_output=True, text=True, check=True)
    assert f"_CONVC_COMPLETE={shell}_complete" in done.stdout
