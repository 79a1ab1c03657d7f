"""Tensor maps whose rows overlap, as `tests/recordings/overlapping_rows.cu` ran them on an H200.

The program compares what the copy engine left in shared memory with a formula, element by element: of the eight maps
that the driver encodes, no element was wrong. The simulator is held against the same formula here.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from convc.errors import LaunchError
from convc.ir.tensormap import TensorMap, check
from convc.machine.lazy.regions import region
from convc.machine.lazy.rows import find_rows
from convc.machine.lazy.tiles import OperandTiles
from convc.machine.lazy.widen import Workspace
from convc.machine.memory.shared_memory import SharedMemory
from convc.machine.tma.load import TensorLoader

WIDTH, HEIGHT, BATCH, CHANNELS = 230, 230, 2, 4
FIRST_Q, FIRST_P, OFF_H = 40, 3, 1
SPAN = {"none": 0, "64B": 64, "128B": 128}
FLIPPED = {"none": 0, "64B": 3, "128B": 7}

CASES = [
    # mode, elements inside dimension 0, bytes between rows, swizzle, rows of the tensor
    ("tile", 32, 16, "none", 112),
    ("tile", 32, 16, "64B", 112),
    ("tile", 28, 16, "none", 112),
    ("tile", 64, 16, "128B", 100),
    ("im2col", 32, 16, "none", 112),
    ("im2col", 32, 16, "64B", 112),
    ("im2col", 28, 16, "64B", 112),
    ("im2col", 64, 32, "128B", 50),
]
"""The maps that the driver encoded, each with 0 wrong elements of 128 rows."""


@cache
def memory() -> np.ndarray:
    """The program's global memory, uint16."""
    words = BATCH * HEIGHT * WIDTH * CHANNELS + 64
    return ((np.arange(words, dtype=np.uint64) * 2654435761 & 0xFFFFFFFF) >> 16).astype(np.uint16)


def overlapping(mode: str, inner: int, step: int, swizzle: str, rows: int) -> TensorMap:
    """The map of a case; a row has 32 places where fewer elements are inside."""
    line = WIDTH * CHANNELS * 2
    taken = max(inner, 32)
    own = {"box": (taken, 64, 2, 1), "element_strides": (1, 1, 1, 1)}
    if mode == "im2col":
        own = {"lower": (0, 0), "upper": (0, -6), "channels": taken, "pixels": 128, "element_strides": (1, 1, 2, 1)}
    return TensorMap(
        mode=mode, buffer="x", dtype="f16", swizzle=swizzle, dims=(inner, rows, HEIGHT, BATCH),
        strides=(step, line, line * HEIGHT), **own,
    )  # fmt: skip


def expected(mode: str, inner: int, step: int, swizzle: str, rows: int) -> np.ndarray:
    """Shared memory by the program's formula, uint16; 0xCDCD where nothing lands."""
    taken = max(inner, 32)
    pitch = SPAN[swizzle] or 2 * taken
    shared = np.full(128 * pitch // 2, 0xCDCD, np.uint16)
    i, e = np.indices((128, taken))
    q = FIRST_Q + i % 64
    y = FIRST_P * 2 + OFF_H + i // 64
    if mode == "im2col":
        walked = FIRST_P * rows + FIRST_Q + i
        q = walked % rows
        y = walked // rows * 2 + OFF_H
    source = (y * WIDTH * CHANNELS * 2 + q * step) // 2 + e
    value = np.where((e < inner) & (q < rows), memory()[np.minimum(source, memory().size - 1)], 0)
    at = i * pitch + 2 * e
    at ^= ((at >> 7) & FLIPPED[swizzle]) << 4
    shared[at // 2] = value
    return shared


def start(tmap: TensorMap) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Coordinates and offsets of the program's copy."""
    if tmap.mode == "im2col":
        return (0, FIRST_Q, FIRST_P * 2, 0), (0, OFF_H)
    return (0, FIRST_Q, FIRST_P * 2 + OFF_H, 0), ()


@pytest.mark.parametrize("case", CASES)
def test_the_machine_reads_what_the_gpu_read(case):
    tmap = overlapping(*case)
    data = memory().view(np.uint8)
    check(tmap, data.size)
    shared = np.full((1, 32 << 10), 0xCD, np.uint8)
    result = TensorLoader(tmap, data).load(shared, 0, *start(tmap))
    wanted = expected(*case)
    assert result.bytes == tmap.rows * tmap.row_bytes
    np.testing.assert_array_equal(shared[0].view(np.uint16)[: wanted.size], wanted)


WAITING = [case for case in CASES if case[1] == 28 or case[3] == "128B"]


@pytest.mark.parametrize("case", [*WAITING, ("im2col", 26, 16, "64B", 112), ("tile", 25, 16, "none", 112)])
def test_an_operand_that_waits_is_what_shared_memory_would_hold(case):
    """Where dimension 0 ends inside a unit of 16 bytes as well, in either half: a neighbour's elements follow."""
    shared = SharedMemory(1, 32 << 10)
    tmap = overlapping(*case)
    waiting = region(TensorLoader(tmap, memory().view(np.uint8)), shared.padded, 0, *start(tmap), None, 1)
    assert waiting is not None
    shared.remember(waiting)
    units = np.lexsort((waiting.place.column, waiting.place.row))  # row by row
    rows = find_rows(shared, lambda _: units, (case,), tmap.rows)
    assert rows is not None
    last = rows.part(rows.units - 1, 1)
    found = [
        _raw(OperandTiles([rows], [None], 1)),
        _raw(OperandTiles([last], [None], 1)),
        _raw(OperandTiles([last], [None], 1).narrowed(8)),
    ]
    wanted = shared.bytes.reshape(-1, 16)[units].reshape(tmap.rows, -1)
    for some, low, high in zip(found, (0, -16, -16), (None, None, -8), strict=True):
        np.testing.assert_array_equal(some, wanted[:, low:high])


@pytest.mark.parametrize("case", [*WAITING, ("im2col", 26, 16, "64B", 112), ("tile", 25, 16, "none", 112)])
def test_rows_that_are_read_often_are_widened_once(case):
    """Gathered from a tensor in float32, they are what they are one by one; new contents are read anew."""
    data = memory().copy()
    loader = TensorLoader(overlapping(*case), data.view(np.uint8))
    shared = SharedMemory(1, 32 << 10)
    waiting = region(loader, shared.padded, 0, *start(loader.tmap), None, 1)
    assert waiting is not None
    shared.remember(waiting)
    units = np.lexsort((waiting.place.column, waiting.place.row))
    rows = find_rows(shared, lambda _: units, (case,), loader.tmap.rows)
    assert rows is not None
    for tiles in (OperandTiles([rows], [None], 1), OperandTiles([rows], [None], 1).narrowed(48)):
        once = _wide(tiles)
        assert not loader.widened
        loader.gathered = 2 * loader.source.nbytes
        np.testing.assert_array_equal(_wide(tiles), once)
        assert loader.widened
        data[:] = np.roll(data, 1)
        loader.invalidate()
        assert not np.array_equal(_wide(tiles), once, equal_nan=True)


def _wide(tiles: OperandTiles) -> np.ndarray:
    return tiles.gather(slice(0, 1), tiles.rows, "f16", False, Workspace()).copy()


def _raw(tiles: OperandTiles) -> np.ndarray:
    return tiles.raw(slice(0, 1), tiles.rows, Workspace()).view(np.uint8).reshape(tiles.rows, -1)


def test_rows_eight_bytes_apart_are_refused():
    """As the driver refused them."""
    with pytest.raises(LaunchError, match="a multiple of 16 below 2\\^40, in bytes, got 8"):
        check(overlapping("tile", 32, 8, "none", 112), memory().nbytes)
