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

    def clear(self, where: slice) -> None:
        """Forget writes (storage given back)."""
        self.map[:, where] = False
        self.known.clear()

    def missing(self, key: object, where: slice | np.ndarray, rows: np.ndarray | None) -> int:
        """How many of the places were never written (0 = all fine). A good answer for ``key`` is remembered."""
        if key in self.known:
            return 0
        part = self.map if rows is None or self.map.shape[0] == 1 else self.map[rows]
        part = part[:, where]
        count = part.size - int(np.count_nonzero(part))
        if not count and rows is None:
            self.known.add(key)
        return count


class SharedMemory:
    """Shared memory of every CTA: uint8 (ctas, size), size rounded up to 1024."""

    def __init__(self, ctas: int, size: int) -> None:
        self.size = size
        padded = max(1024, -(-size // 1024) * 1024)
        self.bytes = np.full((ctas, padded), 0xFF, np.uint8)
        self.chunks = self.bytes.view(CHUNK)
        self.written = Written(ctas, padded)


class TensorMemory:
    """Tensor memory of every CTA: uint32 (ctas, 128, columns); grows with the highest column allocated."""

    def __init__(self, ctas: int) -> None:
        self.ctas = ctas
        self.cells = np.empty((ctas, LANES, 0), np.uint32)
        self.written = Written(ctas, LANES * COLUMNS)
        self.allocated: dict[int, int] = {}
        self.permit = True

    def allocate(self, columns: int) -> int | None:
        """First free column of a run of ``columns``, or None when there is none (the instruction then blocks)."""
        start = 0
        for base in sorted(self.allocated):
            if base - start >= columns:
                break
            start = base + self.allocated[base]
        if start + columns > COLUMNS:
            return None
        self.allocated[start] = columns
        if self.cells.shape[2] < start + columns:
            grown = np.full((self.ctas, LANES, start + columns), 0xFFFFFFFF, np.uint32)
            grown[:, :, : self.cells.shape[2]] = self.cells
            self.cells = grown
        return start

    def free(self, base: int, columns: int) -> bool:
        """Give back an allocation; False when there is no such one."""
        if self.allocated.get(base) != columns:
            return False
        del self.allocated[base]
        cells = self.written.map.reshape(-1, LANES, COLUMNS)
        cells[:, :, base : base + columns] = False
        self.written.known.clear()
        return True

    def holds(self, column: int, count: int) -> bool:
        """Whether columns [column, column + count) are all allocated."""
        return any(base <= column and column + count <= base + size for base, size in self.allocated.items())

    @staticmethod
    def places(lanes: np.ndarray, column: int, count: int) -> np.ndarray:
        """Flat cell numbers of lanes x columns, for the written-map."""
        return (lanes[:, None] * COLUMNS + np.arange(column, column + count)[None, :]).reshape(-1)
