"""Copies of all SMs from memory, by bytes in flight of each: what one SM gets.

The thread waits as the measured loops do: what it sees late is in the latency that they gave. Three rows a chip set the
latency, the rate of memory and the knee between them.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import convc
from convc.timing.engine import Replay
from convc.timing.parameters import Chip, read_chip
from convc.timing.shares import sm_share
from tests.support.loops import copies

ROWS = Path(__file__).resolve().parents[2] / "recordings" / "timing" / "in_flight.csv"
PAGE = (Path(convc.__file__).parent / "docs" / "timing_measurements.md").read_text("utf-8")
SEEN_AT_ONCE = {"mbarrier.wake": 1e-6, "mbarrier.poll": 1e-6}
CHIPS = {
    "b200": read_chip("b200").changed({**SEEN_AT_ONCE, "chip.clock": 1.965, "tma.issue": 49}),
    "h200": read_chip("h200").changed({**SEEN_AT_ONCE, "tma.issue": 7}),
}
"""Chips at the clock of the measurement, with the issue of copies behind each other without a loop."""

TURNS = 120
LINES = {
    ("b200", "calibrate"): ("B200, copies from memory by bytes in flight, three rows", 0.12),
    ("b200", "held-out"): ("B200, copies from memory by bytes in flight, the others", 0.12),
    ("h200", "calibrate"): ("H200, copies from memory by bytes in flight, three rows", 0.06),
    ("h200", "held-out"): ("H200, copies from memory by bytes in flight, the others", 0.06),
}


def rate(chip: Chip, rows: int, in_flight: int) -> float:
    """Bytes a cycle that an SM gets while all copy from memory."""
    share = sm_share(chip, chip["chip.sms"], missed=1.0, traffic=1.0)
    replay = Replay(copies(rows, in_flight, TURNS), chip, share, 1)
    replay.run()
    first, last = (replay.work_ends[turn][0] for turn in (TURNS // 3, TURNS - 1))
    return rows * 128 * (TURNS - 1 - TURNS // 3) / (last - first)


@cache
def errors() -> dict[tuple[str, str], list[float]]:
    """Relative errors by chip and use."""
    found = defaultdict(list)
    for row in csv.DictReader(ROWS.read_text().splitlines()):
        modelled = rate(CHIPS[row["chip"]], int(row["rows"]), int(row["copies"]))
        found[row["chip"], row["use"]].append(abs(modelled / float(row["bytes_per_clk"]) - 1))
    return found


@pytest.mark.parametrize("group", LINES, ids=" ".join)
def test_an_sm_gets_what_was_measured(group):
    line, bar = LINES[group]
    found = errors()[group]
    assert np.mean(found) <= bar
    said = f"| {line} | {len(found)} | {100 * np.mean(found):.1f} % | {100 * max(found):.1f} % |"
    assert said in PAGE, said
