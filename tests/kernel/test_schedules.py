"""Every schedule on random convolutions: three oracles agree pairwise, and ptxas takes the text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.oracles import oracles_agree
from support.schedules import only
from support.types import element_types

from convc.compiler.schedules.all import sharing
from convc.compiler.schedules.base import FILTERS, ROWS, Schedule
from convc.errors import PlanError
from convc.ir.problem import ConvProblem

EXAMPLES, MANY = 6, 300
"""Per schedule: by default, and in the slow suite."""


@st.composite
def problems(draw) -> ConvProblem:
    """Rows around every edge of the walk: strides 1 to 4, 1 to 11 taps, dilations 1 to 3, any padding, small images."""
    kernel = (draw(st.integers(1, 3)), draw(st.one_of(st.integers(1, 5), st.integers(6, 11))))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 3)))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    same = draw(st.booleans())
    pads = draw(st.tuples(*[st.integers(0, min(s, 12)) for s in (*span, *span)]))
    if same:
        pads = (span[0] // 2, span[1] // 2, (span[0] - 1) // 2, (span[1] - 1) // 2)
    types = draw(element_types())
    extent = [
        draw(st.integers(max(1, s - low - high), s + reach))
        for s, low, high, reach in zip(span, pads[:2], pads[2:], (6, 24), strict=True)
    ]
    return ConvProblem(
        batch=draw(st.integers(1, 5)),
        in_channels=draw(st.sampled_from([3, 8, 20, 33, 64, 72, 130])),
        out_channels=draw(st.sampled_from([5, 16, 33, 64, 130])),
        in_extent=tuple(extent),
        kernel=kernel,
        stride=(draw(st.integers(1, 3)), draw(st.integers(1, 4))),
        dilation=dilation,
        pad_lo=pads[:2],
        pad_hi=pads[2:],
        bias=draw(st.booleans()),
        **types,
    )


def check_many(schedule: Schedule, examples: int, assembled) -> None:
    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
    )
    @given(
        problems(),
        st.sampled_from(["auto", "mask", "zero"]),
        st.sampled_from(["auto", *ROWS]),
        st.sampled_from(["auto", *FILTERS]),
        st.integers(1, 3),
        st.integers(0, 2**32 - 1),
    )
    def every(problem: ConvProblem, border: str, rows: str, filters: str, stages: int, seed: int) -> None:
        filters = filters if schedule.name == "slide" else "auto"
        options = replace(only(schedule, border, rows), filters=filters)
        try:
            compiled = oracles_agree(problem, seed, assembled, options, stages=stages)
        except PlanError:
            assume(False)
        assert compiled.plan.schedule == schedule.id

    every()


@pytest.mark.parametrize("schedule", sharing(), ids=lambda schedule: schedule.id.title)
def test_oracles_agree(schedule, assembled):
    check_many(schedule, EXAMPLES, assembled)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", sharing(), ids=lambda schedule: schedule.id.title)
def test_oracles_agree_on_many(schedule, assembled):
    check_many(schedule, MANY, assembled)
