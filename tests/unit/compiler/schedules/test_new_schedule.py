"""A schedule is one record in one tuple: with that alone a new one is offered, estimated, compiled and right."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.records import replace
from support.schedules import only

from convc.cli.main import main
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.candidate import ScheduleCandidates
from convc.compiler.planner import conflicts
from convc.compiler.planner.search import plan
from convc.compiler.schedules import all as registry
from convc.compiler.schedules.base import Request, Schedule
from convc.compiler.schedules.reload import Reload
from convc.explain.schedules import choice_lines
from convc.host_layout.device_layout import DeviceLayout, device_layout
from convc.ir.arch import Arch
from convc.ir.problem import ConvProblem
from convc.support.resources import model_folder

PACKAGE = Path(__file__).resolve().parents[4] / "convc"
TINY = model_folder() / "tiny_conv.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired(Reload):
    """What `reload` does, with two stages and no more."""

    def candidates(self, layout: DeviceLayout, arch: Arch, request: Request) -> ScheduleCandidates:
        """Look at tilings of two stages."""
        return Reload.candidates(self, layout, arch, replace(request, stages=2))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    known = (*registry.SCHEDULES, Schedule(name="paired", variant="twice", method=Paired))
    for module in (registry, conflicts):
        monkeypatch.setattr(module, "SCHEDULES", known)


def convc(*arguments: object) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="convc")
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("command", ["compile", "verify", "inspect"])
def test_the_commands_offer_it(command):
    shown = " ".join(convc(command, "--help").split())
    assert "|stationary|paired]" in shown
    assert "|windows|twice]" in shown


def test_it_stands_in_the_table_of_schedules():
    problem = ConvProblem(
        in_channels=64, out_channels=64, in_extent=(14, 14), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    lines = choice_lines(plan(device_layout(problem), options=ScheduleOptions()))
    assert any("paired twice" in line and " tile, " in line for line in lines)


def test_it_is_one_of_those_that_auto_asks():
    assert conflicts.schedules_for(ScheduleOptions()) == registry.SCHEDULES
    assert conflicts.schedules_for(only(registry.SCHEDULES[-1])) == registry.SCHEDULES[-1:]


def test_it_compiles_and_runs(tmp_path):
    convc("compile", TINY, "-o", tmp_path / "build", "--schedule", "paired", "--no-cache")
    assert "conv_paired" in next((tmp_path / "build").rglob("kernel.ptx")).read_text()
    x = np.ones((1, 16, 12, 12), np.float16)
    np.save(tmp_path / "x.npy", x)
    convc("run", tmp_path / "build", "--input", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").shape == (1, 24, 12, 12)
    assert "paired" in convc("verify", TINY, "--schedule", "paired", "--no-cache")
    assert "2 stages" in convc("inspect", TINY, "--layer", "conv", "--schedule", "paired")


def compared(path: Path) -> list[int]:
    """Lines on which a text is compared with the name or the variant of a schedule."""
    words = {word for schedule in registry.SCHEDULES for word in (schedule.name, schedule.variant) if word}
    text = path.read_text(encoding="utf-8")
    if not any(word in text for word in words):
        return []
    found = []
    for node in ast.walk(ast.parse(text)):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        patterns = [node.value] if isinstance(node, ast.MatchValue) else []
        literals = [
            inner for side in (*sides, *patterns) for inner in ast.walk(side) if isinstance(inner, ast.Constant)
        ]
        found += [literal.lineno for literal in literals if literal.value in words]
    return sorted(found)


INSTRUCTIONS = ("machine/", "sanitizer/", "ptx/")
"""Rooms where such a word is part of an instruction, as in ``tcgen05.shift``."""


def test_no_name_of_a_schedule_is_compared_outside_of_their_folder():
    inside = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    outside = [name for name in inside if not name.startswith(("compiler/schedules/", *INSTRUCTIONS))]
    assert [f"{name}:{line}" for name in outside for line in compared(inside[name])] == []


def test_a_comparison_would_be_seen(tmp_path):
    text = 'a == "slide"\nmatch b:\n    case "windows":\n        pass\nc in ("shift", "x")\n'
    (tmp_path / "x.py").write_text(text, encoding="utf-8")
    assert compared(tmp_path / "x.py") == [1, 3, 5]
