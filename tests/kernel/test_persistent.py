"""Persistent CTAs (``--persistent on``): right, or refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.test_random_problems import problems
from support.examples import PARTS
from support.oracles import oracles_agree

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.errors import InputError, PlanError
from convc.explain.why import store_line
from convc.host_layout.device_layout import device_layout
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.findings import Verdict
from convc.ir.problem import ConvProblem
from convc.sanitizer.run import check_kernel

SMALL = ConvProblem(
    batch=3, in_channels=64, out_channels=96, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)


def walking(ctas: int, schedule: str = "reload", store: str = "auto", **more: str) -> ScheduleOptions:
    """Options for a kernel with persistent CTAs, so few that each has several tiles."""
    return ScheduleOptions(schedule=schedule, store=store, persistent="on", ctas=ctas, **more)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("operand", ["f16", "s8", "tf32"])
def test_oracles_agree(operand, part, assembled):
    @settings(max_examples=16 // part, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(problems(operand), st.integers(0, 2**32 - 1), st.integers(1, 3), st.booleans())
    def check(problem, seed, ctas, copied):
        if copied and problem.out_dtype.bytes == 1 and problem.out_channels <= 16:
            return  # the row is no multiple of 32 bytes
        oracles_agree(problem, seed, assembled, walking(ctas, store="tma" if copied else "direct"))

    check()


@pytest.mark.one_of(2)
@pytest.mark.parametrize("ctas", [1, 2, 3, 5])
@pytest.mark.parametrize("store", ["direct", "tma"])
def test_every_number_of_tiles(store, ctas, assembled):
    problem = dataclasses.replace(SMALL, epilogue=(AddResidual(), Relu()))
    compiled = oracles_agree(problem, ctas, assembled, walking(ctas, store=store), block_n=48)
    assert compiled.plan.launch.tiles == (4, 2)
    assert compiled.program.visits == -(-8 // compiled.plan.launch.ctas)


@pytest.mark.parametrize(
    ("changes", "width"),
    [
        ({"bias": True, "epilogue": (AddResidual(), Relu())}, 96),
        ({"bias": True, "out_channels": 64}, 64),
    ],
)
def test_numbers_of_channels_that_all_tiles_have_stay_in_registers(changes, width, assembled):
    problem = dataclasses.replace(SMALL, **changes)
    options = walking(2, "slide", "tma", border="mask")
    compiled = oracles_agree(problem, 4, assembled, options, block_n=width)
    assert compiled.program.visits == 2
    text = compiled.artifact.ptx
    held = text.count("ld.global.nc.v4.b32")
    assert held == width // 4
    assert "ld.shared.v4.f32" not in text
    assert "stay in registers" in store_line(compiled.plan)
    apart = plan(device_layout(problem), options=options, block_n=width // 2)
    assert apart.storage.numbers is not None, "tiles side by side have channels of their own"


def test_two_numbers_of_a_channel_stay_in_shared_memory():
    """A requantised result has a multiplier besides its bias."""
    problem = dataclasses.replace(SMALL, operand="s8", out="s8", bias=True, out_channels=64, out_zero_point=3)
    found = plan(device_layout(problem), options=walking(2, "slide", "tma", border="mask"), block_n=64)
    assert found.storage.numbers is not None


@pytest.mark.one_of(2)
@pytest.mark.parametrize("rows", ["merged", "outer"])
@pytest.mark.parametrize(
    "forms", [{"schedule": "slide"}, *({"schedule": "shift", "shift": each} for each in ("chain", "ashift", "windows"))]
)
def test_every_tile_has_masks_of_its_own(forms, rows, assembled):
    """Seven images of 84 pixels: each tile begins at another place of a row, and of an image."""
    problem = dataclasses.replace(SMALL, batch=7, in_channels=24, out_channels=32, in_extent=(7, 12), bias=True)
    options = walking(3, border="mask", rows=rows, cta_group="1", **forms)
    compiled = oracles_agree(problem, 7, assembled, options, block_n=16)
    assert (compiled.plan.storage.masks, compiled.plan.storage.mask_tables) == (6 if rows == "merged" else 3, 2)
    assert compiled.program.visits >= 4


@pytest.mark.parametrize(
    "more",
    [{"cta_group": "2"}, {"rasterization_order": "hilbert", "cta_group": "1"}, {"multicast": "2x1", "cta_group": "1"}],
)
def test_masks_of_ctas_that_walk_together_or_in_order(more, assembled):
    problem = dataclasses.replace(SMALL, batch=7, in_channels=24, out_channels=32, in_extent=(7, 12))
    options = walking(4, "slide", border="mask", rows="merged", **more)
    oracles_agree(problem, 8, assembled, options, block_n=16)


def test_masks_that_are_awaited_by_the_tensor_core_alone_pass_the_check():
    """Races, late and random copies: nothing tells when a table has been read but the accumulator that is complete."""
    problem = dataclasses.replace(SMALL, batch=7, in_channels=24, out_channels=32, in_extent=(7, 12))
    made = compile_problem(problem, options=walking(3, "slide", border="mask", rows="merged"), block_n=16).artifact
    buffers = {name: np.ones(spec.shape, ARRAY_TYPES[spec.dtype]) for name, spec in made.launch.buffers.items()}
    assert check_kernel(made.ptx, made.launch, buffers).verdict is Verdict.clean


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("schedule", "store"), [("reload", "direct"), ("reload", "tma"), ("slide", "auto")])
@pytest.mark.parametrize("ctas", [1, 3])
def test_accumulators_in_registers(ctas, schedule, store, assembled):
    """Of 64 and of 128 rows; the last tiles have channels and pixels that are none."""
    problem = dataclasses.replace(SMALL, in_channels=96, out_channels=90, bias=True, epilogue=(AddResidual(), Relu()))
    compiled = oracles_agree(problem, ctas, assembled, walking(ctas, schedule, store, target="sm_90a"), block_n=48)
    tiles = math.prod(compiled.plan.launch.tiles)
    assert compiled.program.visits == -(-tiles // compiled.plan.launch.ctas) > 1


@pytest.mark.parametrize("operand", ["f16", "s8"])
def test_oracles_agree_on_hopper(operand, assembled):
    @settings(max_examples=6, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(problems(operand), st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from(["reload", "slide"]))
    def check(problem, seed, ctas, schedule):
        try:
            oracles_agree(problem, seed, assembled, walking(ctas, schedule, target="sm_90a"))
        except PlanError:
            return  # slide cannot share activations in every convolution

    check()


@pytest.mark.one_of(2)
@pytest.mark.parametrize("shift", ["auto", "chain", "ashift", "windows"])
def test_schedules_that_share_activations(shift, assembled):
    options = walking(3, "slide" if shift == "auto" else "shift", shift=shift)
    problem = dataclasses.replace(SMALL, in_extent=(4, 140))  # an output row is longer than a tile
    assert oracles_agree(problem, 5, assembled, options, block_n=48).program.visits > 3


def test_weights_that_stay(assembled):
    problem = dataclasses.replace(SMALL, batch=1, out_channels=200)
    assert oracles_agree(problem, 5, assembled, walking(2, "stationary")).program.visits > 1


def test_the_planner_takes_what_it_finds_faster_and_says_why():
    layer = ConvProblem(batch=32, in_channels=64, out_channels=64, in_extent=(56, 56), kernel=(1, 1))
    plans = {
        choice: plan(device_layout(layer), options=ScheduleOptions(schedule="reload", persistent=choice), block_n=64)
        for choice in ("auto", "off", "on")
    }
    assert {plan.launch.tiles for plan in plans.values()} == {(784, 1)}
    assert plans["auto"].estimate.cycles == min(plan.estimate.cycles for plan in plans.values())
    assert plans["on"].launch.grid == (131, 1, 1)  # six turns, as many as 148 CTAs would need
    assert "131 persistent CTAs for 784 tiles" in plans["auto"].launch.why.persistent
    hopper = plan(device_layout(layer), options=ScheduleOptions(target="sm_90a"))
    assert "131 persistent CTAs for 784 tiles" in hopper.launch.why.persistent
    assert hopper.tiling.b_stages > hopper.pipeline.steps  # the copies of several tiles run ahead
    few = plan(device_layout(SMALL))
    assert few.launch.why.persistent == f"one CTA per tile, as {few.launch.ctas} tiles fit on the 148 SMs"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"persistent": "off", "ctas": 2}, InputError, "ctas 2 needs persistent on, and persistent is off"),
        ({"ctas": 2}, InputError, "ctas 2 needs persistent on, and persistent is auto"),
        (
            {"persistent": "on", "ctas": 0},
            InputError,
            "ctas must be auto or in 1..2147483647, as many as a grid has, got 0",
        ),
        (
            {"persistent": "on", "schedule": "slide", "border": "mask", "tile_scheduler": "dynamic"},
            PlanError,
            "masks lanes, and a dynamic tile scheduler assigns tiles too late for that",
        ),
    ],
)
def test_what_cannot_be_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        plan(device_layout(SMALL), options=ScheduleOptions(**options))


@pytest.mark.parametrize("walks", ["on", "off"])
def test_ptxas_may_give_a_cta_that_walks_all_registers_of_an_sm(walks, assembled):
    """Left to itself it gives 40 to a thread of this kernel and spills 4 bytes."""
    problem = ConvProblem(in_channels=1, out_channels=65, in_extent=(1, 2), kernel=(1, 2), operand="f16", out="f16")
    options = dataclasses.replace(walking(2, store="direct"), persistent=walks, ctas=2 if walks == "on" else "auto")
    made = compile_problem(problem, options=options).artifact.ptx
    assert (".minnctapersm 1\n" in made) == (walks == "on")
    assert assembled(made, "sm_100a").spill_bytes == 0
