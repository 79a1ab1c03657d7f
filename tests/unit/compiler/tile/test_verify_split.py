"""A kernel whose CTAs share the K loop of a tile, with one thing wrong, is found out."""

from __future__ import annotations

import pytest
from unit.compiler.tile.test_verify_program import at, rewrite, without

from convc.compiler.options import ScheduleOptions
from convc.compiler.schedules.planner import plan
from convc.compiler.schedules.program import build
from convc.compiler.tile.verify import contradictions
from convc.ir.problem import ConvProblem
from convc.layout.device_layout import device_layout

PROBLEM = ConvProblem(name="p", in_channels=64, out_channels=64, in_extent=(8, 8), kernel=(3, 3))
PROGRAMS = {
    target: build(
        plan(
            device_layout(PROBLEM),
            options=ScheduleOptions(schedule="reload", split_k="2", target=target),
            block_n=32,
            stages=2,
        )
    )
    for target in ("sm_100a", "sm_90a")
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (at("load.share", stride=1), "load.share goes by 1 from part on, 2 CTAs share a tile"),
        (at("load.share", count=4), "load.share counts 4 steps of 9, 2 CTAs share a tile"),
        (without("epilogue.sums"), "warps [] write and [0, 1"),
        (without("add.add"), "and [] read sums of"),
        (without("meet.wait"), "in the order wrote, arrive, read, arrive, wait, not wrote, arrive, wait, read"),
        (without("add.arrive"), "in the order wrote, arrive, wait, read, wait, not wrote"),
        (without("end.wait"), "in the order wrote, arrive, wait, read, arrive, not wrote"),
        (at("add.add", parts=1), "add.add adds 1 parts of 2"),
    ],
)
def test_every_mistake_is_named(edit, sentence, program):
    assert contradictions(program) == ()
    assert any(sentence in found for found in contradictions(rewrite(program, edit)))
