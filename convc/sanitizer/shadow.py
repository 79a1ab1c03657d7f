"""Shadow memory: who accessed each place last.

Places are bytes of the shared memory of one CTA, cells of its tensor memory, or pieces of a buffer in global memory.
Places of shared and tensor memory that are always accessed together share an entry (`convc.sanitizer.parts`).
Per place there is the last write, and per component the last read since; both are numbers of entries in a log of
accesses, together with the lane. Atomics are kept per component as well, since they do not order each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec
import numpy as np

from convc.machine.tensor_core.footprints import Operand
from convc.ptx import Instr
from convc.sanitizer.strength import Strength
from convc.sanitizer.tcgen05_order import Stream

LANES = 32
PAGE = 4096
"""Bytes of a buffer that are looked up together."""

COARSEST = 16
"""Most bytes of a buffer that are one place."""

FEW = 8
"""Most accesses of a place's neighbourhood that are taken out one by one."""

ONE = (1,)
"""Shape of a single place."""

SHORT = 64
"""Most entries that Python tells apart sooner than numpy."""

Key = str | tuple[int, bool, Stream | None]
"""A table of last accesses: a name, or (component, whether they write, stream of tensor operations)."""


NOTHING: Mapping[Stream, int] = MappingProxyType({})
"""What an access that is no tensor operation comes after."""


class Access(msgspec.Struct, kw_only=True):
    """One entry of the log; never changed (a frozen record is slow to make).

    Attributes:
        component, time: position in vector time.
        actor: who, for people ("warp 4", "tensor copy of warp 4").
        kind: ld, st, atom, mma, cp, shift, copy, init, alloc …
        write, generic: a write; made by an ordinary instruction (through the generic proxy).
        row, warp: CTA (row of the cohort) and warp that executed or issued it; lane: the thread that issued it, None
            where all lanes took part.
        home: CTA whose memory it is; in global memory, the CTA that made it.
        stream, after: of a tensor operation, see `convc.sanitizer.tcgen05_order`; else None and empty.
        strength: where it is strong.
        swizzle: of a tensor copy, that of its tensor map. operands: the matrices that a tensor operation reads.
        instr: the instruction; nth: how often this warp had made this access with it before.
    """

    component: int
    time: int
    actor: str
    kind: str
    row: int
    warp: int
    home: int
    instr: Instr
    write: bool = False
    generic: bool = True
    lane: int | None = None
    stream: Stream | None = None
    after: Mapping[Stream, int] = NOTHING
    strength: Strength | None = None
    nth: int = 0
    swizzle: str | None = None
    operands: tuple[Operand, ...] = ()

    def __str__(self) -> str:
        step = f", step {self.instr.step}" if self.instr.step else ""
        what = f"{self.kind}, line {self.instr.span.line}{step}"
        if self.kind == "mbarrier" and not self.generic:
            return f"signal by {self.actor} ({what})"
        return f"{'write' if self.write else 'read'} by {self.actor} ({what})"


class AccessSet(msgspec.Struct):
    """The places that lanes of a warp access; never changed (a frozen record is slow to make).

    Attributes:
        space: ``shared``, ``tensor`` or ``global``.
        home: row of the CTA whose memory it is, or name of the buffer.
        lanes: (n,) the lanes.
        offsets: shared addresses, cells, or offsets in the buffer: (n, m) of each lane, or flat.
        places: those numbers, in any order, under which the tables have all of them; owners: a lane for each of them,
            or what broadcasts to that.
    """

    space: str
    home: int | str
    lanes: np.ndarray
    offsets: np.ndarray
    places: np.ndarray
    owners: np.ndarray

    def by_lane(self) -> np.ndarray:
        """Offsets (n, m)."""
        return self.offsets.reshape(len(self.lanes), -1)


class Tables:
    """Numbers by place, -1 where there is none; a table for every key that was ever noted.

    Attributes:
        size: places. unit: bytes of each.
        cells: int32 (tables, places), those of tables to come included.
        lines: by key, which of them its table is.
    """

    def __init__(self, size: int = 0) -> None:
        self.size: int = size
        self.unit = 1
        self.cells = np.full((2, size), -1, np.int32)
        self.lines: dict[Key, int] = {}

    def get(self, key: Key) -> np.ndarray:
        """The table of a key, empty at first; of several, `both` are to be asked for together."""
        line = self.line(key)
        return self.cells[line]

    def both(self, first: Key, second: Key) -> tuple[np.ndarray, np.ndarray]:
        """The tables of two keys: to make room for the second may move the first."""
        lines = self.line(first), self.line(second)
        return self.cells[lines[0]], self.cells[lines[1]]

    def line(self, key: Key) -> int:
        """The number of a key's table."""
        found = self.lines.get(key)
        if found is None:
            found = self.lines[key] = len(self.lines)
            self.have(found)
        return found

    def have(self, line: int) -> None:
        """Have a table of this number, the next one; there is room for twice as many where there is none."""
        if line == len(self.cells):
            self.cells = np.concatenate([self.cells, np.full_like(self.cells, -1)])

    def number(self, offsets: np.ndarray) -> np.ndarray:
        """The entry of each offset, of those that were looked at."""
        return offsets

    def grow(self, more: int) -> None:
        """Add so many empty entries to every table."""
        self.size += more
        self.cells = np.concatenate([self.cells, np.full((len(self.cells), more), -1, np.int32)], axis=1)


class Sparse(Tables):
    """Tables over the bytes of a buffer: pages come into being where they are looked at, and are as coarse as can be.

    A place is ``unit`` bytes, at first 16. An access of less, or at another alignment, makes all places smaller.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unit = COARSEST
        self.pages = np.full(0, -1, np.int32)
        self.used = 0

    def find(self, starts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Places of ``size`` bytes from each offset on: (n, m) places, and the offset of each."""
        # The lowest bit that is set anywhere is the largest power of two that divides all offsets and the size.
        low = int(np.bitwise_or.reduce(starts, axis=None)) | size | COARSEST
        unit = low & -low
        if unit < self.unit:
            self._refine(self.unit // unit)
        steps = np.arange(0, size, self.unit)
        offsets = starts[:, None] + steps
        ends = offsets[:, -1]
        self._reach(starts, ends, offsets)
        # Pages that came into being together follow each other: of most lines the first place says where all are.
        first = self.number(starts)
        if size <= PAGE and (self.number(ends) - first == len(steps) - 1).all():
            return first[:, None] + np.arange(len(steps)), offsets
        return self.number(offsets), offsets

    def _reach(self, starts: np.ndarray, ends: np.ndarray, offsets: np.ndarray) -> None:
        """Give a place to each of some offsets, (n, m), the first and the last of each line being these."""
        last = int(ends.max()) // PAGE
        if last >= len(self.pages):
            self.pages = np.concatenate([self.pages, np.full(2 * last + 1 - len(self.pages), -1, np.int32)])
        if offsets.shape[1] * self.unit <= PAGE:  # no page lies between the first and the last
            offsets = np.concatenate([starts, ends])
        page = offsets // PAGE
        slot = self.pages[page]
        if (slot < 0).any():
            self._open(np.unique(page[slot < 0]))

    def number(self, offsets: np.ndarray) -> np.ndarray:
        """The entry of each offset, of those that were looked at."""
        return (self.pages[offsets // PAGE].astype(np.int64) * PAGE + offsets % PAGE) // self.unit

    def known(self) -> Iterator[tuple[int, slice]]:
        """(offset in the buffer, its places) of every page."""
        per_page = PAGE // self.unit
        for page in np.flatnonzero(self.pages >= 0).tolist():
            first = int(self.pages[page]) * per_page
            yield page * PAGE, slice(first, first + per_page)

    def _open(self, pages: np.ndarray) -> None:
        """Give pages their places, behind those in use; the tables at least double, so that growing stays cheap."""
        self.pages[pages] = np.arange(self.used, self.used + len(pages))
        self.used += len(pages)
        needed = self.used * PAGE // self.unit
        if needed > self.size:
            self.grow(max(needed, 2 * self.size) - self.size)

    def _refine(self, ratio: int) -> None:
        """Cut every place into so many, each with the accesses that the whole had."""
        self.unit //= ratio
        self.size *= ratio
        self.cells = np.repeat(self.cells, ratio, axis=1)


class Shadow:
    """Last accesses of places; entries are numbers of the log times 32 plus the lane."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.writes = [tables.line("write")]  # tables that reads are compared with, that of the last write first

    def before(self, places: np.ndarray, write: bool) -> list[int]:
        """Log numbers of the accesses that one of ``places`` has to be ordered after."""
        cells = self.tables.cells
        if write:
            cells = cells[: len(self.tables.lines)]
            # One place is the usual case: most tiles are written and read as one.
            entries = cells[:, places[0]] if places.shape == ONE else cells.take(places, axis=1)
        elif len(self.writes) == 1 and places.shape == ONE:
            entry = cells.item(self.writes[0], places.item(0))
            return [] if entry < 0 else [entry >> 5]
        elif len(self.writes) == 1:
            entries = cells[self.writes[0]].take(places)
        else:
            # Reads race with writes alone: with the last one ("write"), and with atomics and tensor operations.
            entries = np.concatenate([cells[line].take(places) for line in self.writes])
        found = _numbers(entries.reshape(-1))
        found.discard(-1)
        return sorted(found)

    def by_another(self, places: np.ndarray, owners: np.ndarray, number: int) -> bool:
        """Whether an access is the last of its kind at some place, and another lane than the place's owner made it."""
        for table in self.tables.cells[: len(self.tables.lines)]:
            entry = table.take(places)
            if ((entry >> 5 == number) & (entry & LANES - 1 != owners)).any():
                return True
        return False

    def entries(self, places: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Find where an access is the last of its kind (bool, like ``places``), and the lanes that made it there."""
        here = np.zeros(places.shape, bool)
        lanes: list[np.ndarray] = []
        for table in self.tables.cells[: len(self.tables.lines)]:
            entry = table[places]
            own = entry >> 5 == number
            here |= own
            lanes.append(entry[own] & LANES - 1)
        return here, np.unique(np.concatenate(lanes))

    def record(self, places: np.ndarray, number: int, lanes: np.ndarray | int, access: Access) -> None:
        """Note an access; a write that is no atomic takes the place of everything before it.

        ``lanes`` broadcasts to ``places``.
        """
        entry = number * LANES + lanes
        if access.write and access.strength is None:
            self.forget(places)
            self.tables.cells[self.writes[0]][places] = entry
            return
        key = (access.component, access.write, access.stream)
        known = key in self.tables.lines
        line = self.tables.line(key)
        if access.write and not known:
            self.writes.append(line)
        self.tables.cells[line][places] = entry

    def forget(self, places: np.ndarray) -> None:
        """Storage that was given back, or written anew."""
        self.tables.cells[: len(self.tables.lines), places[0] if places.shape == ONE else places] = -1


def _numbers(entries: np.ndarray) -> set[int]:
    """The log numbers of entries (n,): nearly always few, so that taking them out one by one beats sorting."""
    if entries.size > SHORT:
        entries = entries[entries >= 0]
    if entries.size <= SHORT:
        return {entry >> 5 for entry in entries.tolist()}
    found: set[int] = set()
    for _ in range(FEW):
        number = int(entries[0]) >> 5
        found.add(number)
        others = entries >> 5 != number
        if not others.any():
            return found
        entries = entries[others]
    return found | set(np.unique(entries >> 5).tolist())
