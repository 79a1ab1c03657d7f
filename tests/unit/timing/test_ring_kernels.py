"""Whole launches of ring kernels on an H200: one CTA, a wave of them, CTAs beside each other, and many waves.

The issue cycles of the kernel come from the rows of batch 1 with at most 25 CTAs, all else from the chip's
file, whose numbers are those of probes and counters. The rules of shares were chosen with all rows in sight.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import convc
from convc.timing.chip import Operands, TimedLaunch, time_launch
from convc.timing.parameters import read_chip
from tests.support.ring_kernels import Costs, RingKernel, build

ROWS = Path(__file__).resolve().parents[2] / "recordings" / "timing" / "rings_h200.csv"
PAGE = (Path(convc.__file__).parent / "docs" / "timing_measurements.md").read_text("utf-8")
H200 = read_chip("h200")
COSTS = Costs(prologue=700, step=212, tap=75, row=280, turn=200, store=480, store_column=1.55, end=120)
LINES = {
    "few": "H200, ring kernels, batch 1, at most 25 CTAs",
    "one wave": "H200, other ring kernels in one wave",
    "waves": "H200, ring kernels in several waves",
    "beside": "H200, ring kernels whose CTAs share SMs",
}
BARS = {"few": 0.02, "one wave": 0.03, "waves": 0.05, "beside": 0.07}


@cache
def recorded() -> tuple[Mapping[str, str], ...]:
    return tuple(csv.DictReader(ROWS.read_text().splitlines()))


def group(row: Mapping[str, str]) -> str:
    """What a row is a test of."""
    ctas = int(row["ctas"])
    if ctas <= H200["chip.sms"]:
        return "few" if row["N"] == "1" and ctas <= 25 else "one wave"
    return "waves" if row["ctas_per_sm"] == "1" else "beside"


def launched(row: Mapping[str, str]) -> TimedLaunch:
    """The launch of a row, at the clock that it had."""
    kernel = RingKernel.of(row)
    images, channels, height, width, columns, window = (int(row[key]) for key in ("N", "C", "H", "W", "K", "R"))
    operands = Operands(
        read=2 * channels * (images * height * width + columns * window * window), written=2 * kernel.pixels * columns
    )
    chip = H200.changed({"chip.clock": float(row["sm_ghz"])})
    return time_launch(build(kernel, COSTS), kernel.ctas, kernel.footprint, chip, operands=operands)


def errors(rows: Iterable[Mapping[str, str]]) -> dict[str, list[float]]:
    """Relative errors of spans, by group."""
    found = defaultdict(list)
    for row in rows:
        microseconds = launched(row).cycles / float(row["sm_ghz"]) / 1e3
        found[group(row)].append(abs(microseconds / float(row["span_us"]) - 1))
    return found


def test_a_few_launches_of_each_kind_take_as_long_as_they_did():
    kinds = defaultdict(list)
    for row in recorded():
        kinds[group(row)].append(row)
    found = errors(row for rows in kinds.values() for row in rows[:: len(rows) // 6])
    for kind, errors_of in found.items():
        assert np.mean(errors_of) <= 1.5 * BARS[kind], kind


@pytest.mark.slow
def test_all_launches_take_as_long_as_they_did():
    found = errors(recorded())
    assert {kind: len(errors_of) for kind, errors_of in found.items()} == {
        "few": 132, "one wave": 111, "waves": 93, "beside": 24
    }  # fmt: skip
    for kind, line in LINES.items():
        errors_of = found[kind]
        assert np.mean(errors_of) <= BARS[kind], kind
        said = f"| {line} | {len(errors_of)} | {100 * np.mean(errors_of):.1f} % | {100 * max(errors_of):.1f} % |"
        assert said in PAGE, said
