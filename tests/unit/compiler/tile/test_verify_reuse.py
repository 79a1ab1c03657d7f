"""Contradictions in programs that share activations."""

from __future__ import annotations

import pytest
from test_verify_program import at, rewrite, without

from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.records import Plan
from convc.compiler.planner.search import plan
from convc.compiler.schedules.program import build
from convc.compiler.tile.program import TileProgram, executions, walk
from convc.compiler.tile.show import show
from convc.compiler.tile.verify import contradictions
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(
    batch=9, in_channels=72, out_channels=40, in_extent=(4, 14), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)


def planned(schedule: str, shift: str = "auto", filters: str = "apart", rows: str = "outer") -> Plan:
    options = ScheduleOptions(schedule=schedule, shift=shift, border="mask", rows=rows, filters=filters, split_k="off")
    return plan(device_layout(PROBLEM), options=options, stages=3)


def program(*choice: str, **named: str) -> TileProgram:
    return build(planned(*choice, **named))


SLIDE, ASHIFT, WINDOWS = program("slide"), program("shift", "ashift"), program("shift", "windows")
STATIONARY = program("stationary")
MERGED = program("slide", rows="merged")
TOGETHER = program("slide", filters="together")
ALL = (SLIDE, MERGED, TOGETHER, ASHIFT, WINDOWS, STATIONARY, program("shift", "chain"))


@pytest.mark.parametrize("made", ALL, ids=lambda made: made.schedule)
def test_what_is_built_is_sound_and_shown(made):
    assert contradictions(made) == ()
    text = show(made)
    assert all(text.count(f" {step.id} ") == 1 for role in made.all_roles for step in walk(role.steps))


@pytest.mark.parametrize(
    ("made", "edit", "sentence"),
    [
        (SLIDE, at("load.expect_a", bytes=128), "load.expect_a expects 128 bytes a stage"),
        (SLIDE, at("load.a", halo=1), "load.expect_a expects 16640 bytes a stage, and 768 in all are missing"),
        (SLIDE, at("load.a", halo=9), "load.a copies 17536 bytes into tile a of 16640"),
        (SLIDE, at("load.a", halo_each_window=True), "load.a does not have the coordinates of a 4-D im2col_w map"),
        (SLIDE, at("load.a", ring="full_b"), "tile a has 4 stages, ring full_b has 3"),
        (SLIDE, without("load.next_a"), "role load does not advance in a loop over rings of state a of [4] stages"),
        (SLIDE, at("mma.next_b", state="a"), "role mma advances by 3 in a loop over rings of [] stages"),
        (SLIDE, without("mma.release_a"), "ring empty_a is signalled by nobody, not by mma"),
        (SLIDE, without("mma.row"), "mma.multiply reads row, which nothing sets before"),
        (SLIDE, at("masks.s_word", value="mask"), "masks.s_word reads mask, which nothing sets before"),
        (MERGED, without("mma.join"), "the mask that mma.line_mask reads is joined to none"),
        (MERGED, without("mma.line_mask"), "mma.join joins a mask that nothing reads"),
        (TOGETHER, at("load.columns", count=2), "load.expect_a expects 22784 bytes a stage"),
        (TOGETHER, without("load.at_b"), "load.b reads at_b, which nothing sets before"),
        (TOGETHER, without("mma.b_row"), "mma.multiply reads b_row, which nothing sets before"),
        (
            ASHIFT,
            at("mma.settle", starts_open=True),
            "role mma alone uses ring order, and its first wait waits for nothing",
        ),
        (ASHIFT, at("mma.multiply", n=64), "mma.multiply makes 128 x 64, accumulator acc is another size"),
        (ASHIFT, at("mma.fill", tile="a"), "mma.fill names the tile in tensor memory a, which does not exist"),
        (ASHIFT, without("mma.halo"), "mma.refresh reads halo, which nothing sets before"),
        (
            WINDOWS,
            at("mma.wait_tmem", starts_open=False),
            "role mma alone uses ring empty_tmem, and its first wait never passes",
        ),
        (WINDOWS, at("load.windows", count=3), "load.expect_a expects 16384 bytes a stage"),
        (STATIONARY, at("mma.multiply_s1", m=64), "mma.multiply_s1 makes 64 x 64, accumulator acc is another size"),
        (STATIONARY, without("mma.entered_s0"), "mma.multiply_s0 reads entered_s0, which nothing sets before"),
    ],
)  # fmt: skip
def test_one_wrong_step_is_found(made, edit, sentence):
    broken = rewrite(made, edit)
    assert broken != made
    assert any(sentence in found for found in contradictions(broken)), contradictions(broken)


def test_masks_of_a_filter_row_are_read_once_for_all_its_channels():
    """The tensor core reads shared memory meanwhile, and each load waits for it."""
    (role,) = (role for role in MERGED.roles if role.name == "mma")
    times = {step.id: count for step, count in executions(role.steps)}
    pipeline = planned("slide", rows="merged").pipeline
    rows, columns = pipeline.taps
    assert times["mma.line_mask"] == rows
    assert times["mma.mask"] == times["mma.join"] == rows * pipeline.blocks * columns
