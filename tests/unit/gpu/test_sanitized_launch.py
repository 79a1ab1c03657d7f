"""``convc launch --sanitize``: tools are run over a launch, their summaries read and put beside convc's verdict."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from convc.cli.main import main
from convc.gpu.compute_sanitizer import TOOLS, VARIABLE

SAXPY = Path(__file__).parents[2] / "foreign" / "saxpy"

CLEAN = """\
#!/bin/sh
echo "$@" >> {log}
test -f "$7" && test -f "$8" || exit 3
echo "========= COMPUTE-SANITIZER"
if [ "$2" = racecheck ]; then
  echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
else
  echo "========= ERROR SUMMARY: 0 errors"
fi
"""

FAULTY = """\
#!/bin/sh
echo "========= COMPUTE-SANITIZER"
echo "========= Invalid __global__ write of size 8 bytes"
echo "=========     at saxpy+0x90"
echo "========= ERROR SUMMARY: 1 error"
exit 1
"""


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    shutil.copytree(SAXPY, tmp_path / "k")
    for name in ("x", "y"):
        np.save(tmp_path / "k" / f"{name}.npy", np.arange(1000, dtype=np.float32))
    monkeypatch.setattr("convc.api.sanitizing.require_bindings", lambda: None)
    return tmp_path / "k"


def launched(place: Path, *words: object):
    words = ("launch", place / "kernel.ptx", place / "launch.json", "--sanitize", "--seed", 1, *words)
    return CliRunner().invoke(main, [str(word) for word in words], prog_name="convc")


def tool(place: Path, monkeypatch, text: str) -> None:
    program = place / "compute-sanitizer"
    program.write_text(text.replace("{log}", str(place / "log")))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(VARIABLE, str(program))


def test_each_tool_launches_the_kernel_and_convc_checks_it(place, monkeypatch):
    tool(place, monkeypatch, CLEAN)
    done = launched(place)
    assert done.exit_code == 0, done.output
    assert [line.strip() for line in done.stdout.splitlines()[1:]] == [
        *(f"{each}: 0 found" for each in TOOLS),
        "convc check: clean, 0 findings",
    ]
    calls = (place / "log").read_text().splitlines()
    assert [call.split()[1] for call in calls] == [*TOOLS]
    assert all("-m convc launch" in call and "--input x=" in call and "--input y=" in call for call in calls)


def test_what_a_tool_finds_is_said_and_ends_with_1(place, monkeypatch):
    tool(place, monkeypatch, FAULTY)
    done = launched(place)
    assert done.exit_code == 1, done.output
    assert "memcheck: 1 found, the launch ended with 1" in done.stdout
    assert "Invalid __global__ write of size 8 bytes" in done.stdout


def test_a_tool_that_dies_has_no_summary(place, monkeypatch):
    tool(place, monkeypatch, "#!/bin/sh\necho no such GPU >&2\nexit 2\n")
    done = launched(place)
    assert (done.exit_code, "memcheck: came to no summary" in done.stdout) == (1, True)
    assert "no such GPU" in done.stdout


def test_without_it_the_message_says_what_to_install(place, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("convc.gpu.compute_sanitizer.USUAL", Path("/none"))
    monkeypatch.delenv(VARIABLE, raising=False)
    done = launched(place)
    assert (done.exit_code, "it comes with the CUDA toolkit" in done.stderr) == (2, True)


def test_what_it_has_no_use_for_is_refused(place):
    done = launched(place, "--compare")
    assert (done.exit_code, "leave --compare out" in done.stderr) == (2, True)
