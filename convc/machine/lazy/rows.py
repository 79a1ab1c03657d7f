"""Operands of products as rows of a tensor, without their bytes.

A matrix descriptor names 16-byte units of shared memory, and a region says which unit of which row of a tensor lies at
each address. Where every row of an operand is a run of units of one row of a tensor, and the run is the same for all
rows, the operand is a list of row numbers and a range of units: that is how tiles with any swizzle look, shifted tiles
of the schedule `slide` included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter, is_

import numpy as np

from convc.machine.lazy.regions import Region
from convc.machine.memory.shared_memory import SharedMemory, same_rows

IndexOf = Callable[..., np.ndarray]
"""From numbers to the units (rows x units of a row, flat) of an operand; cached, so that it is a name for them."""

Located = tuple[np.ndarray, int, int]
"""Row numbers int64 (rows,), first unit, units of a row."""

KEPT = 8192
"""Most answers of `find_rows` that are kept."""

_known: dict[tuple[object, ...], Located | None] = {}
"""Where operands lie, by their units and by the starts and layouts of the regions that hold them."""

_starts: dict[int, int] = {}
"""Where the copy began that held an operand from an address on: the next one probably does as well."""

_row_numbers: dict[bytes, np.ndarray] = {}
"""Row numbers by their bytes."""

WINDOW = 32
"""Lanes of a sub-partition of tensor memory."""

_start = attrgetter("start")


@dataclass(frozen=True, slots=True, eq=False)
class TensorRows:
    """Rows of a tensor.

    Attributes:
        regions: copies whose rows, laid end to end, ``rows`` numbers; all of one loader, channel and filter offset.
        rows: int64 (rows,).
        first: the unit of each row at which the operand begins.
        units: how many of them are inside the tensor; the ``full`` number may have zeros behind them.
        cut: bytes at the end of the last of these that are zeros too.
    """

    regions: tuple[Region, ...]
    rows: np.ndarray
    first: int
    units: int
    full: int
    cut: int = 0

    @property
    def whole(self) -> bool:
        """Whether no byte lies behind dimension 0."""
        return self.units == self.full and not self.cut

    def of(self, rows: np.ndarray | None) -> bool:
        """Whether these CTAs, and no others, have copied them; None: every CTA."""
        return all(same_rows(region.rows, rows) for region in self.regions)

    def part(self, first: int, units: int) -> TensorRows:
        """Some of the units."""
        cut = self.cut if first + units == self.units else 0
        return TensorRows(self.regions, self.rows, self.first + first, units, units, cut)

    def beside(self, other: TensorRows) -> bool:
        """Whether others are rows of the same copies, and the same units of each."""
        same = len(self.regions) == len(other.regions) and all(map(is_, self.regions, other.regions))
        own = (self.first, self.units, self.full, self.cut)
        return same and own == (other.first, other.units, other.full, other.cut)

    def with_rows(self, at: np.ndarray, other: TensorRows) -> TensorRows:
        """Put rows `beside` these in their place, where ``at`` (rows of the other,)."""
        rows = self.rows.copy()
        rows[at] = other.rows
        return TensorRows(self.regions, _one_of(rows), self.first, self.units, self.full, self.cut)

    def moved(self) -> TensorRows:
        """Row i becomes what row i + 1 was, inside each sub-partition; its last row stays."""
        rows = self.rows.copy().reshape(-1, WINDOW)
        rows[:, :-1] = rows[:, 1:]
        return TensorRows(self.regions, _one_of(rows.reshape(-1)), self.first, self.units, self.full, self.cut)


def find_rows(
    shared: SharedMemory, index_of: IndexOf, arguments: tuple[object, ...], rows: int, origin: int = 0
) -> TensorRows | None:
    """The operand at the units ``index_of(*arguments)`` as rows of a tensor; None where it is something else.

    Units are counted from the shared address ``origin`` on: the stages of a ring have one answer.
    """
    low, high = _extent(index_of, arguments)
    regions = _regions(shared, low + origin, high + origin)
    if not regions:
        return None
    first = regions[0]
    key = (index_of, arguments, *[(r.start - origin, r.place.number) for r in regions])
    if key not in _known:
        if len(_known) >= KEPT:
            _known.clear()
        _known[key] = _locate(index_of(*arguments), rows, regions, origin)
    found = _known[key]
    if found is None:
        return None
    for other in regions[1:]:
        if other.loader is not first.loader or other.shift != first.shift or not _end_alike(first, other):
            return None
    numbers, column, full = found
    units = min(full, first.inside - column)
    if units <= 0:
        return None
    cut = first.cut if column + units == first.inside else 0
    return TensorRows(tuple(regions), numbers, column, units, full, cut)


def _end_alike(one: Region, other: Region) -> bool:
    """Whether rows of two copies have as many bytes inside dimension 0."""
    return (one.inside, one.cut) == (other.inside, other.cut)


def _regions(shared: SharedMemory, low: int, high: int) -> list[Region]:
    known = shared.deferred.get(_starts.get(low, low))
    if isinstance(known, Region) and known.start <= low and known.stop >= high:
        return [known]
    regions = [w for w in shared.deferred.values() if w.start < high and w.stop > low and isinstance(w, Region)]
    if len(regions) > 1:
        regions.sort(key=_start)
    elif regions:
        if len(_starts) >= KEPT:
            _starts.clear()
        _starts[low] = regions[0].start
    return regions


@lru_cache(maxsize=8192)
def _extent(index_of: IndexOf, arguments: tuple[object, ...]) -> tuple[int, int]:
    """First byte of an operand, and the one behind its last."""
    index = index_of(*arguments)
    return 16 * int(index.min()), 16 * int(index.max()) + 16


def _locate(index: np.ndarray, rows: int, regions: list[Region], origin: int) -> Located | None:
    """Row numbers, first unit and units of a row of an operand inside regions; None where it is no such thing.

    ``origin``: shared address from which the ``index`` counts.
    """
    places = [region.place for region in regions]
    together = all(one.stop == other.start for one, other in pairwise(regions))
    start = regions[0].start - origin
    stop = regions[-1].stop - origin
    if not together or start > 16 * int(index.min()) or stop < 16 * int(index.max()) + 16:
        return None
    before = np.cumsum([0, *(int(place.row.max()) + 1 for place in places)]).tolist()
    row = np.concatenate([place.row + count for place, count in zip(places, before, strict=False)])
    column = np.concatenate([place.column for place in places])
    at = index.reshape(rows, -1) - (start >> 4)
    row = row[at]
    column = column[at]
    if (row != row[:, :1]).any() or (column != column[0, 0] + np.arange(at.shape[1])).any():
        return None
    return _one_of(row[:, 0]), int(column[0, 0]), at.shape[1]


def _one_of(rows: np.ndarray) -> np.ndarray:
    """The array that stands for all with the same row numbers: the stages of a ring hold the same rows."""
    key = rows.tobytes()
    known = _row_numbers.get(key)
    if known is None:
        if len(_row_numbers) >= KEPT:
            _row_numbers.clear()
        known = _row_numbers[key] = np.ascontiguousarray(rows)
    return known
