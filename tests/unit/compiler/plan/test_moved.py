"""Bytes that a launch reads, and that memory moves for it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from convc.compiler.compile import compile_problem
from convc.compiler.index.traffic import Bytes
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.moved import launch_bytes, memory_bytes
from convc.ir.arch import SM_100A, Rates
from convc.ir.problem import ConvProblem
from convc.layout.device_layout import device_layout
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
    assert memory_bytes(replaced(size, size.all), 1) == 0
    assert memory_bytes(replaced(size, size.all - 1), 1) == size.all
    assert memory_bytes(replaced(size, 1), 1) == size.all
    assert memory_bytes(replaced(size, 1), 3) == size.all + 2 * size.activation


def replaced(size: Bytes, l2: int) -> Bytes:
    return msgspec.structs.replace(size, l2=l2)


def test_the_timing_engine_is_told_what_is_read():
    found = compile_problem(replace(LAYER, stride=(2, 2)), options=ScheduleOptions(schedule="reload"))
    order = found.plan.launch.order.timed
    artifact = found.artifact
    timed = time_kernel(artifact.ptx, artifact.launch, {}, read_chip("b200"), order=order)
    assert timed.operands.read == launch_bytes(found.layout, SM_100A.rates).read
    assert timed.operands.read < time_kernel(artifact.ptx, artifact.launch, {}, read_chip("b200")).operands.read
