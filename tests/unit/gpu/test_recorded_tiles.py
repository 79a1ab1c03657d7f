"""What Hopper GPUs said to the planner's choice of tiles.

An H200 timed those that it took at that time (`tiles_h200.json`). Since then Hopper is priced with an H100's rates,
which cost some of them their place: an H100 timed both (`tiles_h100.json`), and the page says what that lost.
"""

from __future__ import annotations

import json
import math

import pytest
from recordings.record_tiles import RECORD, problem_of, taken, tiling_of

from convc.support.resources import PACKAGE

TIMES = json.loads(RECORD.read_text())
SINCE = json.loads(RECORD.with_name("tiles_h100.json").read_text())
UNTIMED = {
    "layer3.1.conv1_b8 tf32 f32", "layer4.1.conv1_b16 f16 f16", "layer4.1.conv1_b16 f16 f32",
    "layer4.1.conv1_b16 tf32 f32",
}  # fmt: skip
"""Layers whose tiles changed since, and whose recorded ones no option asks for any more."""

CHEAP = ("layer4.1.conv2_b1 f16 f16", "layer3.0.conv2_b8 tf32 f32", "layer2.0.conv3_b128 f16 f16")
"""Of both rules that were mended, more SMs busy, and memory asked for as their order has it; one changed since."""


def expected(name):
    """The tiles that the planner takes today, as far as they were timed."""
    return SINCE[name]["taken"] if name in SINCE else TIMES[name]["after"]


@pytest.mark.parametrize("name", CHEAP)
def test_the_tiles_that_were_timed_are_those_that_are_taken(name):
    assert tiling_of(taken(problem_of(name))) == expected(name)


@pytest.mark.slow
def test_all_tiles_that_were_timed_are_those_that_are_taken():
    names = TIMES.keys() - UNTIMED
    assert {name: tiling_of(taken(problem_of(name))) for name in names} == {name: expected(name) for name in names}


def page() -> str:
    """The page of measurements, in one line."""
    return " ".join((PACKAGE / "docs" / "hardware_measurements.md").read_text("utf-8").split())


def test_the_page_says_what_the_prices_of_an_h100_lost_here():
    ratios = [entry["taken_us"] / entry["recorded_us"] for entry in SINCE.values()]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    told = f"{len(ratios)} of them take {mean:.2f} of the time on an H100 ({min(ratios):.2f} to {max(ratios):.2f})"
    assert told in page()


def test_they_take_less_time_than_those_before():
    ratios = [min(entry["after_us"]) / min(entry["before_us"]) for entry in TIMES.values()]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    quicker = sum(ratio < 1 for ratio in ratios)
    told = f"{quicker} of {len(ratios)} are faster, and together they take {mean:.2f} of the time"
    told += f" (at most {max(ratios):.2f})"
    assert told in page()
    assert mean < 0.95
