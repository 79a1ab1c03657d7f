"""The record of what has been written in shared or tensor memory."""

from __future__ import annotations

import numpy as np

from convc.machine.memory.global_memory import CHUNK

MARKED = {kind.itemsize: np.ones(kind.itemsize, bool).view(kind)[0] for kind in (np.dtype("u4"), np.dtype("u8"), CHUNK)}
"""So many places that are marked, as one number."""


def mark_units(marks: np.ndarray, numbers: np.ndarray, size: int) -> None:
    """Mark the units of ``size`` places with some numbers in bool (…, places), a unit at a time where that goes."""
    word = MARKED.get(size)
    if word is None or marks.shape[-1] % size:
        marks[..., (numbers[:, None] * size + np.arange(size)).reshape(-1)] = True
    else:
        marks.view(word.dtype)[..., numbers] = word


class InitMask:
    """A bitmap over storage: one line for all CTAs that have written the same places.

    There is one line as long as all CTAs do the same, and a new one where some part from others that share theirs: the
    CTAs of a cluster that have another part of the K loop, say. Lines never become one again.

    Attributes:
        map: bool (lines, places).
        line: int64 (ctas,), which line is that of a CTA.
        generation: how often writes were forgotten: what was written stays so as long as this does not change.
    """

    def __init__(self, ctas: int, size: int) -> None:
        self.ctas = ctas
        self.map = np.zeros((1, size), bool)
        self.line = np.zeros(ctas, np.int64)
        self.generation = 0
        self.known: set[object] = set()
        self._room = self.map

    def mark(self, where: slice | np.ndarray, rows: np.ndarray | None, key: object = None) -> None:
        """Record a write of places ``where`` (slice or index array) by the CTAs ``rows`` (None = all).

        A ``key`` is remembered as one of places that all CTAs have written.
        """
        if rows is None:
            self.map[:, where] = True
            if key is not None:
                self.known.add(key)
        elif len(self.map) > 1 or not self.map[0, where].all():
            for line in self._own(rows):
                self.map[line, where] = True

    def mark_units(self, numbers: np.ndarray, size: int, rows: np.ndarray | None) -> None:
        """Record a write of units of ``size`` places, by their numbers, by the CTAs ``rows`` (None = all)."""
        if rows is None:
            mark_units(self.map, numbers, size)
        else:
            self.mark((numbers[:, None] * size + np.arange(size)).reshape(-1), rows)

    def mark_each(self, rows: np.ndarray, starts: np.ndarray, size: int) -> None:
        """Record writes of ``size`` places from each of ``starts`` (n,) on, each in the CTA of ``rows`` (n,) beside it.

        CTAs that write the same places go on sharing their line.
        """
        if not starts.size or self.whole(int(starts.min()), int(starts.max()) + size):
            return
        alike: dict[bytes, list[int]] = {}
        for row in _distinct(rows).tolist():
            own = np.unique(starts[rows == row]).astype(np.int64)
            alike.setdefault(own.tobytes(), []).append(row)
        for text, members in alike.items():
            places = (np.frombuffer(text, np.int64)[:, None] + np.arange(size)).reshape(-1)
            self.mark(places, None if len(members) == self.ctas else np.array(members))

    def clear(self, where: slice | np.ndarray, rows: np.ndarray | None = None) -> None:
        """Forget writes (storage given back)."""
        if rows is None:
            self.map[:, where] = False
        else:
            for line in self._own(rows):
                self.map[line, where] = False
        self.known.clear()
        self.generation += 1

    def move(self, to: np.ndarray, start: np.ndarray, rows: np.ndarray | None) -> None:
        """Places ``to`` take the state of places ``start`` (contents moved)."""
        if len(self.map) == 1 and (self.map[0, to] == self.map[0, start]).all():
            return
        for line in range(len(self.map)) if rows is None else self._own(rows):
            self.map[line, to] = self.map[line, start]
        self.known.clear()
        self.generation += 1

    def _own(self, rows: np.ndarray) -> list[int]:
        """The lines of some CTAs, which no other CTAs share from now on."""
        rows = _distinct(rows)
        lines = self.line[rows]
        shared = np.bincount(self.line, minlength=len(self.map))
        own = np.bincount(lines, minlength=len(self.map))
        found: list[int] = []
        for line in own.nonzero()[0].tolist():
            if own[line] == shared[line]:
                found.append(line)
                continue
            found.append(self._copied(line))
            self.line[rows[lines == line]] = found[-1]
        return found

    def _copied(self, line: int) -> int:
        """A new line like another."""
        count = len(self.map)
        if count == len(self._room):
            self._room = np.empty((min(2 * count, self.ctas), self.map.shape[1]), bool)
            self._room[:count] = self.map
        self._room[count] = self._room[line]
        self.map = self._room[: count + 1]
        return count

    def missing(self, key: object, where: slice | np.ndarray, rows: np.ndarray | None) -> int:
        """How many of the places were never written (0 = all fine), in the first of the CTAs that lack any.

        A good answer for a ``key`` is remembered.
        """
        if key in self.known:
            return 0
        if self._all_around(where, rows) or self._part(where, rows).all():
            if rows is None and key is not None:
                self.known.add(key)
            return 0
        part = self.map[:, where]
        lacks = (part.shape[1] - np.count_nonzero(part, axis=1))[self.line if rows is None else self.line[rows]]
        return int(lacks[lacks.nonzero()[0][0]])  # how many lines there are does not show

    def _part(self, where: slice | np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Some places of the lines of some CTAs."""
        if rows is None or len(self.map) == 1:
            return self.map[:, where]
        lines = _distinct(self.line[rows])
        return self.map[lines, where] if isinstance(where, slice) else self.map[lines[:, None], where]

    def _all_around(self, where: slice | np.ndarray, rows: np.ndarray | None) -> bool:
        """Whether these CTAs have written all places from the first to the last: a tile leaves none out.

        It is asked where there are several lines, of which to take scattered places is slow.
        """
        if isinstance(where, slice) or not where.size or len(self.map) == 1:
            return False
        return bool(self._part(slice(int(where.min()), int(where.max()) + 1), rows).all())

    def whole(self, low: int, high: int) -> bool:
        """Whether all CTAs have written every place from ``low`` up to and without ``high``."""
        return bool(self.map[:, low:high].all())

    def lacking(self, where: slice | np.ndarray, rows: np.ndarray | None) -> int:
        """The first of the CTAs ``rows`` in which one of the places was never written."""
        lines = self.line if rows is None else self.line[rows]
        whole = np.logical_and.reduce(self.map[:, where], axis=1)
        at = int(whole[lines].argmin())
        return at if rows is None else int(rows[at])


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """Each of some numbers of CTAs or of lines once, in order.

    `numpy.unique` does so too, and imports ``numpy.ma`` when it is first called.
    """
    return np.flatnonzero(np.bincount(numbers))
