"""Runs of bytes that a tensor ends inside: their ends are fill, whatever number of bytes these are."""

import numpy as np
import pytest

from convc.machine.lazy.tiles import OperandTiles

FILL = np.arange(1, 17, dtype=np.uint8)


@pytest.mark.parametrize(("run", "cut"), [(64, 8), (64, 12), (32, 10), (16, 3), (8, 4), (8, 6)])
@pytest.mark.parametrize("cut_steps", [(0, 1, 2), (1,)])
def test_only_the_ends_of_the_runs_that_are_cut_become_fill(run, cut, cut_steps):
    tiles = OperandTiles.__new__(OperandTiles)
    tiles.run = run
    tiles.count = 3
    cuts: dict[int, int] = {}
    cuts.update((step, cut) for step in cut_steps)
    tiles.cuts = cuts
    runs = np.full((5, 3, run), 0xEE, np.uint8)
    expected = runs.copy()
    for step in cut_steps:
        for byte in range(run - cut, run):
            expected[:, step, byte] = byte % 16 + 1

    tiles._cut(runs, FILL)

    assert np.array_equal(runs, expected)
