"""Rows, images and volumes, in any number of groups: three oracles agree pairwise, and ptxas takes the text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import PARTS
from support.oracles import oracles_agree
from support.types import element_types

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.errors import PlanError
from convc.host_layout.groups import choose_packing, tensor_core_work
from convc.ir.epilogue import AddResidual, Clip, Relu, ReluGrad
from convc.ir.problem import ConvProblem

EXAMPLES = 40
"""Per rank."""


@st.composite
def problems(draw, rank: int, grouped: bool = False) -> ConvProblem:
    """Small convolutions with every step and pad."""
    most = {1: 7, 2: 4, 3: 3}[rank]
    kernel, stride, dilation = ([draw(st.integers(1, top)) for _ in range(rank)] for top in (most, 3, 2))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    low, high = ([draw(st.integers(0, 3)) for _ in range(rank)] for _ in range(2))
    extent = [draw(st.integers(max(1, s - a - b), s + 6)) for s, a, b in zip(span, low, high, strict=True)]
    groups = draw(st.sampled_from([2, 3, 8, 17, 40])) if grouped else 1
    return ConvProblem(
        batch=draw(st.integers(1, 3)),
        in_channels=groups * draw(st.sampled_from([1, 2, 4, 24, 70] if grouped else [1, 3, 8, 24, 65])),
        out_channels=groups * draw(st.sampled_from([1, 2, 9, 33] if grouped else [1, 4, 24, 130])),
        groups=groups,
        in_extent=tuple(extent),
        kernel=tuple(kernel),
        stride=tuple(stride),
        dilation=tuple(dilation),
        pad_lo=tuple(low),
        pad_hi=tuple(high),
        bias=draw(st.booleans()),
        **draw(element_types()),
    )


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("rank", [1, 3])
def test_oracles_agree_on_rows_and_volumes(rank, part, assembled):
    @settings(
        max_examples=EXAMPLES // part,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(problems(rank), st.sampled_from(["reload", "auto"]), st.integers(0, 2**32 - 1))
    def every(problem: ConvProblem, schedule: str, seed: int) -> None:
        oracles_agree(problem, seed, assembled, ScheduleOptions(schedule=schedule))

    every()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_oracles_agree_on_groups(rank, part, assembled):
    @settings(
        max_examples=EXAMPLES // rank // part,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(problems(rank, grouped=True), st.sampled_from(["reload", "auto"]), st.integers(0, 2**32 - 1))
    def every(problem: ConvProblem, schedule: str, seed: int) -> None:
        oracles_agree(problem, seed, assembled, ScheduleOptions(schedule=schedule))

    every()


def grouped(channels: int, filters: int, groups: int) -> ConvProblem:
    return ConvProblem(
        in_channels=channels,
        out_channels=filters,
        groups=groups,
        in_extent=(9, 13),
        kernel=(3, 3),
        pad_lo=(1, 1),
        pad_hi=(1, 1),
        bias=True,
    )


GROUPS = [(32, 32, 32, 2), (32, 64, 32, 2), (96, 96, 3, 3), (40, 40, 40, 3), (8, 8, 8, 1), (136, 264, 2, 2)]
TAKE_GROUPS = ("reload", "slide", "shift")
IN_TURNS = [
    pytest.param(schedule, *groups, marks=() if (turn + n) % len(TAKE_GROUPS) == 0 else pytest.mark.slow)
    for turn, groups in enumerate(GROUPS)
    for n, schedule in enumerate(TAKE_GROUPS)
]
"""Two of the groups on each schedule, and all of them in ``make slow``."""


@pytest.mark.parametrize(("schedule", "channels", "filters", "groups", "packing"), IN_TURNS)
def test_every_schedule_takes_groups(schedule, channels, filters, groups, packing, assembled):
    """Depthwise with and without multiplier, wide groups, a last pack that is not full, one pack, several blocks."""
    compiled = oracles_agree(grouped(channels, filters, groups), 1, assembled, ScheduleOptions(schedule=schedule))
    assert compiled.layout.packing.count == packing


def test_stationary_weights_fill_128_rows(assembled):
    oracles_agree(grouped(64, 256, 2), 1, assembled, ScheduleOptions(schedule="stationary"))
    with pytest.raises(PlanError, match="128 columns do not divide the 16 output channels of a group"):
        compile_problem(grouped(32, 32, 32), options=ScheduleOptions(schedule="stationary"))


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.sampled_from(["f16", "tf32"]))
def test_packs_have_no_more_work_than_one_group_each_or_all_in_one(channels, filters, groups, operand):
    problem = ConvProblem(
        in_channels=groups * channels,
        out_channels=groups * filters,
        groups=groups,
        in_extent=(5, 5),
        kernel=(1, 1),
        operand=operand,
        out="f32",
    )
    packing, element = choose_packing(problem), problem.operand_dtype.bytes
    if groups == 1:
        assert packing is None
        return
    apart = groups * -(-channels * element // 32) * -(-filters // 16)
    together = -(-groups * channels * element // 32) * -(-groups * filters // 16)
    assert tensor_core_work(problem, packing) <= together
    assert tensor_core_work(problem, packing) <= apart or channels * element > 128
    assert packing.groups * packing.count >= groups > packing.groups * (packing.count - 1)


@st.composite
def transposed_problems(draw) -> ConvProblem:
    """Transposed convolutions of any rank, with groups, pads that crop more than the filter adds, and extra pixels."""
    rank = draw(st.integers(1, 3))
    most = {1: 7, 2: 4, 3: 3}[rank]
    kernel, stride, dilation, extent = ([draw(st.integers(1, top)) for _ in range(rank)] for top in (most, 4, 3, 5))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    more = [draw(st.integers(0, 3)) for _ in range(rank)]
    room = [(e - 1) * u + s + m - 1 for e, u, s, m in zip(extent, stride, span, more, strict=True)]
    low = [draw(st.integers(0, min(5, r))) for r in room]
    high = [draw(st.integers(0, min(5, r - a))) for r, a in zip(room, low, strict=True)]
    groups = draw(st.sampled_from([1, 1, 2, 17]))
    return ConvProblem(
        batch=draw(st.integers(1, 2)),
        in_channels=groups * draw(st.integers(1, 9)),
        out_channels=groups * draw(st.integers(1, 9)),
        groups=groups,
        in_extent=tuple(extent),
        kernel=tuple(kernel),
        stride=tuple(stride),
        dilation=tuple(dilation),
        pad_lo=tuple(low),
        pad_hi=tuple(high),
        transposed=True,
        output_padding=tuple(more),
        operand="f16",
        out=draw(st.sampled_from(["f16", "f32"])),
        bias=draw(st.booleans()),
    )


@pytest.mark.parametrize("part", PARTS)
def test_oracles_agree_on_transposed_convolutions(part, assembled):
    ways = set()

    @settings(
        max_examples=60 // part,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(transposed_problems(), st.sampled_from(["reload", "auto"]), st.integers(0, 2**32 - 1))
    def every(problem: ConvProblem, schedule: str, seed: int) -> None:
        ways.add(oracles_agree(problem, seed, assembled, ScheduleOptions(schedule=schedule)).layout.forward.strategy)

    every()
    assert ways == {"phases", "dilated"}


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({"kernel": (1, 1), "stride": (2, 2)}, 1),  # the gradient of a 1x1 convolution of stride 2
        ({"kernel": (1, 1), "stride": (2, 3), "pad_lo": (1, 2), "output_padding": (1, 0), "groups": 2}, 1),
        ({"kernel": (2, 3), "stride": (5, 2), "dilation": (2, 1), "pad_lo": (4, 0)}, 2 * 2),
        ({"kernel": (1, 1), "stride": (2, 2), "output_padding": (1, 1), "bias": True}, 4),
        ({"kernel": (1, 1), "stride": (2, 2), "output_padding": (1, 1), "epilogue": (AddResidual(),)}, 4),
        ({"kernel": (1, 1), "stride": (2, 2), "output_padding": (1, 1), "epilogue": (ReluGrad(), Clip(high=6.0))}, 1),
        ({"kernel": (1, 1), "stride": (2, 2), "output_padding": (1, 1), "epilogue": (Clip(low=1.0),)}, 4),
    ],
)
def test_phases_without_a_tap_are_not_multiplied(changes, made, assembled):
    problem = ConvProblem(in_channels=6, out_channels=10, in_extent=(4, 5), transposed=True, **changes)
    layout = oracles_agree(problem, 3, assembled).layout
    assert layout.forward.problem.out_channels == 10 * made


@pytest.mark.parametrize(
    "changes",
    [
        {"in_extent": (9,), "kernel": (3,)},
        {"in_extent": (4, 5, 6), "kernel": (2, 3, 3)},
        {"in_extent": (9, 9), "kernel": (3, 3), "groups": 17, "in_channels": 34, "out_channels": 34},
        {"in_extent": (4, 5), "kernel": (3, 2), "stride": (2, 3), "transposed": True, "output_padding": (1, 0)},
        {"in_extent": (3, 2, 4), "kernel": (3, 2, 1), "stride": (2, 1, 2), "transposed": True, "groups": 2},
    ],
)
def test_a_residual_is_laid_out_as_the_output(changes, assembled):
    problem = ConvProblem(**{"batch": 2, "in_channels": 6, "out_channels": 10, "bias": True} | changes)
    oracles_agree(replace(problem, epilogue=(AddResidual(), Relu())), 5, assembled)
