"""Kernels that begin before the one in front of them has ended."""

from __future__ import annotations

import dataclasses
import re

import pytest
from msgspec.structs import replace
from support.oracles import oracles_agree
from test_verify_program import rewrite, without

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.schedules.skeleton import MAP_A
from convc.compiler.tile.steps.base import Compute
from convc.compiler.tile.steps.copies import PrefetchTiles
from convc.compiler.tile.steps.setup import ReleaseGrid
from convc.compiler.tile.verify import contradictions
from convc.gpu.plan import plan_launch
from convc.ir.epilogue import AddResidual
from convc.ir.expr import evaluate
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(in_channels=16, out_channels=24, in_extent=(6, 9), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1))
DEPENDENT = ScheduleOptions(pdl=True)
TOUCHES = ("cp.async.bulk.tensor", "ld.global", "st.global")


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("dependent", [True, False])
def test_a_dependent_kernel_waits_before_it_touches_a_buffer(target, dependent, assembled):
    options = ScheduleOptions(target=target, pdl=dependent)
    compiled = oracles_agree(PROBLEM, 1, assembled, options)
    text = compiled.artifact.ptx
    assert plan_launch(compiled.artifact.launch, text).dependent == dependent
    places = 2 if target == "sm_100a" else 1  # the warp that loads does not wait for the others
    assert text.count("griddepcontrol.wait") == dependent * places
    assert text.count("griddepcontrol.launch_dependents") == dependent
    assert compiled.artifact.launch.in_front == (("activation", "output") if dependent else None)
    if dependent:
        # Behind the set-up's barrier, and so behind tcgen05.alloc: the next grid may take tensor memory, and wait.
        assert text.index("bar.sync") < text.index("griddepcontrol.launch_dependents")
        wait = text.index("griddepcontrol.wait;")
        assert wait < text.index("griddepcontrol.launch_dependents;")
        assert text.rindex("griddepcontrol.wait;") < min(text.index(touch) for touch in TOUCHES if touch in text)


@pytest.mark.parametrize(
    ("step", "left"),
    [
        ("start.await", "AwaitGrid; ReleaseGrid"),
        ("start.release", "AwaitGrid"),
        ("begin.await", "AwaitGrid, ReleaseGrid; nothing"),
    ],
)
def test_half_of_it_is_a_contradiction(step, left):
    program = compile_problem(PROBLEM, options=DEPENDENT).program
    assert contradictions(program) == ()
    assert contradictions(rewrite(program, without(step))) == (
        f"the set-up must wait for the preceding kernel and then let the dependent one begin, it has {left}",
    )


def test_a_warp_that_knows_of_no_tensor_memory_lets_nobody_begin():
    program = compile_problem(PROBLEM, options=DEPENDENT).program
    late = ReleaseGrid(id="begin.release", note="before anybody has met")
    setup = tuple(replace(role, steps=(*role.steps, late)) if role.name == "begin" else role for role in program.setup)
    assert contradictions(replace(program, setup=setup)) == (
        "warps let the dependent kernel begin, and have not met the one that gets tensor memory",
    )


EARLY = r"@%one cp\.async\.bulk\.prefetch\.tensor\.\d+d\.L2\.global\.tile \[%(\w+), "


@pytest.mark.parametrize("schedule", ["reload", "slide", "stationary"])
@pytest.mark.parametrize("persistent", ["on", "off"])
def test_filters_of_the_first_stages_are_asked_for_ahead_of_the_wait(schedule, persistent):
    options = dataclasses.replace(DEPENDENT, schedule=schedule, persistent=persistent, cta_group="1")
    compiled = compile_problem(PROBLEM, options=options)
    text = compiled.artifact.ptx
    asked = re.findall(EARLY, text)
    assert set(asked) == {"map_b"}
    assert len(asked) == min(compiled.plan.tiling.b_stages, 9)
    assert text.count("cp.async.bulk.prefetch.L2.global") == 1
    assert text.rindex("cp.async.bulk.prefetch") < text.index("griddepcontrol.wait;")
    assert text.rindex("cp.async.bulk.prefetch") < text.index("tcgen05.alloc")
    plain = dataclasses.replace(options, pdl=False)
    assert "prefetch.L2" not in compile_problem(PROBLEM, options=plain).artifact.ptx


def test_tiles_that_are_asked_for_are_those_that_are_copied_first():
    """Coordinates that the interpreter works out for the role that loads, tile by tile."""
    program = compile_problem(PROBLEM, options=dataclasses.replace(DEPENDENT, schedule="reload", cta_group="1")).program
    early = [step for role in program.setup for step in role.steps if step.id.startswith("early.")]
    known = {step.dst: step.expr for step in early if isinstance(step, Compute)}
    (tiles,) = (step.tiles for step in early if isinstance(step, PrefetchTiles))
    asked = [tuple(evaluate(known[name], {"tile_n": 1, "tile_m": 0}) for name in coords) for _, coords in tiles]
    width = compile_problem(PROBLEM, options=DEPENDENT).plan.tiling.block_n
    assert asked == [(0, tap, width) for tap in range(len(asked))]


def test_what_the_kernel_in_front_writes_is_not_asked_for():
    program = compile_problem(PROBLEM, options=dataclasses.replace(DEPENDENT, schedule="reload")).program
    assert any(isinstance(step, PrefetchTiles) for role in program.setup for step in role.steps)

    def other(step):
        if not isinstance(step, PrefetchTiles):
            return step
        return replace(step, tiles=tuple((MAP_A, coords) for _, coords in step.tiles[:1]))

    setup = tuple(replace(role, steps=tuple(map(other, role.steps))) for role in program.setup)
    assert contradictions(replace(program, setup=setup)) == (
        "early.tiles asks for activation, which the preceding kernel may still write",
    )


@pytest.mark.parametrize(
    ("target", "schedule"), [("sm_100a", "reload"), ("sm_90a", "reload"), ("sm_100a", "stationary")]
)
def test_what_the_kernel_in_front_may_still_write_is_no_constant(target, schedule, assembled):
    finished = dataclasses.replace(PROBLEM, epilogue=(AddResidual(),), bias=True)
    for dependent in (False, True):
        options = ScheduleOptions(schedule=schedule, target=target, store="direct", pdl=dependent)
        text = compile_problem(finished, options=options).artifact.ptx
        assert assembled(text, target).spill_bytes == 0
        step = text[text.index("//@ step=epilogue.apply_0 ") :].split("//@ step=")[1]
        assert ("ld.global.nc" in step) == (not dependent), step
        assert "ld.global.nc" in text, "nobody writes the bias while kernels run"
