"""Where the rows of a tensor copy land in shared memory.

Without a swizzle rows are dense. With one, every row takes the whole span (32, 64 or 128 bytes) even where
its data is narrower, and the 16-byte chunks of a row change places by the address they land on. Rows start
at multiples of their pitch, so all of this depends on the destination modulo 1024 alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from convc.ir.tensormap import TensorMap
from convc.machine.base.swizzle import FLIP8, chunk_xor

_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxLayout:
    """The chunks of one copy in the order of their shared addresses.

    Attributes:
        number: of the layout, never given twice.
        phase: the destination modulo the swizzle's period, in 128-byte lines.
        row, column: (chunks,) shared row of each chunk, and which 16 bytes of the row's data it holds.
        places: (chunks,) chunk offset from the destination, or None where the chunks leave no gap.
        by_row: (chunks,) chunk offsets from the destination in the order of the rows, and of the data in each.
        flipped: chunks whose 8-byte halves change places, or None.
        bytes: of data, without the gaps: the full box, fill included.
        extent: bytes from the destination to the end of the last chunk.
        written: (start, stop) byte ranges relative to the destination that the copy writes.
    """

    number: int
    phase: int
    row: np.ndarray
    column: np.ndarray
    places: np.ndarray | None
    by_row: np.ndarray
    flipped: np.ndarray | None
    bytes: int
    extent: int
    written: tuple[tuple[int, int], ...]


def layout(tmap: TensorMap, rows: int, phase: int) -> BoxLayout:
    """The layout of ``rows`` rows from the 128-byte line ``phase`` of shared memory on."""
    return _layout(tmap.swizzle, tmap.row_bytes, tmap.row_pitch, rows, phase)


@lru_cache(maxsize=256)
def _layout(swizzle: str, row_bytes: int, row_pitch: int, rows: int, phase: int) -> BoxLayout:
    data = row_bytes >> 4
    slots = row_pitch >> 4
    place = np.arange(rows * slots)
    row, slot = np.divmod(place, slots)
    line = phase + (place >> 3)
    column = slot ^ chunk_xor(swizzle, line)
    kept = np.flatnonzero(column < data)
    whole = kept.size == place.size
    edges = np.flatnonzero(np.diff(kept) != 1)
    starts = kept[np.concatenate([[0], edges + 1])]
    stops = kept[np.concatenate([edges, [-1]])] + 1
    return BoxLayout(
        number=next(_NUMBERS),
        phase=phase,
        row=row[kept],
        column=column[kept],
        places=None if whole else kept,
        by_row=kept[np.lexsort((column[kept], row[kept]))],
        flipped=np.flatnonzero(line[kept] & 1) if swizzle == FLIP8 else None,
        bytes=rows * row_bytes,
        extent=int(stops[-1]) * 16,
        written=tuple(zip((starts * 16).tolist(), (stops * 16).tolist(), strict=True)),
    )
