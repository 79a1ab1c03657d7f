"""Tiles at the ends of a grid that lie in part outside of the tensor: which these are, and the time of a launch."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from convc.ir.launch import LaunchSpec, load_launch
from convc.timing.chip import time_launch
from convc.timing.classes import GridTiles, TileClass, in_order, tiles_of
from convc.timing.kernel import KernelTime, _recorded, time_kernel
from convc.timing.parameters import read_chip
from convc.timing.trace import Trace, Work

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
NOTHING = Trace(items={}, works=[], phases={}, arrivals={}, ctas=1)
FEW = read_chip("b200").changed({"chip.sms": 2, "chip.shared": 100_000})
"""A chip on which even small launches take several rounds."""


@cache
def timed(name: str) -> KernelTime:
    return time_kernel((GOLDEN / name / "kernel.ptx").read_text(), load_launch(GOLDEN / name / "launch.json"), {}, FEW)


def test_classes_lie_at_the_ends_of_axes_with_several():
    ends = [(True, False, False), (False, True, False), (True, True, False)]
    tiles = GridTiles(extent=(3, 2, 1), parts=tuple(TileClass(ends=each, trace=NOTHING) for each in ends))
    assert tiles.kinds().tolist() == [0, 0, 1, 2, 2, 3]


@given(st.integers(1, 4), st.integers(1, 40), st.integers(0, 200), st.integers(1, 9))
@example(2, 40, 79, 1)
@example(1, 3, 2, 2)
def test_the_ctas_that_run_are_of_the_grid_and_have_the_one_asked_for(size, clusters, first, turns):
    """One cluster, or twice as many of them as turns: those that they ask for exist."""
    launch = LaunchSpec(entry="k", grid=(size * clusters, 1, 1), cluster=(size, 1, 1), block=(32, 1, 1), buffers={},
                        params=())  # fmt: skip
    first = first % clusters * size
    start, stop = _recorded(first, turns, launch)
    assert 0 <= start <= first < stop <= launch.ctas
    assert stop - start == min(launch.ctas, size * (1 if turns == 1 else 2 * turns))


def test_one_cluster_of_each_class_is_recorded_by_its_first_cta():
    """Clusters of 2 x 1 x 3 CTAs, of which 3 x 2 x 1 make the grid; at the end of x they do as much as elsewhere."""
    asked: list[int] = []

    def record(cta: int) -> Trace:
        asked.append(cta)
        return whole if cta == 2 * 6 else NOTHING

    whole = replace(NOTHING, works=[Work(kind="load", row=0, step="", line=0, bytes=64)])
    launch = LaunchSpec(entry="k", grid=(6, 2, 3), cluster=(2, 1, 3), block=(32, 1, 1), buffers={}, params=())
    tiles = tiles_of(launch, whole, record)
    assert tiles.extent == (3, 2, 1)
    assert asked == [5 * 6, 2 * 6, 3 * 6]
    assert [part.ends for part in tiles.parts] == [(True, True, False), (False, True, False)]


def test_the_next_cluster_goes_where_the_first_one_is_done():
    cycles = {(0, False): 100.0, (1, False): 10.0, (0, True): 90.0, (1, True): 5.0}
    had, turns = in_order([0, 1, 1, 1, 0], 2, cycles, 1.0)
    assert had == [(1, False), (1, False), (1, False), (0, True)], "10 + 10 + 10 and three gaps, then 90"
    assert turns == [2, 1, 1, 1]


def test_equal_clusters_follow_each_other_in_rounds():
    had, turns = in_order([0] * 7, 3, {(0, False): 100.0, (0, True): 70.0}, 5.0)
    assert had == [(0, False), (0, False), (0, True)]
    assert turns == [3, 3, 1]


def test_tiles_in_part_make_a_launch_shorter_and_it_adds_up():
    kernel = timed("dilated_tf32")
    assert kernel.tiles is not None
    assert {part.ends for part in kernel.tiles.parts} == {
        (True, False, False),
        (False, True, False),
        (True, True, False),
    }
    whole = time_launch(kernel.trace, kernel.ctas, kernel.footprint, FEW, operands=kernel.operands)
    assert kernel.cycles < whole.cycles
    launch = kernel.launch
    gaps = (launch.rounds - 1) * (FEW["launch.replace"] - FEW["launch.entry"])
    spread = (FEW["launch.spread"] + FEW["launch.slowest"] * launch.lengths[-1]) * launch.busy / FEW["chip.sms"]
    assert sum(launch.lengths) + gaps + spread == pytest.approx(launch.cycles)
    assert launch.spread == pytest.approx(spread)
    assert sum(launch.clusters) == kernel.ctas
    assert kernel.on(FEW).cycles == pytest.approx(kernel.cycles, rel=0.01)


def test_tiles_in_part_never_go_below_what_the_chip_can_do():
    kernel = timed("dilated_tf32")
    slow = FEW.changed({"chip.l2": FEW["chip.l2"] / 1000})
    traces = [kernel.trace, *(part.trace for part in kernel.tiles.parts)]
    read = sum(work.bytes - work.filled for trace in traces for work in trace.works if work.kind == "load")
    assert kernel.on(slow).cycles >= read / slow["gpc.together"] / (slow["chip.l2"] * 1e3 / slow["chip.clock"])


def test_where_all_tiles_are_whole_or_a_round_is_all_nothing_changes():
    kernel = timed("slide_f16")
    assert kernel.launch.rounds > 1
    assert kernel.tiles is not None
    assert not kernel.tiles.parts
    wide = read_chip("b200")
    folder = GOLDEN / "dilated_tf32"
    once = time_kernel((folder / "kernel.ptx").read_text(), load_launch(folder / "launch.json"), {}, wide)
    assert once.tiles is None


def test_a_part_that_does_the_same_costs_the_same():
    kernel = timed("slide_f16")
    alike = GridTiles(extent=(kernel.ctas, 1, 1), parts=(TileClass(ends=(True, False, False), trace=kernel.trace),))
    again = replace(kernel, tiles=alike)
    assert again.on(FEW).cycles == pytest.approx(kernel.cycles)
