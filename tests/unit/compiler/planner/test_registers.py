"""Whether warps that load hand registers over, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.records import LaunchPlan
from convc.compiler.planner.search import plan
from convc.errors import InputError
from convc.host_layout.device_layout import device_layout
from convc.ir.arch import SM_90A
from convc.ir.problem import ConvProblem

WIDE = ConvProblem(name="p", in_channels=128, batch=16, out_channels=256, in_extent=(32, 32), kernel=(1, 1), bias=True)
OPTIONS = ScheduleOptions(schedule="reload", target="sm_90a", persistent="off")


def launch(block_n: int, **options: Any) -> LaunchPlan:
    problem = replace(WIDE, out_channels=block_n)
    return plan(device_layout(problem), options=replace(OPTIONS, **options), block_n=block_n).launch


def test_an_sm_deals_registers_out_by_its_quarters():
    """Three warps in a quarter of 16384 registers; two; all that an instruction can name."""
    assert SM_90A.registers is not None
    assert [SM_90A.registers.share(32 * warps) for warps in (12, 9, 8, 5, 4)] == [168, 168, 256, 256, 256]


@pytest.mark.parametrize(
    ("block_n", "options", "threads", "reason"),
    [
        (256, {"store": "direct"}, 384, "168 a thread are too few for 128 of the accumulator and 48 to store from"),
        (224, {"store": "direct"}, 288, "168 a thread are enough for 112 of the accumulator and 48 to store from"),
        (256, {"store": "tma"}, 288, "168 a thread, 128 of them the accumulator; results leave through shared memory"),
        (256, {"store": "tma", "registers": "on"}, 384, "keep 40 a thread, those that multiply get 200, as requested"),
        (256, {"store": "direct", "registers": "off"}, 288, "no register reallocation, as requested"),
        (32, {"store": "direct", "registers": "on"}, 384, "as requested"),
    ],
)
def test_they_hand_over_what_an_even_share_lacks(block_n: int, options: dict[str, str], threads: int, reason: str):
    found = launch(block_n, **options)
    assert reason in found.why.registers
    assert found.threads == threads
    assert (found.registers is not None) == (threads == 384)


def test_one_warpgroup_is_handed_nothing():
    """It has all registers that an instruction can name; so tiles have 128 rows where handing over is asked for."""
    few = ConvProblem(name="p", in_channels=64, out_channels=32, in_extent=(8, 8), kernel=(1, 1))
    for registers, threads in (("auto", 160), ("on", 384)):
        found = plan(device_layout(few), options=replace(OPTIONS, registers=registers))
        assert found.launch.threads == threads


def test_ctas_that_share_a_tile_hand_nothing_over():
    """What adds sums stands behind the place where all warps meet: ptxas spills 500 bytes there and more."""
    shared = {"store": "direct", "split_k": "2"}
    assert "an even share" in launch(256, **shared).why.registers
    with pytest.raises(InputError, match="registers on and split_k 2 exclude each other: ptxas gives no warp"):
        launch(256, registers="on", **shared)
    with pytest.raises(
        InputError, match=r"(?s)target sm_100a exclude each other: .* tensor memory.*, or ask for target sm_90a"
    ):
        launch(256, registers="on", target="sm_100a")


def test_what_spilled_does_not(assembled):
    """A tile of 128 x 256 whose results leave from registers: with an even share ptxas 13.0 spills 284 bytes."""
    options = replace(OPTIONS, store="direct")
    found = assembled(compile_problem(WIDE, options=options, block_n=256).artifact.ptx, "sm_90a")
    assert (found.spill_bytes, found.registers) == (0, 168)
