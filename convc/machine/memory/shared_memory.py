"""Shared memory of a cohort of CTAs, and the record of what has been written there or in tensor memory.

Both memories start as poison (all ones: a NaN in every floating type) and remember which bytes, or which
tensor-memory cells, were written. The record is kept once for the whole cohort as long as all CTAs write the same
places, which they do unless CTAs diverge.
"""

from __future__ import annotations

import numpy as np

from convc.machine.memory.global_memory import CHUNK


class ArrayPool:
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


class InitMask:
    """A bitmap over storage, one for all CTAs (shape (1, n)) or one each (shape (ctas, n))."""

    def __init__(self, ctas: int, size: int) -> None:
        self.ctas = ctas
        self.map = np.zeros((1, size), bool)
        self.generation = 0
        self.known: set = set()

    def mark(self, where: slice | np.ndarray, rows: np.ndarray | None, key: object = None) -> None:
        """Record a write of places ``where`` (slice or index array) by the CTAs ``rows`` (None = all).

        A ``key`` is remembered as one of places that all CTAs have written.
        """
        if rows is None:
            self.map[:, where] = True
            if key is not None:
                self.known.add(key)
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

    def __init__(self, ctas: int, size: int, pool: ArrayPool | None = None) -> None:
        self.size = size
        padded = max(1024, -(-size // 1024) * 1024)
        self.bytes = (pool or ArrayPool()).poison((ctas, padded), np.uint8)
        self.chunks = self.bytes.view(CHUNK)
        self.written = InitMask(ctas, padded)
