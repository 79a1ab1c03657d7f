"""Tiles of channels whose width divides nothing: the last one ends past the output, and past every multiple of 256."""

from __future__ import annotations

import pytest

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.ir.problem import ConvProblem
from convc.runtime.layer import run_layer
from convc.verification import reference
from convc.verification.compare import compare
from convc.verification.data import integer_data

PROBLEM = ConvProblem(
    batch=2, in_channels=16, out_channels=512, in_extent=(12, 12), kernel=(1, 3), pad_lo=(0, 1), pad_hi=(0, 1)
)


@pytest.mark.parametrize(
    "options",
    [
        ScheduleOptions(schedule="reload", store="direct"),
        ScheduleOptions(schedule="reload", store="tma", persistent="on", ctas=2),
        ScheduleOptions(schedule="reload", cta_group="2"),
        ScheduleOptions(schedule="slide", split_k="off"),
        ScheduleOptions(schedule="reload", target="sm_90a"),
    ],
    ids=["direct", "walk", "pairs", "slide", "sm_90a"],
)
@pytest.mark.parametrize("width", [160, 192, 224])
def test_the_last_tile_may_end_past_every_channel(options, width):
    compiled = compile_problem(PROBLEM, options=options, block_n=width)
    launch = compiled.plan.launch
    assert launch.tiles[1] * width > 512
    data = integer_data(PROBLEM, 3)
    run = run_layer(layer_of(PROBLEM, kernel_of(compiled), *data[1:]), data[0])
    assert (compare(run.y, reference.conv_problem(PROBLEM, *data)).ok, run.findings) == (True, ())
