"""Numbers with lanes: each lane is what the same calculation gives with the numbers of that lane alone."""

from __future__ import annotations

import numpy as np
import pytest

from convc.timing.parameters import read_chip
from convc.timing.spread import apart, back_by, lanes_of, later, latest, sooner, spread_chip, where_later

CHIP = read_chip("b200")
ENDS = [("threads.alu", 9.0), ("tensor_core.queue", 2.0), ("threads.alu", 1.0), ("tma.latency", 700.0)]


def numbers(chip) -> list[float]:
    """Calculations of every kind, some with numbers that have no lanes."""
    alu = chip["threads.alu"]
    queue = chip["tensor_core.queue"]
    latency = chip["tma.latency"]
    clock = chip["chip.clock"]
    return [
        alu + latency + 2 + clock, 3 - alu, alu - 3, latency / alu, 60 / alu, 2 * alu * 3, (alu**2.0 + 1) ** (1 / alu),
        later(alu, 5.0), later(4.5, alu), later(1.0, 2.0), sooner(alu, 5.0), sooner(latency, 650), sooner(2.0, 1.0),
        latest([alu, 3.0, latency / 100]), latest([]), latest([2.0, 7.0]),
        where_later(alu, 4.5, latency), where_later(4.5, alu, 1.0), where_later(2.0, 1.0, alu),
        back_by([1.0, latency, 3.0, 4.0, 5.0, alu], queue), back_by([1.0], queue), back_by([latency] * 9, queue),
    ]  # fmt: skip


def test_each_lane_is_a_calculation_of_its_own():
    spread = [np.broadcast_to(lanes_of(value), len(ENDS) + 1) for value in numbers(spread_chip(CHIP, ENDS))]
    for lane, changes in enumerate([{}, *({name: end} for name, end in ENDS)]):
        alone = numbers(CHIP.changed(changes))
        assert [values[lane] for values in spread] == pytest.approx(alone), changes


def test_a_number_with_lanes_is_that_of_the_chip():
    for plain, spread in zip(numbers(CHIP), numbers(spread_chip(CHIP, ENDS)), strict=True):
        assert float(spread) == plain
        assert (spread < 5) == (plain < 5)


def test_the_lane_that_differs_most_says_how_far_numbers_are_apart():
    chip = spread_chip(CHIP, ENDS)
    assert apart(chip["threads.alu"], 4.0) == 5
    assert apart(chip["tma.latency"], 700) == 100
    assert apart(1.0, 3.0) == 2
