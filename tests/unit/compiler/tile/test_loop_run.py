"""The loops of tile programs, run with numbers, are those of the definition: fetched tiles and copies of bodies too."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace
from support import loop_run
from support.loop_run import wrong

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.tile.program import walk
from convc.compiler.tile.steps.base import Compute, Loop, Repeat
from convc.compiler.tile.steps.persistent import FetchLoop
from convc.compiler.tile.steps.rings import Advance
from convc.errors import ConvcError
from convc.ir.problem import ConvProblem
from tests.fuzz.schedules import Schedules
from tests.support.examples import some

FETCHED = ConvProblem(
    batch=3, in_channels=32, out_channels=512, in_extent=(12, 20), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)
"""Several tiles of pixels, in several columns of tiles."""
NARROW = ConvProblem(in_channels=16, out_channels=64, in_extent=(20, 20), kernel=(3, 3))
"""A stage of one MMA, around whose ring the text goes: nine steps of K."""
DYNAMIC = ScheduleOptions(schedule="reload", persistent="on", tile_scheduler="dynamic", split_k="off")
UNROLLED = ScheduleOptions(schedule="reload", split_k="off")


def compiled(problem, options):
    made = compile_problem(problem, options=options)
    return made.plan, made.program


def edited(program, kind, change):
    """A program with steps of a kind changed, wherever they are."""

    def changed(step):
        if isinstance(step, Repeat):
            step = replace(step, body=tuple(map(changed, step.body)))
        return change(step) if isinstance(step, kind) else step

    roles = (replace(role, steps=tuple(map(changed, role.steps))) for role in program.roles)
    return replace(program, roles=tuple(roles))


def steps_of(program):
    return [step for role in program.roles for step in walk(role.steps)]


def test_drawn_kernels_have_the_loops_of_the_definition():
    subject = Schedules()
    kinds = set()
    for seed in range(some(60)):
        case = subject.case(random.Random(f"loops:{seed}"))
        try:
            plan, program = compiled(subject.problem(case), ScheduleOptions(**case["options"]))
        except ConvcError:
            continue
        assert wrong(plan, program, random.Random(seed)) == "", (seed, plan.problem.describe(), plan.schedule.title)
        kinds.add(plan.schedule.title)
    assert len(kinds) > 2


@pytest.mark.parametrize("seed", range(4))
def test_fetched_tiles_are_made_once_however_they_are_dealt_out(seed):
    plan, program = compiled(FETCHED, DYNAMIC)
    assert min(plan.launch.tiles) > 1
    assert any(isinstance(step, FetchLoop) for step in steps_of(program))
    assert wrong(plan, program, random.Random(seed)) == ""


@pytest.mark.parametrize("name", ["tile_m", "tile_n"])
def test_a_place_of_a_fetched_tile_that_is_off_is_noticed(name):
    plan, program = compiled(FETCHED, DYNAMIC)

    def off(step):
        return replace(step, expr=step.expr // 2) if step.dst == name else step

    assert wrong(plan, edited(program, Compute, off), random.Random(0)) == "48 places of tiles, of 96"


def test_loops_with_copies_have_every_turn_once():
    plan, program = compiled(NARROW, UNROLLED)
    assert any(isinstance(step, Loop) and step.copies > 1 for step in steps_of(program))
    assert wrong(plan, program, random.Random(0)) == ""


@pytest.mark.parametrize("by", [-1, 1])
def test_turns_behind_the_last_jump_that_are_off_are_noticed(monkeypatch, by):
    plan, program = compiled(NARROW, UNROLLED)
    program = edited(program, Loop, lambda step: replace(step, copies=2) if step.copies > 1 else step)
    right = loop_run.turns

    def off(loop):
        repeated, rest = right(loop)
        return repeated, range(rest.start + by, rest.stop) if rest else rest

    assert wrong(plan, program, random.Random(0)) == ""
    monkeypatch.setattr(loop_run, "turns", off)
    assert " products, of 9 taps" in wrong(plan, program, random.Random(0))


def test_copies_that_do_not_come_around_a_ring_are_noticed(monkeypatch):
    """As if the text named the stages of every ring."""
    plan, program = compiled(NARROW, UNROLLED)
    odd = edited(program, Loop, lambda step: replace(step, copies=2) if step.copies > 2 else step)
    assert wrong(plan, odd, random.Random(0)) == ""
    states = {step.state for step in steps_of(program) if isinstance(step, Advance)}
    monkeypatch.setattr(loop_run, "known_stages", lambda steps: tuple(states))
    assert wrong(plan, odd, random.Random(0)) == "a stage that the text knows is another one the next time"


@pytest.mark.parametrize("by", [-1, 1])
def test_a_loop_that_turns_too_often_or_not_often_enough_is_noticed(by):
    plan, program = compiled(NARROW, UNROLLED)
    for var in ("r", "s", "k_step"):

        def off(step, var=var):
            return replace(step, count=step.count + by, copies=1) if step.var == var else step

        assert wrong(plan, edited(program, Loop, off), random.Random(0)), var
