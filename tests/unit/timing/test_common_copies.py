"""Where CTAs lie, which of their copies are alike, and how copies that follow each other land (H200)."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pytest

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.ir.problem import ConvProblem
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip
from convc.timing.sharing import alike, of_each

FOLDER = Path(__file__).parents[2] / "recordings" / "timing"
H200 = read_chip("h200")
GPCS = int(H200["gpc.count"])


def test_ctas_that_follow_each_other_lie_in_one_gpc():
    """Of 128 CTAs all but the first 8 and the last 8, which make up one GPC; its SMs are those that clusters join."""
    places = json.loads((FOLDER / "places_h200.json").read_text())["sm"]
    for first in range(8, 120, of_each(128, GPCS)):
        sms = [sm for sm in places[first : first + 16] if sm < 64]
        assert len({sm % 16 // 2 for sm in sms}) == 1, "SMs of a TPC come in twos, and those of 8 GPCs take turns"


def test_readers_are_counted_in_gpcs():
    rows = [(cta, cta // 25) for cta in range(100)]
    columns = [(cta, cta % 25) for cta in range(100)]
    assert alike(rows, GPCS) == pytest.approx(100 / 11)  # 13 CTAs each: 3 GPCs see two rows
    assert alike(columns, GPCS) == 1
    assert alike([(cta, "all") for cta in range(132)], GPCS) == 16.5
    assert alike([(0, "alone")], GPCS) == 1


@pytest.mark.parametrize(("images", "filters", "pixels"), [(64, 16.0, 1.0), (2, 4.0, 4.0)])
def test_copies_that_are_alike_are_found(images, filters, pixels):
    """Tiles of 128 pixels and 64 channels, along M first: 128 x 1 of them, and 4 x 32."""
    problem = ConvProblem(
        batch=images, in_channels=64, out_channels=64 * 128 // (2 * images), in_extent=(16, 16), kernel=(1, 1)
    )
    options = ScheduleOptions(schedule="reload", persistent="off", target="sm_90a")
    made = compile_problem(problem, options=options, block_n=64)
    assert made.artifact.launch.ctas == 128
    found = time_kernel(made.artifact.ptx, made.artifact.launch, {}, H200)
    readers = {work.step: work.readers for work in found.trace.works if work.kind == "load"}
    assert readers == {"load.a": pixels, "load.b": filters}


def test_copies_behind_each_other_land_late_but_for_the_last():
    """A few SMs ask for all stages of their rings; the port is busy all the time, and each stage but the last waits."""
    bursts = defaultdict(list)
    with (FOLDER / "bursts_h200.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if int(row["ctas"]) <= 60:
                bursts[row["case"]].append({key: int(value) for key, value in row.items() if key != "case"})
    late: list[float] = []
    for stages in bursts.values():
        cycles = (stages[0]["bytes_a"] + stages[0]["bytes_b"]) / H200["tma.fill"]
        landed = [max(stage["landed_a"], stage["landed_b"]) for stage in stages]
        late += [time - landed[-1] + cycles * (len(landed) - 1 - at) for at, time in enumerate(landed[1:-1], 1)]
    assert mean(late) == pytest.approx(H200["tma.overtaken"], rel=0.05)
    low, high = H200.parameters["tma.overtaken"].range
    assert sum(low <= each <= high for each in late) >= 0.8 * len(late)
