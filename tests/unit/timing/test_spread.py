"""Numbers with lanes: each lane is what the same calculation gives with the numbers of that lane alone."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from convc.ir.launch import load_launch
from convc.timing.chip import TimedLaunch, time_launch
from convc.timing.kernel import target_of, time_kernel
from convc.timing.parameters import Chip, chip_for, read_chip
from convc.timing.spread import back_by, lanes_of, later, later_anywhere, latest, sooner, spread_chip, where_later

CHIP = read_chip("b200")
ENDS = [("threads.alu", 9.0), ("tensor_core.queue", 2.0), ("threads.alu", 1.0), ("tma.latency", 700.0)]


TRIED = {
    "hopper_f16": {"tma.latency": 500.0, "tma.fill": 90.0},
    "tensor_store_f16": {"shared_memory.store_port": 15.7, "tma.latency": 650.0},
    "persistent_f16": {"tma.latency": 450.0, "tma.fill": 120.0},
    "slide_f16": {"tensor_core.issue": 44.0, "tma.latency": 450.0},
}
"""By kernel, parameters with another value: a tensor core that waits, or one that no longer does, among them."""

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


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
        where_later(alu, 4.5, latency, alu), where_later(4.5, alu, 1.0, 2.0), where_later(2.0, 1.0, alu, 7.0),
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


def test_one_lane_is_enough_to_be_later_anywhere():
    latency = spread_chip(CHIP, ENDS)["tma.latency"]
    assert later_anywhere(latency, 650)
    assert not later_anywhere(latency, 700)
    assert later_anywhere(599, latency) is False
    assert later_anywhere(3.0, 2.0)


def order(launch: TimedLaunch) -> dict[object, list[object]]:
    """What each unit served, one after the other."""
    found: dict[object, list[object]] = defaultdict(list)
    for event in launch.events:
        unit = (event.track, event.name) if event.work is not None else (event.unit, event.warp % 4)
        found[unit].append((event.row, event.warp, event.line, event.work))
    return found


@pytest.mark.parametrize("kernel", TRIED)
def test_each_lane_is_a_replay_of_its_own_where_no_order_changes(kernel: str):
    folder = GOLDEN / kernel
    text = (folder / "kernel.ptx").read_text("utf-8")
    chip = read_chip(chip_for(target_of(text)))
    found = time_kernel(text, load_launch(folder / "launch.json"), {}, chip)

    def launch(chip: Chip) -> TimedLaunch:
        return time_launch(found.trace, found.ctas, found.footprint, chip)

    ends = [(name, end) for name, end in TRIED[kernel].items()]
    both = launch(spread_chip(chip, ends))
    alone = [launch(chip.changed({name: end})) for name, end in ends]
    assert all(order(one) == order(both) for one in alone)
    assert lanes_of(both.cycles)[1:].tolist() == pytest.approx([one.cycles for one in alone], rel=1e-9)
    assert min(abs(one.cycles - both.cycles) for one in alone) > 1
