"""Bytes that a launch reads, and that memory moves for it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from convc.compiler.compile import compile_problem
from convc.compiler.index.traffic import Bytes
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.memory_traffic import launch_bytes, memory_bytes
from convc.compiler.planner.search import plan
from convc.host_layout.device_layout import device_layout
from convc.ir.arch import SM_100A, Rates
from convc.ir.epilogue import AddResidual
from convc.ir.problem import ConvProblem
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip

LAYER = ConvProblem(batch=2, in_channels=64, out_channels=128, in_extent=(16, 16), kernel=(1, 1))
WHOLE = 2 * 64 * 16 * 16 * 2


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({}, 1),
        ({"stride": (2, 1)}, 1 / 2),
        ({"stride": (2, 2)}, 1 / 4),
        ({"stride": (4, 2)}, 1 / 8),
        ({"stride": (2, 2), "kernel": (2, 1)}, 1 / 2),
        ({"stride": (2, 2), "kernel": (3, 3)}, 1),
        ({"stride": (2, 2), "kernel": (3, 3), "dilation": (2, 2)}, 1 / 4),
        ({"stride": (3, 3), "kernel": (2, 2), "dilation": (2, 3)}, 2 / 9),
    ],
)
def test_rows_and_columns_that_no_tap_reads_are_not_read(changes, part):
    layout = device_layout(replace(LAYER, **changes))
    assert launch_bytes(layout, Rates()).activation == pytest.approx(part * WHOLE, abs=1)


def test_memory_moves_what_l2_does_not_hold():
    layout = device_layout(replace(LAYER, stride=(2, 2), bias=True))
    size = launch_bytes(layout, Rates())
    assert memory_bytes(replaced(size, size.all), (1, 1), free=False) == 0
    assert memory_bytes(replaced(size, size.all - 1), (1, 1), free=False) == size.all
    assert memory_bytes(replaced(size, 1), (1, 1), free=False) == size.all
    assert memory_bytes(replaced(size, 1), (1, 3), free=False) == size.all + 2 * size.activation


def test_rows_of_tiles_read_activations_once_and_the_filter_again_where_l2_does_not_hold_it():
    size = msgspec.structs.replace(launch_bytes(device_layout(LAYER), Rates()), l2=100, activation=1000, filter=50)
    assert memory_bytes(size, (4, 3), free=False) == size.all + 2 * size.activation
    assert memory_bytes(size, (4, 3), free=True) == size.all + 3 * size.filter
    beside = size.activation + size.residual + size.output
    assert memory_bytes(size, (beside // 50, 3), free=True) == size.all
    wide = msgspec.structs.replace(size, filter=1200)
    assert memory_bytes(wide, (4, 2), free=True) == wide.all + wide.activation
    assert memory_bytes(size, (4, 1), free=True) == size.all


def test_a_residual_that_copies_bring_is_seen_through_the_memory_that_orders_save():
    """A 1x1 layer of ResNet-50 at batch 256: along M first memory would hide that threads are slow to read it."""
    layer = ConvProblem(
        batch=256, in_channels=256, out_channels=512, in_extent=(56, 56), kernel=(1, 1), stride=(2, 2), out="f32",
        epilogue=(AddResidual(),),
    )  # fmt: skip
    found = {way: plan(device_layout(layer), options=ScheduleOptions(residual_load=way)) for way in ("auto", "direct")}
    assert found["auto"].storage.residual is not None
    assert found["auto"].estimate.cycles < 0.85 * found["direct"].estimate.cycles


def replaced(size: Bytes, l2: int) -> Bytes:
    return msgspec.structs.replace(size, l2=l2)


def test_the_timing_engine_is_told_what_is_read():
    found = compile_problem(replace(LAYER, stride=(2, 2)), options=ScheduleOptions(schedule="reload"))
    order = found.plan.launch.order.timed
    artifact = found.artifact
    timed = time_kernel(artifact.ptx, artifact.launch, {}, read_chip("b200"), order=order)
    assert timed.operands.read == launch_bytes(found.layout, SM_100A.rates).read
    assert timed.operands.read < time_kernel(artifact.ptx, artifact.launch, {}, read_chip("b200")).operands.read
