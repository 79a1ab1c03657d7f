"""Warps that load hand registers over to those that multiply (``--registers on``), on both schedules of sm_90a."""

from __future__ import annotations

import pytest
from support.oracles import oracles_agree

from convc.compiler.options import ScheduleOptions
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.problem import ConvProblem

SMALL = ConvProblem(
    batch=2, in_channels=72, out_channels=42, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1),
    bias=True, epilogue=(AddResidual(), Relu()),
)  # fmt: skip


@pytest.mark.parametrize(("schedule", "store", "persistent"), [("reload", "tma", "on"), ("slide", "direct", "off")])
def test_registers_are_handed_over(schedule, store, persistent, assembled):
    options = ScheduleOptions(
        schedule=schedule, store=store, persistent=persistent, target="sm_90a", registers="on", pdl=True
    )
    compiled = oracles_agree(SMALL, 1, assembled, options, block_n=48)
    assert compiled.program.launch.block == (384, 1, 1)
    assert compiled.artifact.ptx.count("setmaxnreg.") == 2
