"""Lanes of a warp make a barrier ready each where the target does that at once; elsewhere one lane makes all."""

from __future__ import annotations

import re

import pytest

from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.storage import BARRIER_BYTES
from convc.compiler.tile.steps.setup import WARP_LANES
from convc.ir.problem import ConvProblem

LAYER = ConvProblem(
    batch=40, in_channels=32, out_channels=64, in_extent=(24, 24), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)
BY_LANES = re.compile(r"setp\.lt\.u32 %mine, %own, (\d+);\s*@%mine mbarrier\.init\S* \[%bar\+(\d+)\], (\d+);")
BY_ONE = re.compile(r"^\s*mbarrier\.init\S* \[%smem\+(\d+)\], (\d+);", re.MULTILINE)


def wanted(compiled: Compiled) -> list[tuple[int, int]]:
    """Offset and arrivals of every barrier."""
    rings = compiled.program.storage.rings
    return sorted((ring.offset + BARRIER_BYTES * at, ring.arrivals) for ring in rings for at in range(ring.stages))


@pytest.mark.parametrize(
    ("options", "choice", "instructions"),
    [
        (ScheduleOptions(schedule="reload", persistent="off"), {"block_n": 16, "stages": 4}, 1),
        (ScheduleOptions(schedule="reload", persistent="off"), {"block_n": 16, "stages": 16}, 2),
        (ScheduleOptions(schedule="slide", persistent="on", cta_group="1"), {"block_n": 64}, 2),
    ],
)
def test_each_barrier_is_made_ready_by_one_lane(options, choice, instructions, assembled):
    compiled = compile_problem(LAYER, options=options, **choice)
    groups = [tuple(map(int, group)) for group in BY_LANES.findall(compiled.artifact.ptx)]
    assert all(count <= WARP_LANES for count, _, _ in groups)
    assert len(groups) == instructions == len(re.findall(r"mbarrier\.init\.", compiled.artifact.ptx))
    made = [(first + BARRIER_BYTES * lane, arrivals) for count, first, arrivals in groups for lane in range(count)]
    assert sorted(made) == wanted(compiled)
    assert assembled(compiled.artifact.ptx).spill_bytes == 0


def test_on_hopper_one_lane_makes_all():
    compiled = compile_problem(LAYER, options=ScheduleOptions(schedule="reload", target="sm_90a"))
    made = [tuple(map(int, barrier)) for barrier in BY_ONE.findall(compiled.artifact.ptx)]
    assert sorted(made) == wanted(compiled)
