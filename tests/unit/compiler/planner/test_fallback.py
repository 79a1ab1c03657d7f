"""A schedule that cannot be proved right, or not be written down, gives way to the next best, and the plan says why."""

from __future__ import annotations

import re

import pytest
from support.mutants import changed_code
from support.schedules import only

from convc.compiler.compile import compile_problem
from convc.compiler.emit import kernel
from convc.compiler.index import presburger
from convc.compiler.index.maps import Counterexample
from convc.compiler.options import ScheduleOptions
from convc.compiler.schedules.all import SCHEDULES, SLIDE
from convc.compiler.schedules.base import Schedule
from convc.compiler.schedules.sharing import indexing
from convc.errors import PlanError
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(in_channels=64, out_channels=64, in_extent=(56, 56), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1))
DIRECT = ScheduleOptions(store="direct")
REFUTED = (Counterexample("lanes hold their pixels", (("lane", 3),), "it holds another"),)


def reasons(compiled) -> dict[str, str]:
    """Why each schedule was turned down."""
    return {choice.schedule.title: choice.reason for choice in compiled.plan.choices if choice.reason}


def test_a_refuted_claim_gives_way_to_the_next_best(monkeypatch):
    assert compile_problem(PROBLEM, options=DIRECT).schedule == "slide"
    monkeypatch.setattr(indexing, "prove_wide_limits", lambda maps: REFUTED)
    compiled = compile_problem(PROBLEM, options=DIRECT)
    assert compiled.schedule == "reload"
    said = reasons(compiled)
    assert "slide" in said
    assert set(said) <= {schedule.id.title for schedule in SCHEDULES if schedule.shares}
    assert said["slide"] == (
        "the index maps do not carry this kernel: REFUTED: lanes hold their pixels [at lane = 3: it holds another]"
    )


def test_a_schedule_that_was_asked_for_is_an_error_with_the_reason(monkeypatch):
    monkeypatch.setattr(indexing, "prove_wide_limits", lambda maps: REFUTED)
    with pytest.raises(PlanError, match="no kernel can be planned: the index maps do not carry this kernel: REFUTED"):
        compile_problem(PROBLEM, options=only(SLIDE))


def test_a_kernel_that_cannot_be_written_gives_way_to_the_next_best(monkeypatch):
    written = kernel.emit

    def emit(program):
        if program.schedule == "slide":
            raise PlanError("m may be (0, 9999999999), which 32 bits cannot hold")
        return written(program)

    monkeypatch.setattr(kernel, "emit", emit)
    compiled = compile_problem(PROBLEM, options=DIRECT)
    assert compiled.schedule != "slide"
    assert reasons(compiled) == {"slide": "m may be (0, 9999999999), which 32 bits cannot hold"}


def test_claims_that_take_too_long_leave_no_kernel(monkeypatch):
    monkeypatch.setattr(presburger, "OPERATIONS", 10)
    with pytest.raises(PlanError, match="takes isl more than 10 steps to decide"):
        compile_problem(PROBLEM)


WALKED = ConvProblem(batch=32, in_channels=64, out_channels=256, in_extent=(56, 56), kernel=(1, 1))
"""Its CTAs are persistent where nothing is in the way."""


def test_ctas_that_walk_give_way_to_a_cta_for_each_tile(monkeypatch):
    written = kernel.emit

    def emit(program):
        if program.visits:
            raise PlanError("the kernel is too long")
        return written(program)

    assert compile_problem(WALKED).plan.launch.persistent
    monkeypatch.setattr(kernel, "emit", emit)
    plan = compile_problem(WALKED).plan
    assert not plan.launch.persistent
    assert plan.launch.why.persistent == "one CTA per tile: the kernel is too long"
    assert not reasons(compile_problem(WALKED))
    with pytest.raises(PlanError, match="no kernel can be planned: the kernel is too long"):
        compile_problem(WALKED, options=ScheduleOptions(schedule="reload", persistent="on"))


def test_a_walk_that_is_not_proved_gives_way_too(monkeypatch):
    derived = Schedule.indexing

    def indexing(schedule, candidate):
        if candidate.tiled.ctas is not None:
            raise PlanError("not proved")
        return derived(schedule, candidate)

    monkeypatch.setattr(Schedule, "indexing", indexing)
    assert compile_problem(WALKED).plan.launch.why.persistent == "one CTA per tile: not proved"


BROKEN = {
    "a period too short": (
        "period=length",
        "period=problem.outputs - 1",
        "period T >= Q: 55 < 56",
    ),
    "a lead of real pixels": (
        "lead=left, period",
        "lead=2, period",
        "what the walk leaves out is padding for buffer 0: 0 < 2 and 1 <= 1; |the walk leaves nothing out: 0 < 2",
    ),
}
ASKED = [
    ScheduleOptions(schedule="slide"),
    ScheduleOptions(schedule="stationary"),
    *(ScheduleOptions(schedule="shift", shift=variant) for variant in ("chain", "ashift", "windows")),
]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_condition_that_is_broken_is_an_error_of_each_schedule_and_auto_takes_another(kind):
    old, new, why = BROKEN[kind]
    with changed_code("convc.compiler.index.row_walk", old, new):
        for options in ASKED:
            with pytest.raises(PlanError) as refused:
                compile_problem(PROBLEM, options=options)
            first = "|".join(f"no kernel can be planned: {options.schedule} needs {each}" for each in why.split("|"))
            assert re.match(first, refused.value.message), refused.value.message
        compiled = compile_problem(PROBLEM, options=DIRECT)
        assert compiled.schedule == "reload"
        assert "slide needs" in reasons(compiled)["slide"]
