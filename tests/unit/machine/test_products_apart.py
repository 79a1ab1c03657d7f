"""Products of CTAs that share the K loop of a tile: those of one part of it are one product."""

from __future__ import annotations

import numpy as np
import pytest

from convc.machine.lazy.evaluate import _Joint
from convc.machine.memory.shared_memory import SharedMemory


def grid_of(count: int, tiles: int, apart: int) -> np.ndarray:
    """CTAs in the order of the tiles of A, once for each tile of B that they meet."""
    grid = np.full((count, tiles), -1)
    for cta in range(count * tiles // apart):
        grid[cta % count, cta // count * apart + cta % apart] = cta
    return grid


@pytest.mark.parametrize(("count", "tiles", "apart"), [(7, 4, 1), (14, 16, 2), (8, 32, 4), (8, 64, 8), (1, 5, 1)])
def test_tiles_that_meet_are_found(count, tiles, apart):
    grid = grid_of(count, tiles, apart)
    joint = _Joint.__new__(_Joint)
    joint.target = np.zeros((int(grid.max()) + 1, 1, 1), np.float32)
    assert joint._apart(grid) == apart
    assert joint._apart(grid[::-1]) == (apart if count == 1 else 0)
    other = grid.copy()
    other[0, np.flatnonzero(grid[0] >= 0)[-1]] = -1  # one pair is missing
    assert not joint._apart(other)


@pytest.mark.parametrize("element", ["s8", "u8"])
def test_whole_numbers_are_added_exactly(element):
    """3,000 products of the largest numbers, of which float32 adds 1,024 or 258 exactly."""
    joint = _Joint.__new__(_Joint)
    joint.elements = (element, element)
    most = {"s8": -128, "u8": 255}[element]
    a = np.full((2, 3000), most, np.float32)
    a[1, ::7] = 1
    b = np.full((3, 3000), most, np.float32)
    b[2, ::5] = 0
    out = np.full((2, 3), 5, np.int32)
    joint._product(a, b, out)
    assert (out == a.astype(np.int64) @ b.T.astype(np.int64)).all()


@pytest.mark.parametrize(
    ("low", "units", "everywhere"), [(0, 256, True), (64, 256, True), (512, 20, True), (0, 256, False)]
)
def test_what_is_wholly_overwritten_is_not_poisoned_and_all_else_is(low, units, everywhere):
    shared = SharedMemory(2, 8192)
    shared._room[...] = 1
    places = low + 16 * np.arange(units)
    room = shared.to_overwrite(places, 16, None if everywhere else np.array([0, 1]))
    assert (room[:, 1024:4096] == 0xFF).all() == (not everywhere and units == 256)
    room[:, low : low + 16 * units] = 7
    found = shared.part(0, 8192)
    assert (found[:, low : low + 16 * units] == 7).all()
    assert (found[:, :low] == 0xFF).all()
    assert (found[:, low + 16 * units :] == 0xFF).all()
