"""The table of features in timing_measurements.md is what its script makes."""

from __future__ import annotations

import re

import pytest

from benchmarks.ablation import (
    CHOSEN,
    DEPENDENT,
    FEATURES,
    LAYERS,
    MARKED,
    MORE,
    NOT_LEGAL,
    PAGE,
    Measured,
    ladder,
    table,
)
from benchmarks.layers import square
from convc.timing.parameters import read_chip


def test_the_page_has_every_feature_and_every_layer():
    shown = MARKED.search(PAGE.read_text("utf-8"))[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown if line.startswith("|")]
    assert rows[0][1:] == [*FEATURES, CHOSEN, DEPENDENT]
    assert [row[0] for row in rows[2:]] == list(LAYERS | MORE)


def test_a_feature_that_is_not_legal_is_left_out_behind(monkeypatch):
    features = {"plain": {}, "border": {"border": "mask"}, "TMA store": {"store": "tma"}}
    monkeypatch.setattr("benchmarks.ablation.FEATURES", features)
    found = ladder(square(16, 16, 9), read_chip("b200"))
    assert found["border"] == NOT_LEGAL, "reload has no lanes to mask"
    assert found["TMA store"].microseconds < found["plain"].microseconds
    assert re.search(r"\| a \| \d+\.\d us, 0 MB, 0 % \| not legal \| \d", table({"a": found}))


def test_the_planner_takes_what_is_fastest_or_nearly():
    found = ladder(square(64, 256, 28), read_chip("b200"))
    times = {name: each.microseconds for name, each in found.items() if isinstance(each, Measured)}
    assert times["TMA store"] < 0.8 * times["plain"]
    assert times[CHOSEN] <= 1.05 * min(times.values())
    less, more = map(float, re.findall(r"(\d\.\d\d) us", str(found[DEPENDENT]))[:2])
    assert 0 < less < more


@pytest.mark.slow
def test_the_table_is_made_by_its_script():
    chip = read_chip("b200")
    made = table({name: ladder(problem, chip) for name, problem in (LAYERS | MORE).items()})
    assert made in PAGE.read_text("utf-8"), "run python -m benchmarks.ablation --write"
