"""Kernels with wgmma, as an H200 timed them (`spans_h200.csv`, `stores_h200.csv`), against the model of its chip.

The numbers of stores come from the table of their patterns. That a CTA is replaced when its stores are with L2, and the
registers of a thread where ptxas is not asked, were chosen with these launches in sight. What the chip's file says of
the first copy and of the end of a launch comes from the rows with a width, which are in no line here.
"""

from __future__ import annotations

import csv
import dataclasses
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from recordings.hopper_cases import TARGET, cases
from recordings.record_rows import EXTENT, Rows, variants
from recordings.record_rows import ROWS as COPIED
from recordings.record_stores import PATTERNS, places_of

import convc
from benchmarks.ablation import LAYERS
from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.ir.launch import KernelArtifact
from convc.timing.accesses import requests, sectors
from convc.timing.kernel import KernelTime, time_kernel
from convc.timing.parameters import read_chip
from tests.support.recorded_plans import with_tiling

FOLDER = Path(__file__).parents[2] / "recordings" / "timing"
H200 = read_chip("h200")

DOCS = Path(convc.__file__).parent / "docs"
PAGE = (DOCS / "timing.md").read_text("utf-8")
LAUNCHES = (DOCS / "hardware.md").read_text("utf-8")
LINES = {
    "one wave": "H200, kernels of convc with wgmma in one wave, but conv1",
    "waves": "H200, kernels of convc with wgmma in several waves, but conv1",
    "conv1": "H200, conv1 with wgmma, batch 1, 8 and 32",
}
BARS = {"one wave": 0.060, "waves": 0.073, "conv1": 0.048}
"""Those of the aim are 5 and 7 %."""

NO_TURNS = "ResNet-50 layer4, 1x1, 2048 -> 512"
"""Layer of `benchmarks.ablation` where CTAs that may walk have one tile each."""

ROWS = {
    "layer3.1.conv1_b8_f16": (64, 6), "layer4.0.downsample_b1_f16": (32, 6),
    "layer3.0.downsample_b32_f16": (128, 4), "layer2.0.conv2_b32_f16_reload": (128, 4),
}  # fmt: skip
"""Recorded with the schedule reload: columns of the tile and stages."""


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


def timed(row: dict[str, str], artifact: KernelArtifact) -> KernelTime:
    """A recorded kernel, at the clock that it had."""
    chip = H200.changed({"chip.clock": float(row["sm_ghz"])})
    return time_kernel(artifact.ptx, artifact.launch, {}, chip)


def test_launches_of_an_h200():
    recorded = {row["case"]: row for row in rows("spans_h200.csv") if not row["width"]}
    known = {case.name: case for case in cases()}
    errors: list[float] = []
    for name, (width, stages) in ROWS.items():
        row = recorded[name]
        case = known[name]
        once = dataclasses.replace(case.options, persistent="off")  # they were recorded before CTAs could walk
        made = compile_problem(case.problem, options=once, block_n=width, stages=stages)
        assert (made.schedule, str(made.plan.tiling)) == (row["schedule"], row["tiling"])
        errors.append(timed(row, made.artifact).microseconds / float(row["span_us"]) - 1)
    assert max(map(abs, errors)) < 0.15, dict(zip(ROWS, errors, strict=True))
    assert mean(map(abs, errors)) < 0.09


def test_a_cta_at_the_end_of_a_row_of_tiles_shares_with_the_one_in_front():
    """Each of 100 CTAs makes a tile, of 25 in a row: the middle one ends its row. See `features_h200.json`."""
    recorded = json.loads((FOLDER.parent / "features_h200.json").read_text())[NO_TURNS]
    times: dict[str, float] = {}
    for feature, walks in (("TMA store", "off"), ("persistent", "on")):
        options = ScheduleOptions(schedule="reload", persistent=walks, columns="off", target=TARGET)
        made = compile_problem(LAYERS[NO_TURNS], options=options)
        found = time_kernel(made.artifact.ptx, made.artifact.launch, {}, H200)
        loads = [work for work in found.trace.works if work.kind == "load"]
        assert sum(work.common for work in loads) == len(loads) / 2, feature  # all of the filter
        times[feature] = found.microseconds / recorded[feature]["streamed"]
    assert times["persistent"] == pytest.approx(times["TMA store"], rel=0.05)


def group(row: dict[str, str], found: KernelTime) -> str:
    """The line of the page that a row belongs to."""
    return "conv1" if row["case"].startswith("conv1_") else "one wave" if found.launch.rounds == 1 else "waves"


@pytest.mark.slow
def test_all_launches_of_an_h200():
    known = {case.name: case for case in cases()}
    errors = defaultdict(list)
    cells = defaultdict(list)
    for row in rows("spans_h200.csv"):
        if row["width"]:
            continue
        case = known[row["case"]]
        once = dataclasses.replace(case.options, persistent="off")  # they were recorded before CTAs could walk
        made = compile_problem(case.problem, options=once, block_n=case.block_n)
        artifact = made.artifact
        if (made.schedule, str(made.plan.tiling)) != (row["schedule"], row["tiling"]):  # planned otherwise today
            then = dataclasses.replace(once, schedule=row["schedule"])
            artifact = with_tiling(case.problem, then, row["tiling"])
        found = timed(row, artifact)
        errors[group(row, found)].append(abs(found.microseconds / float(row["span_us"]) - 1))
        layer, _, rest = row["case"].partition("_b")
        if rest.endswith("_f16"):
            cells[layer].append(f"{float(row['span_us']):.1f} : {found.microseconds:.1f}")
    for layer, three in cells.items():
        said = f"| {layer} | {' | '.join(three)} |"
        assert said in LAUNCHES, said
    for kind, line in LINES.items():
        found = errors[kind]
        assert np.mean(found) <= BARS[kind], kind
        said = f"| {line} | {len(found)} | {100 * np.mean(found):.1f} % | {100 * max(found):.1f} % |"
        assert said in PAGE, said
