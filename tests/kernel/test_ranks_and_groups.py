"""Rows, images and volumes, in any number of groups: three witnesses agree pairwise, and ptxas takes the text."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.witnesses import witnesses_agree

from convc.plan.records import Options
from convc.problem import ConvProblem

EXAMPLES = 40
"""Per rank."""


@st.composite
def problems(draw, rank: int) -> ConvProblem:
    """Small convolutions with every step and pad."""
    most = {1: 7, 2: 4, 3: 3}[rank]
    kernel, stride, dilation = ([draw(st.integers(1, top)) for _ in range(rank)] for top in (most, 3, 2))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    low, high = ([draw(st.integers(0, 3)) for _ in range(rank)] for _ in range(2))
    extent = [draw(st.integers(max(1, s - a - b), s + 6)) for s, a, b in zip(span, low, high, strict=True)]
    operand = draw(st.sampled_from(["f16", "bf16", "tf32"]))
    return ConvProblem(
        batch=draw(st.integers(1, 3)),
        in_channels=draw(st.sampled_from([1, 3, 8, 24, 65])),
        out_channels=draw(st.sampled_from([1, 4, 24, 130])),
        in_extent=tuple(extent), kernel=tuple(kernel), stride=tuple(stride), dilation=tuple(dilation),
        pad_lo=tuple(low), pad_hi=tuple(high), operand=operand,
        out=draw(st.sampled_from(["f32"] if operand == "tf32" else [operand, "f32"])), bias=draw(st.booleans()),
    )  # fmt: skip


@pytest.mark.parametrize("rank", [1, 3])
def test_witnesses_agree_on_rows_and_volumes(rank, assembled):
    @settings(
        max_examples=EXAMPLES, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )  # fmt: skip
    @given(problems(rank), st.sampled_from(["reload", "auto"]), st.integers(0, 2**32 - 1))
    def every(problem: ConvProblem, schedule: str, seed: int) -> None:
        witnesses_agree(problem, seed, assembled, Options(schedule=schedule))

    every()
