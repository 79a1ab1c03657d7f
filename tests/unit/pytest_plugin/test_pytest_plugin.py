"""The pytest plugin: a test fails for what is found in its launches, with the findings by their cause."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import numpy as np  # noqa: F401 - a process may load it once, and pytester forgets what a run imports
import pytest

import convc.api.simulating
import convc.report.launch  # noqa: F401 - likewise
from convc.ir.findings import Finding, Verdict

pytest_plugins = ["pytester"]

KERNELS = Path(__file__).parents[1] / "recorder" / "kernels.ptx"

START = f"""
import numpy as np
import numpy as np  # noqa: F401 - a process may load it once, and pytester forgets what a run imports
import pytest
from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam

KERNELS = {str(KERNELS)!r}

def launch(entry, block, *names):
    buffers = {{name: BufferSpec(dtype="f32", shape=(256,)) for name in names}}
    params = tuple(PointerParam(buffer=name) for name in names)
    return LaunchSpec(entry=entry, grid=(1, 1, 1), block=(block, 1, 1), buffers=buffers, params=params)
"""


@pytest.fixture
def run(pytester):
    """Run a test module in this process with the plugin."""

    installed = any(point.value == "convc.pytest_plugin" for point in entry_points(group="pytest11"))
    plugin = () if installed else ("-p", "convc.pytest_plugin")

    def run(text: str) -> pytest.RunResult:
        pytester.makepyfile(START + text)
        return pytester.runpytest_inprocess(*plugin, "-p", "no:cacheprovider", "--strict-markers")

    return run


def test_launches_that_are_right_and_wrong(run):
    result = run("""
def test_sum(convc_simulator):
    ones = np.ones(256, np.float32)
    done = convc_simulator.exec(KERNELS, launch("add", 128, "x", "y"), {"x": ones, "y": ones})
    assert done.buffers["y"][127] == 2

@pytest.mark.convc
def test_race(convc_simulator):
    convc_simulator.exec(KERNELS, launch("race", 64, "out"))

@pytest.mark.convc(check=False)
def test_race_that_nobody_looks_for(convc_simulator):
    convc_simulator.exec(KERNELS, launch("race", 64, "out"))

@pytest.mark.convc(check=True)
def test_without_a_launch():
    pass
""")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines([
        "*convc found something wrong in the launches of this test (3 causes):",
        "*kernels.ptx:107: error[[]race-shared-memory]: read by warp 0 *",
    ])  # fmt: skip


def test_a_test_that_fails_by_itself_shows_the_findings_too(run):
    result = run("""
def test_race(convc_simulator):
    convc_simulator.exec(KERNELS, launch("race", 64, "out"))
    assert False, "of its own"
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: of its own", "*Captured convc call*", "*race-shared-memory*"])


def test_a_folder_is_a_launch(run, pytester):
    folder = pytester.mkdir("kernel")
    (folder / "kernel.ptx").write_text(KERNELS.read_text())
    (folder / "launch.json").write_text(
        '{"format": "convc-launch/1", "entry": "count", "grid": [1, 1, 1], "block": [1, 1, 1], '
        '"buffers": {"out": {"dtype": "u32", "shape": [1]}}, "params": [{"kind": "pointer", "buffer": "out"}]}'
    )
    run(
        'def test_count(convc_simulator):\n    assert convc_simulator.exec("kernel").buffers["out"][0] == 6'
    ).assert_outcomes(passed=1)


def test_words_that_the_marker_does_not_take(run):
    result = run("@pytest.mark.convc(chek=True)\ndef test_nothing(): pass")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the marker convc takes target, check, strict, got 'chek'*"])


def test_triton_is_active_while_a_marked_test_runs(run, monkeypatch):
    """With a stand-in of the driver: what it finds lets the test fail, and it is put away behind it."""
    calls: list[object] = []
    found = Finding(
        verdict=Verdict.rule, rule="some-rule", message="what Triton's kernel does", file="kernel.py", line=7
    )
    driver = SimpleNamespace(
        activate=lambda **options: calls.append(options),
        findings=lambda: (found,),
        deactivate=lambda: calls.append("away"),
    )
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "convc.triton", driver)
    monkeypatch.setattr("convc.triton", driver, raising=False)
    result = run("""
@pytest.mark.convc(target="sm_90a")
def test_good():
    pass

@pytest.mark.convc(strict=True)
def test_strict():
    pass

def test_without_a_mark():
    pass
""")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*kernel.py:7: rule[[]some-rule]: what Triton's kernel does*"])
    noted = {"target": "sm_90a", "check": True, "raises": False}
    assert calls == [noted, "away", {**noted, "target": "sm_100a"}, "away"]
