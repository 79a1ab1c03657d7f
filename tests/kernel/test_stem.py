"""Kernels whose filter columns are channels: three oracles agree, and the stem of a network multiplies a third."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import PARTS
from support.oracles import oracles_agree

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.errors import InputError, PlanError
from convc.ir.columns import COLUMNS
from convc.ir.problem import ConvProblem

STEM = ConvProblem(
    in_channels=3, out_channels=64, in_extent=(224, 224), kernel=(7, 7), stride=(2, 2), pad_lo=(3, 3), pad_hi=(3, 3),
    bias=True,
)  # fmt: skip
STEM_USEFUL = 147 / (7 * 32)
"""7 x 7 x 3 products a pixel and output channel, of 7 rows of 32 channels."""


@st.composite
def problems(draw) -> ConvProblem:
    """One to eight channels, filters of 1 to 11 rows and 2 to 11 columns, strides 1 to 3, pads on every side."""
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(2, 11)))
    pads = draw(st.tuples(*[st.integers(0, 4)] * 4))
    extent = [
        draw(st.integers(max(1, taps - low - high), taps + 14))
        for taps, low, high in zip(kernel, pads[:2], pads[2:], strict=True)
    ]
    operand = draw(st.sampled_from(["f16", "bf16", "tf32", "e4m3", "s8", "u8"]))
    return ConvProblem(
        batch=draw(st.integers(1, 3)),
        in_channels=draw(st.integers(1, 8)),
        out_channels=draw(st.sampled_from([1, 16, 40, 70])),
        in_extent=tuple(extent),
        kernel=kernel,
        stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        pad_lo=pads[:2],
        pad_hi=pads[2:],
        operand=operand,
        out="s32" if operand in ("s8", "u8") else "f32",
        bias=draw(st.booleans()),
    )


OPTIONS = [
    ScheduleOptions(columns=columns, schedule=schedule, target=target)
    for columns in ("overlap", "host")
    for schedule, target in (
        ("reload", "sm_100a"),
        ("slide", "sm_100a"),
        ("shift", "sm_100a"),
        ("stationary", "sm_100a"),
        ("reload", "sm_90a"),
        ("slide", "sm_90a"),
    )
]


@pytest.mark.parametrize("part", PARTS)
def test_three_oracles_agree(part, assembled):
    @settings(
        max_examples=120 // part,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(problems(), st.sampled_from(OPTIONS), st.integers(0, 2**32 - 1))
    def every(problem: ConvProblem, options: ScheduleOptions, seed: int) -> None:
        compiled = oracles_agree(problem, seed, assembled, options)
        assert compiled.layout.columns == options.columns

    every()


@pytest.mark.parametrize(
    ("batch", "mmas", "gain"),
    [(1, 1372, 0.5), (32, 43904, 0.5), (256, 351232, 0.51)],
)
def test_the_stem_of_resnet(batch, mmas, gain):
    """Auto takes rows that overlap, in about half of the time; at batch 1, reload issues 4802 MMAs for 49 taps."""
    stem = dataclasses.replace(STEM, batch=batch)
    compiled = compile_problem(stem)
    plain = compile_problem(stem, options=ScheduleOptions(columns="off"))
    plan = compiled.plan
    assert compiled.layout.columns == "overlap"
    assert plan.work.mmas * math.prod(plan.launch.tiles) == mmas
    assert plan.estimate.model_share == pytest.approx(STEM_USEFUL)
    assert plan.estimate.cycles < gain * plain.plan.estimate.cycles
    assert [each.columns for each in plan.columns] == list(COLUMNS)
    assert plan.columns[0].cycles == plain.plan.estimate.cycles


def test_a_named_schedule_keeps_its_columns():
    compiled = compile_problem(STEM, options=ScheduleOptions(schedule="slide"))
    assert (compiled.layout.columns, compiled.plan.columns) == ("off", ())


def test_wide_pixels_are_not_looked_at():
    assert compile_problem(dataclasses.replace(STEM, in_channels=16)).plan.columns == ()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            ScheduleOptions(columns="on"),
            InputError,
            "columns must be one of auto, off, overlap, host, summed, got 'on'",
        ),
        (
            ScheduleOptions(columns="host"),
            PlanError,
            "filter columns cannot become channels: the filter has one column",
        ),
    ],
)
def test_what_is_not_possible_is_said(options, error, message):
    with pytest.raises(error, match=message):
        compile_problem(dataclasses.replace(STEM, kernel=(7, 1)), options=options)
