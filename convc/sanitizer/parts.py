"""Parts of a memory: places that every access so far has reached together, by one lane, stand in the tables as one.

A tile of shared memory is written by one copy and read by a few instructions, again and again: what is known of its
thousands of bytes is the same number. So a memory begins as one part, and an access that reaches some of a part cuts it
in two. The tables have one entry a part. In a loop accesses repeat, and their parts are found by looking them up.
The CTAs of a cluster do much the same in memories of their own, so that what one of them cuts is cut for all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from convc.sanitizer.shadow import LANES, SHORT, Tables

FIRST = 4096
"""Entries of the tables that there is room for at first; pages of it that are not used take no time."""

TABLES = 32
"""Tables of a memory that there is room for at first."""

DENSE = 4
"""Numbers that have a table entry for each that might be among them, where these are no more times as many; others are
sorted, which takes longer for so many."""

MARKED = 16 * DENSE
"""The same for a table whose entries are bytes."""

BLOCK = 16
"""Places that most accesses reach all or none of, so that they are looked at as one."""

STEPS = np.arange(BLOCK)

KEPT = 1 << 21
"""Most places of accesses that are kept to be looked up."""

Found = tuple[np.ndarray, np.ndarray]
"""Parts (n,) that an access reaches, and the lane that does reach each, (n,) or (1,)."""


@dataclass(slots=True)
class _Known:
    """An access as it was when its parts were last found.

    Attributes:
        source: the array that it came as, kept so that no other has its identity.
        places, lanes: every place once, or every block, and the last of the lanes that reach it, or the only lane.
        blocks: whether it reaches whole blocks.
        found: its parts. version: of the memory at that time.
    """

    source: np.ndarray
    places: np.ndarray
    lanes: np.ndarray
    blocks: bool
    found: Found
    version: int = -1


def _blocks(places: np.ndarray) -> np.ndarray | None:
    """The blocks that lanes reach, each lane its own of places (n, m); None where they do not reach whole ones."""
    if places.shape[-1] % BLOCK:
        return None
    rows = places.reshape(-1, BLOCK)
    first = rows[:, 0]
    if (first % BLOCK).any() or (rows != first[:, None] + STEPS).any():
        return None
    return first // BLOCK


def _counted(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers among some that are not negative, in order, and how often each is there."""
    if keys.size <= SHORT:
        several: Counter[int] = Counter(keys.tolist())
        found = sorted(several)
        return np.array(found), np.array([several[key] for key in found])
    low = int(keys.min())
    span = int(keys.max()) - low
    if span > DENSE * keys.size:
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys - low)
    found = counts.nonzero()[0]
    return found + low, counts[found]


def _distinct(places: np.ndarray) -> np.ndarray:
    low = int(places.min())
    span = int(places.max()) - low + 1
    if span > MARKED * places.size:
        return np.unique(places)
    there = np.zeros(span, bool)
    there[places - low] = True
    return np.flatnonzero(there) + low


def _last_of_each(places: np.ndarray, owners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct places in order, and the last of the owners of each."""
    low = int(places.min())
    span = int(places.max()) - low + 1
    if span > MARKED * places.size:
        single, last = np.unique(places[::-1], return_index=True)
        return single, owners[::-1][last]
    owner = np.full(span, -1, np.int8)
    owner[places - low] = owners  # of several for one place the last stays
    single = np.flatnonzero(owner >= 0)
    return single + low, owner[single].astype(np.int64)  # entries of a log are computed with them


def _translated(keys: np.ndarray, found: np.ndarray, to: np.ndarray) -> np.ndarray:
    """The number that stands for each key; ``found``: the distinct keys in order."""
    if len(found) == 1:
        return to
    low = int(found[0])
    span = int(found[-1]) - low + 1
    if span > DENSE * keys.size:
        return to[np.searchsorted(found, keys)]
    table = np.empty(span, to.dtype)
    table[found - low] = to
    return table[keys - low]


class Parts(Tables):
    """Tables over one of the memories that are cut alike: which of them, is ``memory``."""

    def __init__(self, cuts: Cuts) -> None:
        super().__init__()
        self.cuts = cuts
        self.memory = len(cuts.tables)
        cuts.add(self)

    def have(self, line: int) -> None:
        """Have a table of this number, in every memory."""
        self.cuts.have(line)

    def number(self, offsets: np.ndarray) -> np.ndarray:
        """The part of each place."""
        return self.cuts.part_of.reshape(-1)[offsets]

    def find(self, lanes: np.ndarray, places: np.ndarray) -> Found | None:
        """`Cuts.find`."""
        return self.cuts.find(lanes, places)


class Cuts:
    """The parts of memories of so many places each.

    Attributes:
        part_of: int32 (blocks, places of each). sizes: of each part.
        mixed: of each block, whether it may be in several parts.
        used: how many parts there are. size: how many there is room for.
        tables: of every memory, which have an entry for each part. cells: all of them (memories, tables, parts), in
            which the entries of parts that there are hold something in the first ``lines`` tables.
    """

    def __init__(self, places: int, memories: int = 1) -> None:
        self.tables: list[Parts] = []
        self.cells = np.empty((memories, TABLES, FIRST), np.int32)
        self.lines = 0
        self.size = FIRST
        self.places = places
        self.part_of = np.zeros((-(-places // BLOCK), BLOCK), np.int32)
        self.mixed = np.zeros(len(self.part_of), bool)
        self.sizes = np.zeros(FIRST, np.int64)
        self.sizes[0] = places
        self.used = 1
        self.cut = np.zeros(FIRST, np.int64)
        self.version = 0
        self.known: dict[tuple[int | bytes, bytes], _Known | None] = {}
        self.kept = 0

    def add(self, tables: Parts) -> None:
        """Another memory."""
        self.tables.append(tables)
        if len(self.tables) > len(self.cells):
            self.make_room(memories=1)
        self._share()

    def make_room(self, memories: int = 0, tables: int = 0, parts: int = 0) -> None:
        """Let the tables have room for twice as many as there are along the axes that are given as 1."""
        old = self.cells
        more = zip(old.shape, (memories, tables, parts), strict=True)
        self.cells = np.empty([size << wanted for size, wanted in more], np.int32)
        known = old[:, : self.lines, : self.used]
        self.cells[: len(old), : self.lines, : known.shape[2]] = known
        self.cells[len(old) :, : self.lines, : self.used] = -1
        self._share()

    def have(self, line: int) -> None:
        """Have so many tables, and this one too."""
        if line == self.cells.shape[1]:
            self.make_room(tables=1)
        if line == self.lines:
            self.cells[:, line, : self.used] = -1
            self.lines += 1

    def _share(self) -> None:
        for tables, cells in zip(self.tables, self.cells, strict=False):
            tables.cells = cells
            tables.size = self.size

    def find(self, lanes: np.ndarray, places: np.ndarray) -> Found | None:
        """The parts that lanes (n,) reach, each its own of places (n, m); None: none, or some outside.

        An array that cannot be written is known by its identity: it is given as it is every time.
        """
        key = (places.tobytes() if places.flags.writeable else id(places), lanes.tobytes())
        if key not in self.known:
            if self.kept > KEPT:
                self.known.clear()
                self.kept = 0
            self.known[key] = self._read(lanes, places)
            self.kept += places.size
        known = self.known[key]
        if known is None:
            return None
        if known.version != self.version:
            parts, _ = known.found
            if known.version < 0 or (self.cut[parts] > known.version).any():
                known.found = self._cut(known)
            known.version = self.version
        return known.found

    def _read(self, lanes: np.ndarray, places: np.ndarray) -> _Known | None:
        """An access that comes for the first time."""
        if not places.size or int(places.max()) >= self.places:
            return None
        blocks = _blocks(places)
        flat = places.reshape(-1) if blocks is None else blocks
        alone = lanes.size == 1
        owners = lanes if alone else np.repeat(lanes, flat.size // lanes.size)
        if (flat[1:] > flat[:-1]).all():  # each once, and in order
            single = flat
        elif alone:
            single = _distinct(flat)
        else:
            single, owners = _last_of_each(flat, owners)
        return _Known(places, single, owners, blocks is not None, (single, single))

    def _cut(self, known: _Known) -> Found:
        """Cut the parts of which one lane reaches some places alone, and find the parts of all."""
        places = known.places
        lanes = known.lanes
        alone = lanes.size == 1
        whole = known.blocks and not self.mixed[places].any()
        if known.blocks and not whole:
            places = (places[:, None] * BLOCK + STEPS).reshape(-1)
            lanes = lanes if alone else np.repeat(lanes, BLOCK)
        part_of = self.part_of if whole else self.part_of.reshape(-1)
        keys = part_of[places, 0] if whole else part_of[places]
        if not alone:
            keys = keys.astype(np.int64) * LANES + lanes
        found, counts = _counted(keys)
        if whole:
            counts = counts * BLOCK
        parts = found if alone else found // LANES
        partial = (counts < self.sizes[parts]).nonzero()[0]
        if partial.size:
            fresh = slice(self.used, self.used + partial.size)
            self.used = fresh.stop
            self._make_room()
            old = parts[partial]
            parts = parts.copy()
            parts[partial] = np.arange(fresh.start, fresh.stop)
            now = _translated(keys, found, parts)
            part_of[places] = now[:, None] if whole else now
            if not known.blocks:
                self.mixed[places // BLOCK] = True
            self.sizes[fresh] = counts[partial]
            np.subtract.at(self.sizes, old, counts[partial])
            self.cells[:, : self.lines, fresh] = self.cells[:, : self.lines, old]
            self.version += 1
            self.cut[old] = self.cut[fresh] = self.version
        return parts, lanes if alone else found % LANES

    def _make_room(self) -> None:
        """Let the tables have an entry for every part."""
        while self.used > self.size:
            self.sizes = np.concatenate([self.sizes, np.zeros(self.size, np.int64)])
            self.cut = np.concatenate([self.cut, np.zeros(self.size, np.int64)])
            self.size *= 2
            self.make_room(parts=1)
