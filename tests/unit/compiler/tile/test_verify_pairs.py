"""A kernel of CTA pairs with one thing wrong is found out."""

from __future__ import annotations

import pytest
from support.records import replace
from unit.compiler.tile.test_verify_program import at, rewrite, without

from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.names import DRAINED
from convc.compiler.planner.search import plan
from convc.compiler.schedules.program import build
from convc.compiler.tile.steps.base import Loop, Step
from convc.compiler.tile.steps.lanes import LoadMask
from convc.compiler.tile.steps.persistent import Release
from convc.compiler.tile.steps.setup import CtaSync
from convc.compiler.tile.verify import contradictions
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(name="p", in_channels=64, out_channels=96, in_extent=(20, 20), kernel=(3, 3), bias=True)
OPTIONS = ScheduleOptions(schedule="reload", persistent="on", ctas=2, cta_group="2")
PROGRAM = build(plan(device_layout(PROBLEM), options=OPTIONS, block_n=96, stages=3))


def test_what_is_built_is_sound():
    assert contradictions(PROGRAM) == ()
    assert PROGRAM.launch.cluster == (2, 1, 1)
    assert {ring.name: ring.at for ring in PROGRAM.storage.rings} == {
        "full": "leader", "empty": "all", "done": "all", "drained": "leader",
    }  # fmt: skip
    assert PROGRAM.storage.ring("drained").arrivals == 256  # threads of both CTAs


@pytest.mark.parametrize("which", ["met.wait", "begin.met", "alloc.met", "end.sync"])
def test_ctas_that_meet_by_themselves_are_found(which):
    def edit(step: Step) -> tuple[Step, ...]:
        return (CtaSync(id=step.id, note=step.note),) if step.id == which else (step,)

    alone = rewrite(PROGRAM, edit)
    act = "teardown" if which == "end.sync" else "set-up"
    memory = {"alloc.met": "alloc.tmem", "end.sync": "dealloc.tmem"}.get(which)
    unmet = f"{memory} is for both CTAs of a pair, and its warp has not met the other CTA"
    wanted = (f"the CTAs of a cluster do not meet in the {act}", *((unmet,) if memory else ()))
    assert contradictions(alone) == wanted


def test_a_cta_that_leaves_before_the_last_signals_is_found():
    left = rewrite(PROGRAM, without("load.last_empty"))
    assert "other CTAs signal ring empty, and the last signals of 0 of 3 are awaited" in contradictions(left)


@pytest.mark.parametrize(
    ("ring", "at", "sentence"),
    [
        ("full", "own", "mma.wait waits for ring full, whose signals are for own"),
        ("empty", "own", "load.wait waits for ring empty, whose signals are for own"),
        ("done", "leader", "epilogue.wait waits for ring done, whose signals are for leader"),
        ("drained", "own", "ring drained is signalled 256 times and awaited 2 times"),
    ],
)
def test_a_signal_for_the_wrong_barriers_is_found(ring, at, sentence):
    rings = tuple(replace(each, at=at) if each.name == ring else each for each in PROGRAM.storage.rings)
    storage = replace(PROGRAM.storage, rings=rings)
    assert sentence in contradictions(replace(PROGRAM, storage=storage))


MASKED = build(
    plan(
        device_layout(replace(PROBLEM, batch=3, pad_lo=(1, 1), pad_hi=(1, 1))),
        options=ScheduleOptions(schedule="slide", border="mask", rows="merged", cta_group="2", persistent="off"),
        block_n=96,
        stages=3,
    )
)


def test_masks_and_cleared_sums_of_one_cta_alone_are_found():
    assert contradictions(MASKED) == ()

    def alone(step: Step) -> tuple[Step, ...]:
        return (CtaSync(id=step.id, note=step.note),) if step.id == "ready.sync" else (step,)

    found = contradictions(rewrite(MASKED, alone))
    assert found == ("the CTAs of a pair do not meet behind clear.zero, and one multiplies into the sums of both",)
    own = rewrite(MASKED, lambda step: () if isinstance(step, LoadMask) and step.rank else (step,))
    assert any("masks lanes of 2 CTAs, and masks of CTAs [0] are read" in sentence for sentence in contradictions(own))


WALKING = build(
    plan(
        device_layout(replace(PROBLEM, batch=3, pad_lo=(1, 1), pad_hi=(1, 1))),
        options=ScheduleOptions(schedule="slide", border="mask", rows="merged", cta_group="2", persistent="on", ctas=2),
        block_n=96,
        stages=3,
    )
)


def test_masks_that_both_ctas_make_are_found():
    """The first one multiplies for both, also where the epilogue makes those of the next tile."""
    assert contradictions(WALKING) == ()
    both = tuple(replace(role, leads=False) for role in MASKED.setup)
    (found,) = {sentence.split(" ", 1)[1] for sentence in contradictions(replace(MASKED, setup=both))}
    assert found == "fills a table in both CTAs of a pair, and the first one multiplies for both"
    found = contradictions(rewrite(WALKING, lambda step: (replace(step, leads=False),) if is_led(step) else (step,)))
    assert {sentence.split(" ", 1)[0] for sentence in found} == {
        f"epilogue.{tap}_{which}{rank}_word" for tap in "sr" for which in ("first", "next") for rank in ("", "_1")
    }


def test_what_both_ctas_have_to_do_is_not_done_by_the_first_alone():
    def signals(step: Step) -> tuple[Step, ...]:
        if not is_led(step):
            return (step,)
        release = Release(id=f"{step.id}_told", note="its masks are there", ring=DRAINED)
        return (replace(step, body=(*step.body, release)),)

    found = contradictions(rewrite(WALKING, signals))
    alone = "epilogue.masks_next_told is the first CTA's alone, and the others of role epilogue are to do it as well"
    assert alone in found
    alone = rewrite(without_pairs(), lambda step: (replace(step, leads=True),) if step.id == "load.rows" else (step,))
    assert "load.rows is the first CTA's alone, and there are no pairs" in contradictions(alone)


def is_led(step: Step) -> bool:
    return isinstance(step, Loop) and step.leads


def without_pairs():
    return build(plan(device_layout(PROBLEM), options=ScheduleOptions(schedule="reload"), block_n=96, stages=3))


def test_bytes_of_one_cta_alone_are_found():
    found = contradictions(rewrite(PROGRAM, at("load.expect", bytes=128 * 128 + 48 * 128)))
    assert any("load.expect expects 22528 bytes a stage" in sentence for sentence in found)


def test_a_role_that_both_ctas_have_is_found():
    roles = tuple(replace(role, leads=False) for role in PROGRAM.roles)
    assert "role mma multiplies in both CTAs of a pair" in contradictions(replace(PROGRAM, roles=roles))


def test_half_a_pair_is_found():
    launch = replace(PROGRAM.launch, cluster=(1, 1, 1))
    found = contradictions(replace(PROGRAM, launch=launch))
    assert found == ("2 CTAs multiply as one in clusters of (1, 1, 1), grid (2, 1, 1)",)
