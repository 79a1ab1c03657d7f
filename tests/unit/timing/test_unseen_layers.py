"""Layers of other networks, as an H200 timed their kernels (`unseen_h200.csv`): nothing was fitted to them."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from support.recorded_kernels import read_kernels

import convc
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip

FOLDER = Path(__file__).parents[2] / "recordings" / "timing"
H200 = read_chip("h200")
PAGE = (Path(convc.__file__).parent / "docs" / "timing_measurements.md").read_text("utf-8")
LINES = {
    False: "H200, layers of other networks, a CTA for each tile",
    True: "H200, layers of other networks, persistent CTAs",
}
"""By whether CTAs are persistent."""

FEW = {"mobilenet.last_b4", "densenet.bottleneck_b1", "inception.row_b1", "convnext.patches_b1", "yolo.stride_b4"}
"""Small ones of both schedules and of either kind."""


def errors(names: set[str] | None) -> dict[bool, list[float]]:
    """What is said over what was measured, less 1, of some of the kernels; None: of all."""
    kernels = read_kernels(FOLDER / "unseen_h200.json.xz")
    found: dict[bool, list[float]] = defaultdict(list)
    with (FOLDER / "unseen_h200.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if names is None or row["case"] in names:
                kernel = kernels[row["case"]]
                chip = H200.changed({"chip.clock": float(row["sm_ghz"])})
                said = time_kernel(kernel.ptx, kernel.launch, {}, chip).microseconds
                found["walks" in row["tiling"]].append(said / float(row["span_us"]) - 1)
    return found


def test_a_few_layers_of_other_networks():
    found = errors(FEW)
    assert sum(map(len, found.values())) == len(FEW)
    assert max(abs(error) for each in found.values() for error in each) < 0.10


@pytest.mark.slow
def test_all_layers_of_other_networks():
    found = errors(None)
    for walks, line in LINES.items():
        off = np.abs(found[walks])
        said = f"| {line} | {len(off)} | {100 * off.mean():.1f} % | {100 * off.max():.1f} % |"
        assert said in PAGE, said
