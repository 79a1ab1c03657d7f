"""What an H200 said to the planner's choice of tiles: the recording is of those that it takes, and they are quicker."""

from __future__ import annotations

import json
import math

import pytest
from recordings.record_tiles import RECORD, problem_of, taken, tiling_of

from convc.support.resources import PACKAGE

TIMES = json.loads(RECORD.read_text())
CHEAP = ("layer4.1.conv2_b1 f16 f16", "layer3.0.conv2_b8 tf32 f32", "layer2.0.conv3_b128 f16 f16")
"""Of both rules that were mended: more SMs busy, and memory asked for as the order of tiles has it."""


@pytest.mark.parametrize("name", CHEAP)
def test_the_tiles_that_were_timed_are_those_that_are_taken(name):
    assert tiling_of(taken(problem_of(name))) == TIMES[name]["after"] != TIMES[name]["before"]


@pytest.mark.slow
def test_all_tiles_that_were_timed_are_those_that_are_taken():
    assert {name: tiling_of(taken(problem_of(name))) for name in TIMES} == {
        name: entry["after"] for name, entry in TIMES.items()
    }


def test_they_take_less_time_than_those_before():
    ratios = [min(entry["after_us"]) / min(entry["before_us"]) for entry in TIMES.values()]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    quicker = sum(ratio < 1 for ratio in ratios)
    told = f"{quicker} of {len(ratios)} got quicker, and together they take {mean:.2f} of the time"
    page = (PACKAGE / "docs" / "hardware.md").read_text()
    assert told in page
    assert f"{max(ratios):.2f} at worst" in page
    assert mean < 0.95
