"""Tensor memory of a cohort of CTAs: allocations, and cells.

Cells lie in one array, lane by lane. What the tensor core works on, an accumulator or an operand tile, is narrower than
that: it is taken out as a *panel* of its own, in one piece, since numpy is slow with many short rows. A panel holds
its columns until other columns are asked for that overlap it, or for all of them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from convc.machine.memory.init_mask import InitMask
from convc.machine.memory.shared_memory import ArrayPool

LANES = 128
COLUMNS = 512
"""Tensor memory of one CTA: 128 lanes of 512 32-bit columns (PTX manual, "Tensor Memory")."""

BLOCK = 32
"""Columns that are allocated together."""


class Materializer(Protocol):
    """Work on tensor memory that waits until it is looked at."""

    def materialize(self, column: int, width: int) -> None:
        """Perform what reaches into some columns of any CTA; it may ask for panels itself."""
        ...


class TensorMemory:
    """Tensor memory of every CTA: uint32 (ctas, 128, columns); grows with the highest column allocated.

    Attributes:
        placement: the switch: ``first`` or ``last`` free run.
        width: columns of `cells`: those below the end of the highest allocation so far.
        owner: int16 (ctas, 16): first column of the allocation that holds each block of 32 columns, -1 where free.
        permit: bool (ctas,): whether the CTA may still allocate.
        last: int64 (ctas,): columns of the CTA's latest allocation.
        asked: of each CTA that waits for the other one of its pair: its warps, in order, and the columns each wants.
        granted: first columns that warps, (CTA, number), have got and not fetched, as others of their strand wait.
        deferral: is told of all columns before they are looked at or written.
        taken: how often cells or a panel were taken, to read or to write.
    """

    def __init__(self, ctas: int, placement: str = "first", pool: ArrayPool | None = None) -> None:
        self.ctas = ctas
        self._pool = pool or ArrayPool()
        self.placement = placement
        self.width = 0
        self._cells: np.ndarray | None = None  # made when it is needed: accumulators mostly live in panels alone
        self._panels: dict[tuple[int, int], np.ndarray] = {}
        self.written = InitMask(ctas, LANES * COLUMNS)
        self.owner = np.full((ctas, COLUMNS // BLOCK), -1, np.int16)
        self.permit = np.ones(ctas, bool)
        self.last = np.full(ctas, COLUMNS)
        self.asked: dict[int, dict[int, int]] = {}
        self.granted: dict[tuple[int, int], int] = {}
        self._holds: dict[tuple[object, ...], bool] = {}
        self.deferral: Materializer | None = None
        self.taken = 0

    # ---- cells -------------------------------------------------------------------------------------------------------

    @property
    def cells(self) -> np.ndarray:
        """All cells, uint32 (ctas, 128, columns): to read, and to write until the next panel is asked for."""
        self.taken += 1
        return self._all()

    def _all(self) -> np.ndarray:
        """`cells`, for those who know who takes them."""
        self._materialize(0, COLUMNS)
        for key in list(self._panels):
            self._put_back(key)
        return self._whole()

    def panel(self, column: int, width: int, fresh: bool = False) -> np.ndarray:
        """Some columns in one piece, uint32 (ctas, 128, width): to read, and to write until others are asked for.

        ``fresh``: the caller writes every cell and reads none, so that a new panel may hold anything.
        """
        self.taken += 1
        self._materialize(column, width)
        if width == self.width:
            if fresh and self._cells is None and not self._panels:
                self._cells = self._pool.unused((self.ctas, LANES, width), np.uint32)
            return self._all()
        key = (column, width)
        if key not in self._panels:
            for first, count in list(self._panels):
                if first < column + width and column < first + count:
                    self._put_back((first, count))
            if self._cells is None:
                make = self._pool.unused if fresh else self._pool.poison
                self._panels[key] = make((self.ctas, LANES, width), np.uint32)
            else:
                self._panels[key] = np.ascontiguousarray(self._whole()[:, :, column : column + width])
        return self._panels[key]

    def peek(self, column: int, width: int) -> np.ndarray:
        """Some columns, uint32 (ctas, 128, width), to read at once: a view, of a panel that has them where one does."""
        self._materialize(column, width)
        for (first, count), panel in self._panels.items():
            if first <= column and column + width <= first + count:
                return panel[:, :, column - first : column - first + width]
        return self._all()[:, :, column : column + width]

    def release(self) -> None:
        """The CTAs have ended: give the memory back."""
        self.deferral = None
        for panel in self._panels.values():
            self._pool.keep(panel)
        if self._cells is not None:
            self._pool.keep(self._cells)

    def _materialize(self, column: int, width: int) -> None:
        if self.deferral is not None:
            self.deferral.materialize(column, width)

    def _whole(self) -> np.ndarray:
        """The array of all cells, without what panels hold."""
        old = self._cells
        if old is not None and old.shape[2] == self.width:
            return old
        cells = self._cells = self._pool.poison((self.ctas, LANES, self.width), np.uint32)
        if old is not None:
            cells[:, :, : old.shape[2]] = old
        return cells

    def _put_back(self, key: tuple[int, int]) -> None:
        column, width = key
        panel = self._panels.pop(key)
        self._whole()[:, :, column : column + width] = panel
        self._pool.keep(panel)

    # ---- allocation --------------------------------------------------------------------------------------------------

    @property
    def allocated(self) -> dict[int, int]:
        """First column -> columns of everything allocated in any CTA."""
        return self.allocated_in(None)

    def allocated_in(self, rows: np.ndarray | None) -> dict[int, int]:
        """First column -> columns of everything allocated in any of the CTAs ``rows``."""
        owner = self.owner if rows is None else self.owner[rows]
        bases = sorted(set(owner[owner >= 0].tolist()))
        return {base: BLOCK * int((owner == base).sum(axis=1).max()) for base in bases}

    def allocate(self, columns: int, rows: np.ndarray | None, pair: bool) -> np.ndarray:
        """Take the first or last free run of ``columns`` in each of the CTAs ``rows`` (None = all) that has one.

        With ``pair`` the rows are whole pairs, side by side, and both CTAs of a pair get the same columns.

        Returns:
            int64 (rows,): the first column; -1 where there is no such run.
        """
        rows = np.arange(self.ctas) if rows is None else rows
        used = self.owner[rows] >= 0
        if pair:
            both = used.reshape(-1, 2, used.shape[1]).any(axis=1)
            used = np.repeat(both, 2, axis=0)
        blocks = columns // BLOCK
        taken = np.zeros((len(used), used.shape[1] + 1), np.int64)
        np.cumsum(used, axis=1, out=taken[:, 1:])
        free = taken[:, blocks:] == taken[:, :-blocks]
        some = free.any(axis=1)
        start = free.argmax(axis=1) if self.placement == "first" else free.shape[1] - 1 - free[:, ::-1].argmax(axis=1)
        if some.any():
            taken_by = rows[some]
            first = start[some]
            self.owner[taken_by[:, None], first[:, None] + np.arange(blocks)] = (BLOCK * first)[:, None]
            self.last[taken_by] = columns
            self._holds.clear()
            self.width = max(self.width, BLOCK * (int(first.max()) + blocks))
        return np.where(some, BLOCK * start, -1)

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


def columns_first(cells: np.ndarray) -> np.ndarray:
    """Cells (..., columns) as a new array (columns, ...): a register of all threads is in one piece."""
    flat = cells.reshape(-1, cells.shape[-1])
    found = np.empty((cells.shape[-1], len(flat)), cells.dtype)
    for low in range(0, len(flat), LANES):  # a few rows at a time stay inside a cache, ten times faster than all
        found[:, low : low + LANES] = flat[low : low + LANES].T
    return found.reshape(-1, *cells.shape[:-1])
