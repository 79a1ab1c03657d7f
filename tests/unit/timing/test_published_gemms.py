"""Products of matrices that others measured on a B200 and a B300: whole launches, and steps of optimisation ladders.

Nobody says at which clock these ran, and it falls with the power that a product takes: each source gets one clock, at
which its rows are right on average. Kernels of ladders are built as their sources are; of libraries no source is known,
so theirs is the fastest of some tiles in the form that all quick kernels have (pairs, persistent, stores through TMA).
One source counted the clock, and what memory reads, of four launches: there the name of a library's kernel says its
tile.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import convc
from convc.timing.parameters import read_chip
from tests.support.gemms import Gemm, timed

ROWS = Path(__file__).resolve().parents[2] / "recordings" / "timing" / "gemms.csv"
PROFILED = ROWS.with_name("profiled_gemms.csv")
PAGE = (Path(convc.__file__).parent / "docs" / "timing_measurements.md").read_text("utf-8")

LIBRARY = tuple(
    Gemm(n=n, k=64, stages=stages, pair=True, persistent=148, bulk=32) for n, stages in ((256, 6), (192, 7), (128, 8))
)
"""What a library may choose from."""

CLOCK = 1.4
"""GHz, about what comes out: it says how many bytes a cycle L2 gives."""

KERNELS = {
    "v1": Gemm(n=256, k=256, stages=1, order="serial", row_bytes=16),
    "v2": Gemm(n=256, k=256, stages=1, order="serial"),
    "v3": Gemm(n=256, k=128, stages=2, order="turns"),
    "v4": Gemm(n=128, k=64, stages=7),
    "v5": Gemm(n=256, k=64, stages=7, pair=True),
    "v6": Gemm(n=256, k=64, stages=7, pair=True, persistent=148),
    "v7": Gemm(n=256, k=64, stages=7, pair=True, persistent=128),
    "level 7": Gemm(n=128, k=64, stages=3, bulk=128),
    "level 8": Gemm(n=256, k=64, stages=3, bulk=64),
    "level 9": Gemm(n=256, k=64, stages=4, pair=True, accumulators=2, bulk=32),
    "one CTA": Gemm(n=128, k=64, stages=5, order="ahead", bulk=32, out_bytes=4),
    "one CTA, persistent": Gemm(n=128, k=64, stages=6, bulk=32, out_bytes=4, persistent=148),
    "two CTAs, persistent": Gemm(n=128, k=64, stages=8, bulk=32, out_bytes=4, persistent=148, pair=True),
    "nvjet": Gemm(n=256, k=64, stages=6, bulk=32, out_bytes=4, persistent=148, pair=True),
}  # fmt: skip
"""Kernels whose sources are published; of the last one only its name, which says its tile, stages and pairs."""

LINES = {
    ("clock", "b200"): ("B200, products of 2048 and more, one clock a source", 0.10),
    ("clock", "b300"): ("B300, products of 2048 and more, one clock a source", 0.10),
    ("ladder", "b200"): ("B200, steps of two optimisation ladders", 0.20),
    ("ladder", "b300"): ("B300, steps of an optimisation ladder", 0.28),
}
"""Lines of the page with their bars: of the mean for products, of the worst for steps; the last one should be 0.20."""


PROFILED_LINE = "B300, products whose clock and memory traffic were counted"
PROFILED_BAR = 0.18
"""Of the mean."""


@dataclass(frozen=True, slots=True)
class Row:
    """A published product: its kernel, sides and rate."""

    kernel: str
    sides: tuple[int, int, int]
    tflops: float

    @property
    def microseconds(self) -> float:
        return 2 * math.prod(self.sides) / self.tflops / 1e6


@cache
def published(test: str) -> Mapping[tuple[str, str], Sequence[Row]]:
    """The rows of a test, by chip and source."""
    found = defaultdict(list)
    for row in csv.DictReader(ROWS.read_text("utf-8").splitlines()):
        if row["test"] == test:
            sides = (int(row["m"]), int(row["n"]), int(row["k"]))
            found[row["chip"], row["source"]].append(Row(row["kernel"], sides, float(row["tflops"])))
    return found


@cache
def cycles(kernel: str, sides: tuple[int, int, int], name: str) -> float:
    """Cycles of a launch; a library takes what is fastest, of tiles that need the tensor core less than the widest."""
    chip = read_chip(name).changed({"chip.clock": CLOCK})
    if kernel != "library":
        return timed(KERNELS[kernel], *sides, chip).cycles
    needs = [-(-gemm.tiles(*sides[:2]) * 2 // gemm.persistent) * gemm.n for gemm in LIBRARY]
    sensible = [gemm for gemm, need in zip(LIBRARY, needs, strict=True) if gemm is LIBRARY[0] or need < needs[0]]
    return min(timed(gemm, *sides, chip).cycles for gemm in sensible)


def clocks(rows: Sequence[Row], chip: str) -> list[float]:
    """The clock at which each row would be right."""
    return [cycles(row.kernel, row.sides, chip) / row.microseconds / 1e3 for row in rows]


def errors(test: str, chip: str) -> list[float]:
    """Relative errors: of times at a source's clock, or of the steps from one kernel to the next."""
    found: list[float] = []
    for (of_chip, _), rows in published(test).items():
        if of_chip == chip:
            each = clocks(rows, chip)
            if test == "ladder":
                found += [abs(before / after - 1) for before, after in pairwise(each)]
            else:
                mean = math.exp(float(np.mean(np.log(each))))
                found += [abs(one / mean - 1) for one in each]
    return found


def test_steps_of_a_ladder_are_as_large_as_they_were():
    found = errors("ladder", "b200")
    assert len(found) == 8
    assert max(found) <= 0.20


@pytest.mark.slow
@pytest.mark.parametrize(("test", "chip"), LINES)
def test_published_products_take_as_long_as_they_did(test: str, chip: str):
    line, bar = LINES[test, chip]
    found = errors(test, chip)
    assert max(found) <= bar if test == "ladder" else np.mean(found) <= bar
    said = f"| {line} | {len(found)} | {100 * np.mean(found):.1f} % | {100 * max(found):.1f} % |"
    assert said in PAGE, said


def profiled_error(row: Mapping[str, str]) -> float:
    """Relative error of the cycles of a launch, at the clock and with the traffic of memory that were counted."""
    chip = read_chip(row["chip"]).changed({"chip.clock": float(row["clock_mhz"]) / 1e3})
    sides = (int(row["m"]), int(row["n"]), int(row["k"]))
    fetched = int(row["memory_read_bytes"])
    found = timed(KERNELS[row["kernel"]], *sides, chip, fetched=fetched).cycles
    return found / (float(row["microseconds"]) * float(row["clock_mhz"])) - 1


@pytest.mark.slow
def test_profiled_products_take_as_many_cycles_as_they_did():
    found = [abs(profiled_error(row)) for row in csv.DictReader(PROFILED.read_text("utf-8").splitlines())]
    assert np.mean(found) <= PROFILED_BAR
    said = f"| {PROFILED_LINE} | {len(found)} | {100 * np.mean(found):.1f} % | {100 * max(found):.1f} % |"
    assert said in PAGE, said


def test_rows_that_cannot_be_used_say_why():
    rows = list(csv.DictReader(ROWS.read_text("utf-8").splitlines()))
    assert all(bool(row["test"]) != bool(row["why"]) for row in rows)
