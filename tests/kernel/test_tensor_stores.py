"""Results that leave through shared memory and tensor copies (``--store tma``): right, or refused."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.test_random_problems import problems
from recordings.hopper_cases import small
from recordings.record_hopper import prepared
from support.examples import PARTS
from support.oracles import oracles_agree

import convc
from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.errors import InputError, PlanError
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.problem import ConvProblem

TMA = ScheduleOptions(store="tma")
HOPPER_TMA = ScheduleOptions(target="sm_90a", store="tma")
SMALL = ConvProblem(in_channels=64, out_channels=96, in_extent=(10, 10), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("operand", ["f16", "s8", "e4m3", "tf32", "mxfp8"])
def test_oracles_agree(operand, part, assembled):
    @settings(max_examples=24 // part, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(problems(operand), st.integers(0, 2**32 - 1))
    def check(problem, seed):
        if problem.out_dtype.bytes == 1 and problem.out_channels <= 16:
            return  # the row is no multiple of 32 bytes, see below
        compiled = oracles_agree(problem, seed, assembled, TMA)
        assert "st.global" not in compiled.artifact.ptx

    check()


@pytest.mark.one_of(2)
@pytest.mark.parametrize("width", [16, 32, 48, 96, 112, 256])
@pytest.mark.parametrize("out", ["f16", "f32"])
def test_every_width_of_a_slab(out, width, assembled):
    problem = dataclasses.replace(SMALL, out=out, out_channels=width - 3, epilogue=(AddResidual(), Relu()))
    compiled = oracles_agree(problem, width, assembled, TMA, block_n=width)
    row = width * problem.out_dtype.bytes
    assert compiled.plan.storage.results.row_bytes == max(slab for slab in (32, 64, 128) if row % slab == 0)


def test_a_schedule_with_other_lanes_is_refused():
    with pytest.raises(
        InputError, match="store tma and schedule stationary exclude each other: its lanes are output channels"
    ):
        compile_problem(SMALL, options=ScheduleOptions(schedule="stationary", store="tma"))


@pytest.mark.parametrize(("out", "width"), [("f16", 48), ("f32", 256), ("s8", 160)])
def test_fragments_are_staged_by_halves_of_a_row(out, width, assembled):
    operand = "s8" if out == "s8" else "f16"
    problem = dataclasses.replace(SMALL, operand=operand, out=out, out_channels=width - 3)
    compiled = oracles_agree(problem, width, assembled, HOPPER_TMA, block_n=width)
    assert compiled.plan.indexing.loads.out.box[1] == 16  # rows of a warp


def test_two_warpgroups_meet_before_results_lie_over_operands():
    pointwise = {"kernel": (1, 1), "pad_lo": (0, 0), "pad_hi": (0, 0)}
    made = prepared(small("wide", "reload", 256, batch=1, out_channels=256, in_extent=(129, 130), **pointwise))
    kernel = made.kernel.artifact
    meet = "bar.sync 1, 256;"
    assert kernel.ptx.count(meet) == 2  # behind the numbers of the channels, and here
    without = convc.simulate("".join(kernel.ptx.rsplit(meet, 1)), kernel.launch, dict(made.buffers), check=True)
    assert {found.rule for found in without.findings} == {"race-shared-memory"}


def test_a_row_that_no_swizzle_spans_is_refused():
    problem = dataclasses.replace(SMALL, operand="s8", out="s8", out_channels=16)
    with pytest.raises(PlanError, match="a row of 16 bytes of results is no multiple of 32"):
        compile_problem(problem, options=TMA, block_n=16)
