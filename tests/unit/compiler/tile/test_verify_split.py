"""A kernel whose CTAs share the K loop of a tile, with one thing wrong, is found out."""

from __future__ import annotations

import pytest
from support.records import replace
from unit.compiler.tile.test_verify_program import Edit, at, rewrite, without

from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.compiler.schedules.program import build
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.verify import contradictions
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(name="p", in_channels=64, out_channels=96, in_extent=(20, 20), kernel=(3, 3), bias=True)
OPTIONS = ScheduleOptions(schedule="reload", split_k="2")
PROGRAM = build(plan(device_layout(PROBLEM), options=OPTIONS, block_n=48, stages=3))
ORDER = "wrote, arrive, wait, read, arrive, wait"


def test_what_is_built_is_sound():
    assert contradictions(PROGRAM) == ()
    assert PROGRAM.launch.cluster == (1, 1, 2)


def swapped(first: str, second: str) -> Edit:
    """Two steps in each other's place, each with its own name."""
    steps = {step.id: step for role in PROGRAM.teardown for step in role.steps}
    exchange = {first: steps[second], second: steps[first]}
    return lambda step: (exchange.get(step.id, step),)


def doubled(step: Step) -> tuple[Step, ...]:
    """The first meeting twice."""
    again = replace(step, id="meet.again") if step.id == "meet.arrive" else None
    return (step,) if again is None else (step, again)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (at("load.share", stride=1), "load.share goes by 1 from part on, 2 split-K CTAs per tile"),
        (at("mma.share", first="tile_m"), "mma.share goes by 2 from tile_m on, 2 split-K CTAs per tile"),
        (at("load.share", count=4), "load.share counts 4 steps of 9, 2 split-K CTAs per tile"),
        (at("mma.share", limit=1, count=1), "mma.share counts 1 steps of 1, 2 split-K CTAs per tile"),
        (without("meet.arrive"), f"warp 0 shares its sums in the order wrote, wait, read, arrive, wait, not {ORDER}"),
        (without("meet.wait"), f"warp 0 shares its sums in the order wrote, arrive, read, arrive, wait, not {ORDER}"),
        (without("epilogue.sums"), "warps [] write and [0, 1, 2, 3] read sums of 128 lanes"),
        (without("add.add"), "warps [0, 1, 2, 3] write and [] read sums of 128 lanes"),
        (without("end.wait"), f"warp 0 shares its sums in the order wrote, arrive, wait, read, arrive, not {ORDER}"),
        (
            without("leave.arrive"),
            "warp 4 shares its sums in the order arrive, wait, wait, not arrive, wait, arrive, wait",
        ),
        (
            swapped("meet.arrive", "meet.wait"),
            f"warp 0 shares its sums in the order wrote, wait, arrive, read, arrive, wait, not {ORDER}",
        ),
        (doubled, f"warp 0 shares its sums in the order wrote, arrive, arrive, wait, read, arrive, wait, not {ORDER}"),
        (at("add.add", parts=4), "add.add adds 4 parts of 2"),
    ],
)
def test_every_mistake_is_named(edit, sentence):
    assert sentence in contradictions(rewrite(PROGRAM, edit))


def test_a_cluster_that_is_not_the_third_axis_of_the_grid_is_found():
    launch = replace(PROGRAM.launch, grid=(*PROGRAM.launch.grid[:2], 3))
    found = contradictions(replace(PROGRAM, launch=launch))
    assert "the grid has 3 CTAs along its third axis, no multiple of the 2 of a cluster" in found


DEEP = ConvProblem(name="deep", in_channels=1024, out_channels=64, in_extent=(9, 9), kernel=(1, 1))
KEPT = build(plan(device_layout(DEEP), options=ScheduleOptions(schedule="reload", split_k="16"), block_n=64, stages=3))
ORDERED = "add has to do KeepSums, LastLoop, AddKept in this order, and does "


def early(step: Step) -> tuple[Step, ...]:
    """The sums of all clusters before this one has kept its own."""
    steps = {each.id: each for role in KEPT.teardown for each in role.steps}
    moved = {"add.pieces": (), "add.last": (step, steps["add.pieces"])}
    return moved.get(step.id, (step,))


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (without("add.keep"), f"{ORDERED}LastLoop, AddKept"),
        (without("add.all"), f"{ORDERED}KeepSums, LastLoop"),
        (without("add.last"), f"{ORDERED}KeepSums"),
        (early, f"{ORDERED}LastLoop, AddKept, KeepSums"),
        (at("add.last", clusters=3), "add.last is about 3 clusters of 2"),
        (at("add.all", clusters=1), "add.all is about 1 clusters of 2"),
        (at("add.all", pitch=16), "add.all reads other sums than add.keep keeps"),
        (at("add.all", between=16), "add.all looks for the sums of cluster 1 where add.keep does not keep them"),
    ],
)
def test_mistakes_of_clusters_are_named(edit, sentence):
    assert contradictions(KEPT) == ()
    assert sentence in contradictions(rewrite(KEPT, edit))


def test_counters_begin_at_0():
    buffers = KEPT.launch.buffers
    ones = {"counters": replace(buffers["counters"], values=(1,) * 32)}
    found = contradictions(replace(KEPT, launch=replace(KEPT.launch, buffers=buffers | ones)))
    assert "the buffer counters is not all 0 before a launch" in found


HOPPER = build(plan(device_layout(PROBLEM), options=replace(OPTIONS, target="sm_90a"), block_n=48, stages=2))


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (at("load.share", stride=1), "load.share goes by 1 from part on, 2 split-K CTAs per tile"),
        (without("epilogue.sums"), "warps [] write and [0, 1"),
        (without("add.add"), "and [] read sums of"),
        (without("meet.wait"), "in the order wrote, arrive, read, arrive, wait, not wrote, arrive, wait, read"),
        (without("end.wait"), "in the order wrote, arrive, wait, read, arrive, not wrote"),
    ],
)
def test_mistakes_on_hopper_are_named_too(edit, sentence):
    assert contradictions(HOPPER) == ()
    assert any(sentence in found for found in contradictions(rewrite(HOPPER, edit)))
