"""A residual that tensor copies bring ahead of need (``--residual-load tma``): right, or refused."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.test_random_problems import problems
from support.examples import PARTS
from support.oracles import oracles_agree

from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.errors import InputError, PlanError
from convc.explain.why import why_lines
from convc.host_layout.device_layout import device_layout
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.problem import ConvProblem

ADDED = ConvProblem(
    batch=3,
    in_channels=64,
    out_channels=100,
    in_extent=(9, 9),
    kernel=(1, 1),
    epilogue=(AddResidual(), Relu()),
)
"""Two tiles of pixels, the second one with rows behind the output, and channels behind it too."""


def copied(**more: object) -> ScheduleOptions:
    """Options for a kernel whose residual is copied."""
    return ScheduleOptions(**{"schedule": "reload", "residual_load": "tma"} | more)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("operand", ["f16", "tf32", "mxfp8"])
def test_oracles_agree(operand, part, assembled):
    @settings(max_examples=12 // part, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(problems(operand), st.integers(0, 2**32 - 1), st.integers(0, 3))
    def check(problem, seed, ctas):
        if problem.out_dtype.integer:
            return  # sums of whole numbers have no residual
        walked = {"persistent": "on", "ctas": ctas} if ctas and operand != "mxfp8" else {}
        compiled = oracles_agree(
            dataclasses.replace(problem, epilogue=(AddResidual(),)), seed, assembled, copied(**walked)
        )
        assert "%residual," not in compiled.artifact.ptx  # no thread knows where it lies

    check()


@pytest.mark.parametrize(("block_n", "out"), [(16, "f16"), (48, "bf16"), (96, "f32"), (128, "f16")])
def test_every_width_of_a_slab(out, block_n, assembled):
    operand = "bf16" if out == "bf16" else "f16"
    problem = dataclasses.replace(ADDED, operand=operand, out=out)
    compiled = oracles_agree(problem, block_n, assembled, copied(), block_n=block_n)
    assert compiled.plan.storage.residual.row_bytes == compiled.plan.storage.results.row_bytes


@pytest.mark.parametrize("ctas", [1, 3])
def test_ctas_that_walk(ctas, assembled):
    compiled = oracles_agree(ADDED, ctas, assembled, copied(persistent="on", ctas=ctas), block_n=48)
    assert compiled.plan.launch.tiles == (2, 3)


def test_the_planner_takes_what_it_finds_faster_and_says_why():
    layer = dataclasses.replace(ADDED, batch=32, out_channels=256, in_extent=(56, 56))
    plans = {
        way: plan(device_layout(layer), options=copied(residual_load=way), block_n=128)
        for way in ("auto", "direct", "tma")
    }
    assert plans["auto"].estimate.cycles == min(plan.estimate.cycles for plan in plans.values())
    assert plans["auto"].storage.residual is not None is not plans["tma"].storage.residual
    assert plans["direct"].storage.residual is None
    said = {way: list(why_lines(found))[-2] for way, found in plans.items()}
    numbers = re.search(r"takes about (\d+) cycles per CTA, and (\d+) if its threads load it$", said["auto"])
    assert int(numbers[1]) < int(numbers[2])
    assert said["direct"].endswith("the threads of the epilogue: as requested, or because it is no slower")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"store": "direct"},
            InputError,
            "the residual is loaded to where results are staged, and store direct stages none",
        ),
        (
            {"target": "sm_90a"},
            InputError,
            "residual_load tma and target sm_90a exclude each other: each lane must hold a row of the accumulator",
        ),
        (
            {"schedule": "stationary"},
            PlanError,
            "residual_load tma goes with store tma, and results of stationary leave from reg",
        ),
        ({"residual_load": "later"}, InputError, "residual_load must be one of auto, direct, tma, got 'later'"),
    ],
)
def test_what_cannot_be_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        plan(device_layout(dataclasses.replace(ADDED, kernel=(3, 3))), options=copied(**options))


def test_a_layer_without_a_residual_is_planned_as_before():
    layer = dataclasses.replace(ADDED, epilogue=())
    assert plan(device_layout(layer), options=copied()) == plan(
        device_layout(layer), options=copied(residual_load="auto")
    )
