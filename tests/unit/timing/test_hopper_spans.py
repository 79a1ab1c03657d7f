"""Kernels with wgmma, as an H200 timed them (`spans_h200.csv`, `stores_h200.csv`), against the model of its chip.

The numbers of stores come from the table of their patterns. That a CTA is replaced when its stores are with L2, and the
registers of a thread where ptxas is not asked, were chosen with these launches in sight. What the chip's file says of
the first copy, of the end of a launch and of equal requests comes from the rows with a width, which have other lines.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from recordings.record_rows import EXTENT, Rows, variants
from recordings.record_rows import ROWS as COPIED
from recordings.record_stores import PATTERNS, places_of
from support.recorded_kernels import read_kernels

import convc
from convc.timing.accesses import requests, sectors
from convc.timing.kernel import KernelTime, time_kernel
from convc.timing.parameters import read_chip

FOLDER = Path(__file__).parents[2] / "recordings" / "timing"
H200 = read_chip("h200")

DOCS = Path(convc.__file__).parent / "docs"
PAGE = (DOCS / "timing_measurements.md").read_text("utf-8")
LAUNCHES = (DOCS / "hardware_measurements.md").read_text("utf-8")
LINES = {
    "one wave": "H200, kernels of convc with wgmma in one wave, but conv1",
    "waves": "H200, kernels of convc with wgmma in several waves, but conv1",
    "walking": "H200, kernels of convc with wgmma with persistent CTAs, but conv1",
    "conv1": "H200, conv1 with wgmma, batch 1, 8 and 32",
    "one wave, widths": "H200, 1x1 convolutions with tiles of a given width, in one wave",
    "waves, widths": "H200, 1x1 convolutions with tiles of a given width, in several waves",
}
BARS = {"one wave": 0.050, "waves": 0.070}
"""Those that were aimed at."""

FEW = {"layer2.1.conv1_b8_f16", "layer2.0.conv2_b32_f16_slide", "layer2.1.conv1_b32_f16", "layer4.0.conv3_b1_f16 256"}
"""Launches in one wave and in several, of both schedules."""


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_stores_take_a_cycle_a_sector_and_one_a_line_in_part():
    alone = {row["pattern"]: float(row["cycles"]) for row in rows("stores_h200.csv") if row["ctas"] == "1"}
    everywhere = {row["pattern"]: float(row["cycles"]) for row in rows("stores_h200.csv") if row["ctas"] == "132"}
    for name, pattern in PATTERNS.items():
        touched, part = sectors(places_of(*pattern).astype(np.int64), 16)
        said = touched * H200["threads.sector"] + part * H200["threads.part_line"]
        low = H200.parameters["threads.sector"].range[0] if name == "all in a row" else 1.0
        assert low * said == pytest.approx(alone[name], rel=0.025), name
        assert everywhere[name] / alone[name] == pytest.approx(H200["threads.stores_of_all"], rel=0.1), name


def starts_of(row: Rows) -> np.ndarray:
    """Where the rows of a CTA's first copy begin in memory."""
    line, column = np.divmod(np.arange(COPIED), 64 if row.mode == "tile" else row.columns)
    return np.full(COPIED, -1) if row.outside else (line * EXTENT + column) * row.pitch * row.step


def test_a_copy_takes_a_cycle_for_each_request():
    """No constant was chosen with these in sight: requests are counted, and the port's rate has rows of its own."""
    alone = [float(row["cycles"]) for row in rows("rows_h200.csv") if row["ctas"] == "1"]
    for row, cycles in zip(variants(), alone, strict=True):
        asked = requests(starts_of(row), row.real, row.box)
        assert max(asked, row.box * COPIED / H200["tma.fill"]) == pytest.approx(cycles, rel=0.06), row


def errors(names: set[str] | None, told: dict[str, list[str]] | None = None) -> dict[str, list[float]]:
    """What is said over what was measured, less 1, of some of the kernels at the clock that they had; None: of all.

    ``told``: gets what the page says of the layers in float16, a CTA for each tile: measured and said.
    """
    kernels = read_kernels(FOLDER / "spans_h200.json.xz")
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows("spans_h200.csv"):
        name = f"{row['case']} {row['width']}".strip()
        if names is None or name in names:
            chip = H200.changed({"chip.clock": float(row["sm_ghz"])})
            said = time_kernel(kernels[name].ptx, kernels[name].launch, {}, chip)
            found[group(row, said)].append(said.microseconds / float(row["span_us"]) - 1)
            layer, _, rest = name.partition("_b")
            if told is not None and rest in ("1_f16", "8_f16", "32_f16"):
                told[layer].append(f"{float(row['span_us']):.1f} : {said.microseconds:.1f}")
    return found


def group(row: dict[str, str], found: KernelTime) -> str:
    """The line of the page that a row belongs to."""
    if row["case"].startswith("conv1_"):
        return "conv1"
    if "walks" in row["tiling"]:
        return "walking"
    wave = "one wave" if found.launch.rounds == 1 else "waves"
    return f"{wave}, widths" if row["width"] else wave


def test_a_few_launches_of_an_h200():
    found = errors(FEW)
    assert sum(map(len, found.values())) == len(FEW)
    assert max(abs(error) for each in found.values() for error in each) < 0.08


@pytest.mark.slow
def test_all_launches_of_an_h200():
    told: dict[str, list[str]] = defaultdict(list)
    found = errors(None, told)
    for layer, cells in told.items():
        said = f"| {layer} | {' | '.join(cells)} |"
        assert said in LAUNCHES, said
    for kind, line in LINES.items():
        off = np.abs(found[kind])
        assert off.mean() <= BARS.get(kind, 1.0), kind
        said = f"| {line} | {len(off)} | {100 * off.mean():.1f} % | {100 * off.max():.1f} % |"
        assert said in PAGE, said
