"""The planner counts requests of TMA as the timing engine does, which counts those of every row of a copy."""

from __future__ import annotations

import numpy as np
import pytest

from convc.compiler.plan.requests import row_cycles, row_requests
from convc.host_layout.device_layout import device_layout
from convc.ir.arch import SM_100A
from convc.ir.problem import ConvProblem
from convc.timing.accesses import requests


@pytest.mark.parametrize("row", [32, 64, 128])
def test_a_row_takes_what_the_engine_counts(row):
    for start in range(0, 256, 16):
        for size in range(2, row + 1, 2):
            assert row_requests(start, size, row) == requests(np.array([start]), size, row), (start, size)


@pytest.mark.parametrize(
    ("channels", "row", "cycles"),
    [
        (64, 128, 128 / 125.5),  # whole lines
        (32, 64, 1.0),  # whole sectors of one line
        (96, 128, (1.5 + 2) / 2),  # from the middle of a line on every second pixel; then half of a row is filled in
        (16, 32, 1.0),
    ],
)
def test_cycles_are_those_of_all_places_of_a_pixel(channels, row, cycles):
    layout = device_layout(ConvProblem(in_channels=channels, out_channels=16, in_extent=(8, 8), kernel=(3, 3)))
    assert row_cycles(layout, row, SM_100A.rates) == pytest.approx((cycles, cycles))
