"""Registers that warps hand over: a program that takes what is not there, or not by whole warpgroups, is found out."""

from __future__ import annotations

import pytest
from support.records import replace
from unit.compiler.tile.test_verify_program import Edit, at, rewrite

from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.compiler.schedules.program import build
from convc.compiler.tile.verify import contradictions
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(name="p", in_channels=64, out_channels=64, in_extent=(20, 20), kernel=(1, 1))
OPTIONS = ScheduleOptions(schedule="reload", target="sm_90a", store="direct", persistent="off", registers="on")
PROGRAM = build(plan(device_layout(PROBLEM), options=OPTIONS, block_n=32, stages=2))


def test_the_warps_that_load_are_a_warpgroup():
    assert contradictions(PROGRAM) == ()
    assert (PROGRAM.warps, PROGRAM.launch.block) == (12, (384, 1, 1))
    assert [role.who for role in PROGRAM.roles] == ["one lane of warp 8", "warps 0 to 7"]


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (
            at("mma.registers", count=196),
            "mma.registers has 196 registers a thread: not a multiple of 8 from 24",
        ),
        (
            at("give.registers", count=16),
            "give.registers has 16 registers a thread: not a multiple of 8 from 24",
        ),
        (at("mma.registers", count=168), "mma.registers has 168 registers a thread, no more than the 168 at the start"),
        (at("give.registers", count=176), "give.registers has 176 registers a thread, no fewer than the 168 at the"),
        (at("mma.registers", count=240), "the warps take 66560 registers, and began with 64512"),
        (at("give.registers", count=112), "the warps take 65536 registers, and began with 64512"),
    ],
)
def test_counts_that_are_not_there(edit: Edit, sentence: str):
    assert any(sentence in found for found in contradictions(rewrite(PROGRAM, edit)))


def test_half_a_warpgroup():
    *others, give = PROGRAM.setup
    alone = replace(PROGRAM, setup=(*others, replace(give, last_warp=8)))
    assert "give.registers is done by warp 8: no whole warpgroups" in contradictions(alone)
