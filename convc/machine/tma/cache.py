"""What a tensor loader keeps from one copy to the next: walks, by their start coordinates.

The K loop of a convolution copies from the same start coordinates again and again, with other offsets and
channels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from convc.ir.tensormap import TensorMap
from convc.machine.base.values import distinct_columns
from convc.machine.tma.walk import positions

CACHE_BYTES = 16 << 20
"""Memory that the walks of one tensor map may take."""

MAPS = 8
"""Tensor maps whose walks are kept from one launch to the next: a network has many layers of the same shape."""

ALIKE = 64
"""Most patterns of equal start coordinates among CTAs that are kept for a map."""

CHANNELS = 8
"""Most walks from different channels that are kept with a walk: CTAs that share a K loop have one."""

Coordinate = int | np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What one copy did.

    Attributes:
        bytes: the mbarrier's transaction count in each CTA: the full box, filled elements included (recorded).
        filled: how many of the bytes of all CTAs together are fill.
        written: (start, stop) byte ranges, relative to the destination address, that now hold data or fill.
    """

    bytes: int
    filled: int
    written: tuple[tuple[int, int], ...]


@dataclass(slots=True, kw_only=True)
class Walk:
    """The rows of a copy for given start coordinates.

    Attributes:
        at: int32 (outer, copies, rows) positions, offsets not added.
        base: int64 (copies, rows) chunk number of each row's position.
        ctas: persistent CTAs.
        members: which of the copies each CTA takes, or None where CTA i takes copy i (or all take the only
            one).
        indices: by layout class: (smallest base, index (copies, chunks) minus that).
        outside: by (layout class, taps, channel window): flat numbers of the chunks to fill, or None; and what a
            copy does.
        lines: by (taps, layout class, bytes inside): which rows lie outside the tensor, bool (copies, rows) or None;
            and what a copy does.
        others: by the channel at which each CTA starts, in chunks behind the first of them: the walk from there.
        size: bytes of all of these.
        kept: whether the cache still has it.
        known_bits: what `bits` found out.
    """

    at: np.ndarray
    base: np.ndarray
    ctas: int
    members: np.ndarray | None
    indices: dict[int, tuple[int, np.ndarray]] = field(default_factory=dict)
    outside: dict[tuple[object, ...], tuple[np.ndarray | None, LoadResult]] = field(default_factory=dict)
    lines: dict[tuple[object, ...], tuple[np.ndarray | None, LoadResult]] = field(default_factory=dict)
    others: dict[bytes, Walk] = field(default_factory=dict)
    size: int = 0
    kept: bool = True
    known_bits: int | None = None

    def bits(self) -> int:
        """The bits that any number of ``base`` has set: a power of two that divides these divides every number."""
        if self.known_bits is None:
            self.known_bits = int(np.bitwise_or.reduce(self.base, axis=None))
        return self.known_bits

    def from_channels(self, chunks: np.ndarray) -> Walk:
        """The walk of CTAs that start so many chunks, int64 (ctas,), behind the base of each row."""
        key = chunks.tobytes()
        found = self.others.get(key)
        if found is None:
            if len(self.others) >= CHANNELS:
                self.others.clear()
            members = self.members
            if members is None:
                members = np.arange(self.ctas) if len(self.base) > 1 else np.zeros(self.ctas, np.int64)
            first, which = distinct_columns(np.stack([members, chunks]))
            order = first.argsort()
            first = first[order]
            copies = members[first]
            base = self.base[copies] + chunks[first, None]
            which = order.argsort()[which]
            found = Walk(at=self.at[:, copies], base=base, ctas=self.ctas, members=which, kept=False)
            self.others[key] = found
        return found


class WalkCache:
    """Walks of one tensor map; those longest unused are dropped when they take more than ``limit`` bytes."""

    def __init__(self, tmap: TensorMap, limit: int = CACHE_BYTES) -> None:
        self._tmap = tmap
        self._limit = limit
        self._walks: dict[tuple[object, ...], Walk] = {}
        self._bytes = 0
        self._alike: dict[tuple[tuple[int, ...], bytes], tuple[np.ndarray | None, np.ndarray | None]] = {}
        self._first: tuple[tuple[object, ...], np.ndarray, np.ndarray] | None = (
            None  # the latest as it is from last coordinate 0 on
        )

    def find(self, coords: tuple[Coordinate, ...], steps: np.ndarray, ctas: int) -> Walk:
        """The walk from the outer start coordinates ``coords`` through the positions ``steps`` (see `CopyRows`).

        Four coordinates for a map of rank 2 are the four lines of a rows4 copy themselves.
        """
        key = (ctas, steps.size, *(c if isinstance(c, int) else c.tobytes() for c in coords))
        walk = self._walks.pop(key, None)
        if walk is not None:
            self._walks[key] = walk
            return walk
        alike = all(isinstance(coordinate, int) for coordinate in coords)
        start = np.empty((len(coords), 1 if alike else ctas), np.int32)
        for axis, coordinate in enumerate(coords):
            array = isinstance(coordinate, np.ndarray)
            start[axis] = coordinate.astype(np.int32) if array else signed(coordinate)
        start, members = self._distinct(start)
        lines = len(coords) >= self._tmap.rank
        at, base = self._of_lines(start) if lines else self._along(start, steps)
        walk = self._walks[key] = Walk(at=at, base=base, ctas=ctas, members=members)
        self.keep(walk, at.nbytes + base.nbytes)
        return walk

    def _of_lines(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`Walk.at` and `Walk.base` of a rows4 copy."""
        at = start.T[None].copy()
        return at, at[0] * np.int64(self._tmap.strides[0] >> 4)

    def _along(self, start: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`Walk.at` and `Walk.base` from start coordinates (outer, copies) on.

        A walk goes on as it began whatever its last coordinate is, which alone moves from filter row to filter row.
        """
        if not len(start):  # rank 1: one row
            at = positions(self._tmap, start, steps)
            return at, np.zeros(at.shape[1:], np.int64)
        key = (start[:-1].tobytes(), start.shape, steps.size)
        if self._first is None or self._first[0] != key:
            at = positions(self._tmap, np.concatenate([start[:-1], np.zeros_like(start[-1:])]), steps)
            base = np.zeros(at.shape[1:], np.int64)
            for axis, stride in enumerate(self._tmap.strides[:-1]):
                base += at[axis] * np.int64(stride >> 4)
            self._first = (key, at, base)
        _, at, base = self._first
        at = at.copy()
        at[-1] += start[-1, :, None]
        return at, base + at[-1] * np.int64(self._tmap.strides[-1] >> 4)

    def _distinct(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Distinct columns of start coordinates, and which of them each CTA has (None: see `Walk`).

        Those that have the same go on so when all of them move alike, as they do from one step of a K loop to the next.
        """
        if start.shape[1] == 1:
            return start, None
        key = start.shape, (start - start[:, :1]).tobytes()
        found = self._alike.get(key)
        if found is None:
            if len(self._alike) >= ALIKE:
                self._alike.clear()
            found = self._alike[key] = _columns(start)
        columns, members = found
        return start if columns is None else start[:, columns], members

    def keep(self, walk: Walk, size: int) -> None:
        """Account for ``size`` more bytes of ``walk``."""
        if not walk.kept:
            return
        walk.size += size
        self._bytes += size
        while self._bytes > self._limit and len(self._walks) > 1:
            oldest = self._walks.pop(next(iter(self._walks)))
            oldest.kept = False
            self._bytes -= oldest.size


@lru_cache(maxsize=MAPS)
def walks_of(tmap: TensorMap) -> WalkCache:
    """The walks of a tensor map; they depend on nothing else."""
    return WalkCache(tmap)


def signed(coordinate: int) -> int:
    """A 32-bit register as a signed number."""
    return (int(coordinate) + (1 << 31)) % (1 << 32) - (1 << 31)


def _columns(start: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """One of each kind of columns, and which of them each CTA has (None: all, and see `Walk`)."""
    copies = start.shape[1]
    if (start == start[:, :1]).all():
        return np.zeros(1, np.int64), None
    first, members = distinct_columns(start)
    if 2 * len(first) > copies:
        return None, None
    order = first.argsort()  # as they come: neighbours among the CTAs are multiplied side by side
    return first[order], order.argsort()[members]
