"""A kernel with persistent CTAs, with one thing wrong, is found out."""

from __future__ import annotations

import pytest
from support.records import replace
from unit.compiler.tile.test_verify_program import at, rewrite, without

from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.compiler.schedules.program import build
from convc.compiler.tile.program import walk
from convc.compiler.tile.steps.epilogue import TmemLoad
from convc.compiler.tile.verify import contradictions
from convc.host_layout.device_layout import device_layout
from convc.ir.epilogue import AddResidual
from convc.ir.expr import Var
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(name="p", in_channels=64, out_channels=80, in_extent=(20, 20), kernel=(3, 3), bias=True)
OPTIONS = ScheduleOptions(schedule="reload", store="tma", persistent="on", ctas=2)
PROGRAM = build(plan(device_layout(PROBLEM), options=OPTIONS, block_n=48, stages=3))


def test_what_is_built_is_sound():
    assert contradictions(PROGRAM) == ()
    assert PROGRAM.visits == 3


def _moved_release(step):
    """It stands in front of the read."""
    if not isinstance(step, TmemLoad):
        return () if step.id == "epilogue.release" else (step,)
    (release,) = (each for role in PROGRAM.roles for each in walk(role.steps) if each.id == "epilogue.release")
    return (release, step)


def _other_rows(step):
    """One role counts tiles as if a column had two, in both coordinates."""
    expr = {"load.tile_m": Var("tile") % 2, "load.tile_n": Var("tile") // 2}.get(step.id)
    return (step if expr is None else replace(step, expr=expr),)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (at("load.tiles", stride=1), "load.tiles goes by 1 from cta on to 6, the grid has 2 CTAs"),
        (at("load.tiles", limit=5), "roles go over different tiles: [5, 6]"),
        (at("mma.tiles", count=2), "mma.tiles counts 2 tiles, 2 CTAs make 6"),
        (at("load.tile_m", expr=Var("tile") % 2), "load.tiles finds the place of a tile by tile // 3"),
        (at("load.tile_n", expr=Var("tile") // 2), "load.tiles finds the place of a tile by tile // 2"),
        (_other_rows, "roles go over tiles in columns of different heights: 2, 3"),
        (at("load.tile_n", expr=Var("tile")), "load.tiles finds the place of a tile by tile, which"),
        (without("mma.drained"), "role mma uses an accumulator and has not waited for it"),
        (without("epilogue.release"), "ring drained is signalled by nobody, not by epilogue"),
        (at("epilogue.release", last=16), "epilogue.release gives 48 columns back when 32 have been read"),
        (_moved_release, "epilogue.release does not stand right behind the read of column"),
        (without("epilogue.other"), "role epilogue does not advance in a loop over rings of state acc of [2] stages"),
        (at("mma.drained", starts_open=False), "of the waits for the rings done and drained, exactly one may find"),
        (without("epilogue.again"), "role epilogue writes results over those that copies still read"),
        (without("epilogue.meet"), "role epilogue brings numbers over those that a slower warp still reads"),
    ],
)
def test_every_mistake_is_named(edit, sentence):
    assert any(sentence in found for found in contradictions(rewrite(PROGRAM, edit)))


def _met_before_the_store(step):
    """The warps of the epilogue meet, and then go on in shared memory."""
    if step.id == "epilogue.meet":
        return ()
    (meet,) = (each for role in PROGRAM.roles for each in walk(role.steps) if each.id == "epilogue.meet")
    return (meet, step) if step.id == "epilogue.store" else (step,)


def test_warps_meet_behind_all_that_they_use():
    found = contradictions(rewrite(PROGRAM, _met_before_the_store))
    assert "role epilogue brings numbers over those that a slower warp still reads" in found


def test_the_halves_of_the_accumulator_begin_at_the_first_column():
    storage = PROGRAM.storage
    shifted = replace(storage, tmem=(replace(storage.tmem[0], column_offset=32),))
    assert "the halves of the accumulator do not begin at column 0" in contradictions(replace(PROGRAM, storage=shifted))


def test_what_the_storage_has_not_is_not_found():
    for find in (PROGRAM.storage.ring, PROGRAM.storage.smem_tile, PROGRAM.storage.tmem_tile):
        with pytest.raises(KeyError, match="nothing"):
            find("nothing")


ONE_COLUMN = build(plan(device_layout(replace(PROBLEM, out_channels=48)), options=OPTIONS, block_n=48, stages=3))


def _in_the_loop(step):
    """The numbers are brought for each tile."""
    if not step.id.startswith("epilogue.tiles"):
        return () if step.id == "epilogue.numbers" else (step,)
    (numbers,) = (each for role in ONE_COLUMN.roles for each in role.steps if each.id == "epilogue.numbers")
    return (replace(step, body=(numbers, *step.body)),)


@pytest.mark.parametrize(
    ("edit", "held"),
    [(without("epilogue.numbers"), 0), (at("epilogue.numbers", columns=32), 32), (_in_the_loop, 0)],
)
def test_numbers_of_all_tiles_are_held_before_the_first(edit, held):
    assert contradictions(ONE_COLUMN) == ()
    found = f"role epilogue holds {held} numbers before the first tile, and adds 48 to each"
    assert found in contradictions(rewrite(ONE_COLUMN, edit))


DYNAMIC = build(
    plan(device_layout(PROBLEM), options=replace(OPTIONS, ctas="auto", tile_scheduler="dynamic"), block_n=48, stages=3)
)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (at("load.tiles", count=5), "load.tiles begins at cta of 5 tiles, the grid has 6 CTAs"),
        (at("load.tiles", count=5), "roles go over different tiles: [5, 6]"),
        (at("load.tiles", first="thread"), "load.tiles begins at thread of 6 tiles, the grid has 6 CTAs"),
        (at("mma.take", var="k_step"), "mma.take sets k_step, the loop over tiles goes by tile"),
        (without("load.ask"), "a tile is asked for 0 times while one is made"),
        (without("load.ask"), "load.expect_answer expects 16 bytes a stage, and 96 in all are missing"),
        (without("load.expect_answer"), "load.ask counts on answered, and nobody expects its bytes"),
        (without("load.heard"), "ring heard is awaited by nobody, not by load"),
        (at("load.heard", starts_open=False), "of the waits for the rings answered and heard, exactly one may find"),
        (without("mma.answered"), "ring answered is awaited by epilogue, load, not by every role"),
        (without("mma.take"), "role mma does not end a tile by waiting for the next, taking it and saying so"),
        (without("mma.told"), "ring heard is signalled by epilogue, load, not by every role"),
        (without("mma.next_answer"), "role mma does not advance in a loop over rings of state asked of [3] stages"),
        (without("epilogue.meet"), "role epilogue brings numbers over those that a slower warp still reads"),
        (at("load.ask", tile="numbers"), "tile numbers has 1 stages, ring answered has 3"),
        (
            lambda step: (step, *([_twice(step)] if step.id == "load.ask" else [])),
            "asked for 2 times while one is made",
        ),
    ],
)
def test_every_mistake_about_a_tile_that_is_asked_for_is_named(edit, sentence):
    assert contradictions(DYNAMIC) == ()
    assert any(sentence in found for found in contradictions(rewrite(DYNAMIC, edit)))


def _twice(step):
    return replace(step, id="load.ask_again")


def test_a_role_that_goes_by_numbers_beside_those_that_ask_is_named():
    (walks,) = (role for role in PROGRAM.roles if role.name == "mma")
    mixed = tuple(walks if role.name == "mma" else role for role in DYNAMIC.roles)
    found = contradictions(replace(DYNAMIC, roles=mixed))
    assert "roles go over different tiles: only load, epilogue ask for them" in found


def test_answers_over_something_else_are_found():
    answers = replace(DYNAMIC.storage.answers, offset=DYNAMIC.storage.ring("done").offset)
    found = contradictions(replace(DYNAMIC, storage=replace(DYNAMIC.storage, answers=answers)))
    assert any("overlaps the answers" in sentence for sentence in found), found


ADDED = replace(PROBLEM, epilogue=(AddResidual(),))
COPIED = replace(OPTIONS, residual_load="tma")
WALKED = build(plan(device_layout(ADDED), options=COPIED, block_n=48, stages=3))
ALONE = build(plan(device_layout(ADDED), options=replace(COPIED, persistent="off", ctas="auto"), block_n=48, stages=3))


@pytest.mark.parametrize("program", [WALKED, ALONE], ids=["walked", "alone"])
@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (without("epilogue.landed_r"), "ring full_r is awaited by nobody, not by epilogue"),
        (without("load.wait_r"), "ring empty_r is awaited by nobody, not by load"),
        (without("epilogue.added_r"), "ring empty_r is signalled by nobody, not by epilogue"),
        (without("epilogue.next_r"), "role epilogue does not advance in a loop over rings of state r of [3] stages"),
        (without("load.residual"), "load.expect_r expects 4096 bytes a stage, and"),
        (without("load.expect_r"), "load.residual counts on full_r, and nobody expects its bytes"),
        (at("load.wait_r", starts_open=False), "of the waits for the rings full_r and empty_r, exactly one may find"),
        (at("load.residual", tile="a"), "load.residual copies 4096 bytes into tile a of 16384"),
    ],
)
def test_every_mistake_about_a_residual_is_named(edit, sentence, program):
    assert contradictions(program) == ()
    assert any(sentence in found for found in contradictions(rewrite(program, edit)))


@pytest.mark.parametrize("offset", [0, ALONE.storage.results.offset])
def test_a_residual_over_what_is_in_use_is_found(offset):
    residual = replace(ALONE.storage.residual, offset=offset)
    storage = replace(ALONE.storage, residual=residual)
    found = contradictions(replace(ALONE, storage=storage))
    assert any("overlaps tile" in sentence and "tile r" in sentence for sentence in found)


def test_results_over_operand_tiles_are_found():
    results = replace(PROGRAM.storage.results, offset=0)
    storage = replace(PROGRAM.storage, results=results)
    found = contradictions(replace(PROGRAM, storage=storage))
    assert any("overlaps tile a" in sentence or "overlaps tile c" in sentence for sentence in found)


HOPPER = build(plan(device_layout(PROBLEM), options=replace(OPTIONS, target="sm_90a"), block_n=48, stages=3))


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (without("mma.last_empty"), "role mma gives the last stage back of no ring, not of empty"),
        (at("mma.last_empty", ring="full"), "role mma gives the last stage back of full, not of empty"),
        (without("mma.done"), "role mma does not multiply, wait and read its accumulator in this order"),
        (without("mma.done"), "role mma gives the last stage back before its MMAs are done"),
        (without("epilogue.again"), "role mma writes results over those that copies still read"),
    ],
)
def test_every_mistake_with_an_accumulator_in_registers_is_named(edit, sentence):
    assert contradictions(HOPPER) == ()
    assert any(sentence in found for found in contradictions(rewrite(HOPPER, edit)))
