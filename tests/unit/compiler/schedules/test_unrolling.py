"""Loops whose text names the stages of a ring one by one: where that is done, and that it is right."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from support.oracles import oracles_agree

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.tile.program import walk
from convc.compiler.tile.steps.base import Loop
from convc.ir.problem import ConvProblem


def depthwise(height: int, batch: int = 2) -> ConvProblem:
    """A filter column of so many taps on groups of one channel each: as many steps, of an MMA each."""
    return ConvProblem(batch=batch, in_channels=16, out_channels=16, groups=16, in_extent=(12, 10), kernel=(height, 1))


def options(persistent: str = "off", ctas: int | Literal["auto"] = "auto") -> ScheduleOptions:
    return ScheduleOptions(
        schedule="reload", columns="off", cta_group="1", split_k="off", persistent=persistent, ctas=ctas
    )


def multiplying(text: str) -> str:
    """The text of the role that multiplies."""
    return text[text.index("// ==== mma") : text.index("mma_end:")]


@pytest.mark.parametrize(
    ("taps", "stages", "copies"),
    [(8, 4, 4), (9, 4, 4), (11, 4, 4), (7, 4, 4), (4, 4, 4), (3, 4, 3), (5, 1, 1), (5, 2, 2)],
)
def test_stages_are_constants(taps, stages, copies, assembled):
    compiled = oracles_agree(depthwise(taps), taps, assembled, options(), stages=stages)
    (loop,) = (step for role in compiled.program.roles for step in walk(role.steps) if step.id == "mma.k")
    assert isinstance(loop, Loop)
    assert loop.copies == copies
    text = multiplying(compiled.artifact.ptx)
    assert bool(re.search(r"%stage\b", text)) == (copies == 1)
    written = taps if taps < 2 * copies else copies + taps % copies
    assert text.count("tcgen05.mma.") == written


@pytest.mark.parametrize(("taps", "known"), [(8, True), (9, False)])
def test_walk_begins_each_tile_at_the_same_stage(taps, known, assembled):
    compiled = oracles_agree(depthwise(taps, batch=8), taps, assembled, options("on", ctas=1), stages=4)
    assert (compiled.program.visits or 0) > 1
    assert bool(re.search(r"%stage\b", multiplying(compiled.artifact.ptx))) != known


def test_stages_of_many_mmas_stay_in_a_register():
    problem = ConvProblem(in_channels=64, out_channels=64, in_extent=(9, 9), kernel=(3, 3))
    text = multiplying(compile_problem(problem, options=options(), stages=3).artifact.ptx)
    assert re.search(r"%stage\b", text)
    assert text.count("tcgen05.mma.") == 4


@pytest.mark.parametrize(("width", "written"), [(5, 15), (6, 10), (11, 9)])
def test_text_does_not_follow_the_filter(width, written):
    """Of 15 steps and 8 stages all are written; of 18 and of 33 a turn, and those that are left behind the last."""
    problem = ConvProblem(in_channels=16, out_channels=16, groups=16, in_extent=(16, 16), kernel=(3, width))
    text = multiplying(compile_problem(problem, options=options(), stages=8).artifact.ptx)
    assert text.count("tcgen05.mma.") == written
