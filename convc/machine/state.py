"""Shared memory and tensor memory of a cohort of CTAs, with a record of what has been written.

Both start as poison (all ones: a NaN in every floating type) and remember which bytes, or which tensor-memory cells,
were written. The record is kept once for the whole cohort as long as all CTAs write the same places, which they do
unless CTAs diverge.
"""

from __future__ import annotations

import numpy as np

from convc.machine.memory import CHUNK

LANES = 128
COLUMNS = 512
"""Tensor memory of one CTA: 128 lanes of 512 32-bit columns (PTX manual, "Tensor Memory")."""

BLOCK = 32
"""Columns that are allocated together."""


class Spare:
    """Arrays of cohorts that have ended, for the next one: overwriting memory costs less than getting fresh pages."""

    def __init__(self) -> None:
        self._arrays: dict[tuple, np.ndarray] = {}

    def keep(self, array: np.ndarray) -> None:
        """Nobody uses this array any more."""
        self._arrays[array.shape, array.dtype] = array

    def poison(self, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        """An array of all ones."""
        array = self._arrays.pop((shape, np.dtype(dtype)), None)
        ones = np.iinfo(dtype).max
        if array is None:
            return np.full(shape, ones, dtype)
        array.fill(ones)
        return array


class Written:
    """A bitmap over storage, one for all CTAs (shape (1, n)) or one each (shape (ctas, n))."""

    def __init__(self, ctas: int, size: int) -> None:
        self.ctas = ctas
        self.map = np.zeros((1, size), bool)
        self.generation = 0
        self.known: set = set()

    def mark(self, where: slice | np.ndarray, rows: np.ndarray | None) -> None:
        """Record a write of places ``where`` (slice or index array) by the CTAs ``rows`` (None = all)."""
        if rows is None:
            self.map[:, where] = True
            return
        if self.map.shape[0] == 1:
            if self.map[0, where].all():
                return
            self.map = np.repeat(self.map, self.ctas, axis=0)
        if isinstance(where, slice):
            self.map[rows, where] = True
        else:
            self.map[np.asarray(rows)[:, None], where[None, :]] = True

    def clear(self, where: slice | np.ndarray, rows: np.ndarray | None = None) -> None:
        """Forget writes (storage given back)."""
        self._own(rows)
        if rows is None:
            self.map[:, where] = False
        else:
            self.map[np.asarray(rows)[:, None], where] = False
        self.known.clear()

    def move(self, to: np.ndarray, start: np.ndarray, rows: np.ndarray | None) -> None:
        """Places ``to`` take the state of places ``start`` (contents moved)."""
        if self.map.shape[0] == 1 and (self.map[0, to] == self.map[0, start]).all():
            return
        self._own(rows)
        select = slice(None) if rows is None else np.asarray(rows)[:, None]
        self.map[select, to] = self.map[select, start]
        self.known.clear()

    def _own(self, rows: np.ndarray | None) -> None:
        """One map for each CTA, before some of them change."""
        if rows is not None and self.map.shape[0] == 1:
            self.map = np.repeat(self.map, self.ctas, axis=0)

    def missing(self, key: object, where: slice | np.ndarray, rows: np.ndarray | None) -> int:
        """How many of the places were never written (0 = all fine). A good answer for a ``key`` is remembered."""
        if key in self.known:
            return 0
        part = self.map if rows is None or self.map.shape[0] == 1 else self.map[rows]
        part = part[:, where]
        count = part.size - int(np.count_nonzero(part))
        if not count and rows is None and key is not None:
            self.known.add(key)
        return count

    def lacking(self, where: slice | np.ndarray, rows: np.ndarray | None) -> int:
        """The first of the CTAs ``rows`` in which one of the places was never written."""
        if self.map.shape[0] == 1:
            return 0 if rows is None else int(rows[0])
        part = self.map if rows is None else self.map[rows]
        at = int((~part[:, where]).any(axis=1).argmax())
        return at if rows is None else int(rows[at])


class SharedMemory:
    """Shared memory of every CTA: uint8 (ctas, size), size rounded up to 1024."""

    def __init__(self, ctas: int, size: int, spare: Spare | None = None) -> None:
        self.size = size
        padded = max(1024, -(-size // 1024) * 1024)
        self.bytes = (spare or Spare()).poison((ctas, padded), np.uint8)
        self.chunks = self.bytes.view(CHUNK)
        self.written = Written(ctas, padded)


class TensorMemory:
    """Tensor memory of every CTA: uint32 (ctas, 128, columns); grows with the highest column allocated.

    Attributes:
        placement: the switch: ``first`` or ``last`` free run.
        owner: int16 (ctas, 16): first column of the allocation that holds each block of 32 columns, -1 where free.
        permit: bool (ctas,): whether the CTA may still allocate.
        last: int64 (ctas,): columns of the CTA's latest allocation.
        asked, granted: CTA -> columns that it waits for its pair's other CTA with, and the result it has to fetch.
    """

    def __init__(self, ctas: int, placement: str = "first", spare: Spare | None = None) -> None:
        self.ctas = ctas
        self._spare = spare or Spare()
        self.placement = placement
        self.cells = np.empty((ctas, LANES, 0), np.uint32)
        self.written = Written(ctas, LANES * COLUMNS)
        self.owner = np.full((ctas, COLUMNS // BLOCK), -1, np.int16)
        self.permit = np.ones(ctas, bool)
        self.last = np.full(ctas, COLUMNS)
        self.asked: dict[int, int] = {}
        self.granted: dict[int, int] = {}
        self._holds: dict[tuple, bool] = {}

    @property
    def allocated(self) -> dict[int, int]:
        """First column -> columns of everything allocated in any CTA."""
        return self.allocated_in(None)

    def allocated_in(self, rows: np.ndarray | None) -> dict[int, int]:
        """First column -> columns of everything allocated in any of the CTAs ``rows``."""
        owner = self.owner if rows is None else self.owner[rows]
        bases = sorted(set(owner[owner >= 0].tolist()))
        return {base: BLOCK * int((owner == base).sum(axis=1).max()) for base in bases}

    def allocate(self, columns: int, rows: np.ndarray | None, pair: bool) -> np.ndarray | None:
        """First or last free run of ``columns`` in each of the CTAs ``rows`` (None = all), or None where one has none.

        With ``pair`` the rows are whole pairs, side by side, and both CTAs of a pair get the same columns.
        """
        where = np.arange(self.ctas) if rows is None else rows
        used = self.owner[where] >= 0
        if pair:
            both = used.reshape(-1, 2, used.shape[1]).any(axis=1)
            used = np.repeat(both, 2, axis=0)
        blocks = columns // BLOCK
        free = np.lib.stride_tricks.sliding_window_view(~used, blocks, axis=1).all(axis=2)
        if not free.any(axis=1).all():
            return None
        start = free.argmax(axis=1) if self.placement == "first" else free.shape[1] - 1 - free[:, ::-1].argmax(axis=1)
        span = start[:, None] + np.arange(blocks)
        self.owner[where[:, None], span] = (BLOCK * start)[:, None]
        self.last[where] = columns
        self._holds.clear()
        width = BLOCK * (int(start.max()) + blocks)
        if self.cells.shape[2] < width:
            grown = self._spare.poison((self.ctas, LANES, width), np.uint32)
            grown[:, :, : self.cells.shape[2]] = self.cells
            self.cells = grown
        return BLOCK * start

    def free(self, base: int, columns: int, rows: np.ndarray | None) -> bool:
        """Give back an allocation of the CTAs ``rows``; False when one of them has no such allocation."""
        where = np.arange(self.ctas) if rows is None else rows
        own = self.owner[where] == base
        if not 0 <= base < COLUMNS or (BLOCK * own.sum(axis=1) != columns).any():
            return False
        self.owner[where] = np.where(own, -1, self.owner[where])
        self._holds.clear()
        self.written.clear(self.places(np.arange(LANES), base, columns), rows)
        return True

    def holds(self, column: int, count: int, rows: np.ndarray | None = None) -> bool:
        """Whether columns [column, column + count) are allocated, in one piece, in all of the CTAs ``rows``."""
        key = (column, count, None if rows is None else rows.tobytes())
        known = self._holds.get(key)
        if known is None:
            known = self._holds[key] = self._check_holds(column, count, rows)
        return known

    def _check_holds(self, column: int, count: int, rows: np.ndarray | None) -> bool:
        if not 0 <= column <= column + count <= COLUMNS or not count:
            return False
        owner = self.owner if rows is None else self.owner[rows]
        part = owner[:, column // BLOCK : (column + count - 1) // BLOCK + 1]
        return bool((part >= 0).all() and (part == part[:, :1]).all())

    @staticmethod
    def places(lanes: np.ndarray, column: int, count: int) -> np.ndarray:
        """Flat cell numbers of lanes x columns, for the written-map."""
        return (lanes[:, None] * COLUMNS + np.arange(column, column + count)[None, :]).reshape(-1)
