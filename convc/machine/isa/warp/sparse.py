"""2:4 sparse matrices in the registers of a warp (PTX manual, 9.7.14.6, "mma.sp").

Of each chunk of a row of A a part is stored, and metadata say where it was: four bits for each chunk.

| elements of A | chunk | stored of it | its four bits |
| --- | --- | --- | --- |
| 16 and 8 bits | 4 elements | 2 | two positions of 2 bits, the lower one first |
| 4 bits | 8 elements | 2 pairs | the positions of two pairs, likewise |
| tf32 | 2 elements | 1 | 0b0100: the first one, 0b1110: the second one |

Each lane has 32 bits of metadata, those of eight chunks. Of the four lanes that share a row as many are asked as it has
chunks for; the selector says which.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

ROWS = 16
GROUP = 4
"""Lanes that share a row of A, and the one eight rows below it."""

NIBBLES = 8
"""Chunks that the metadata of one lane are about."""

SINGLE = (0b0100, 0b1110)
"""Metadata of a chunk of tf32 by the position of what is stored."""


@dataclass(frozen=True, eq=False)
class Sparsity:
    """A way in which A is stored: that of one type and width.

    Attributes:
        depth: columns of A. unit: elements that stay together. pairs: whether two units are stored of a chunk of four,
            else one of two.
        lanes: the lane whose metadata are about each chunk, int (16, chunks). shifts: the lowest of its four bits.
    """

    depth: int
    unit: int
    pairs: bool
    lanes: np.ndarray
    shifts: np.ndarray

    def chunks(self, metadata: np.ndarray) -> np.ndarray:
        """The four bits of each chunk, int (ctas, warps, 16, chunks), of metadata uint32 (ctas, warps, 32)."""
        return (metadata[..., self.lanes] >> self.shifts).astype(np.int64) & 15

    def meaningless(self, chunks: np.ndarray, ordered: bool) -> np.ndarray:
        """Whether four bits name no positions, or, where that is asked for, not in ascending order."""
        if not self.pairs:
            return ~np.isin(chunks, SINGLE)
        first = chunks & 3
        second = chunks >> 2
        return first >= second if ordered else first == second

    def dense(self, stored: np.ndarray, chunks: np.ndarray) -> np.ndarray:
        """A with all of its columns, (ctas, warps, 1, 16, depth), of what is stored, half as wide."""
        position = np.stack((chunks & 3, chunks >> 2), axis=-1) if self.pairs else (chunks >> 3)[..., None]
        width = (4 if self.pairs else 2) * self.unit
        start = np.arange(int(chunks.shape[-1]))[:, None] * width
        columns = (start + position * self.unit)[..., None] + np.arange(self.unit)
        columns = columns.reshape(*columns.shape[:-3], -1)[:, :, None]
        lead = np.broadcast_shapes(stored.shape[:2], columns.shape[:2])
        full = np.zeros((*lead, 1, ROWS, self.depth), stored.dtype)
        shape = (*lead, 1, ROWS, stored.shape[-1])
        np.put_along_axis(full, np.broadcast_to(columns, shape), np.broadcast_to(stored, shape), axis=-1)
        return full


@functools.cache
def sparsity(depth: int, bits: int, selector: int) -> Sparsity:
    """Give the way in which A of ``depth`` columns is stored whose elements take ``bits`` bits of a register.

    Recorded for every type and selector: the lanes of a row hold its chunks from the left. Of two lanes that are asked
    each has the left or the right half of both rows, where elements have 16 bits or more; where they have fewer, all
    of one row.
    """
    pairs = bits < 32
    unit = 2 if bits == 4 else 1
    count = depth // ((4 if pairs else 2) * unit)
    row = np.arange(ROWS)[:, None]
    chunk = np.arange(count)[None, :]
    asked = count * ROWS // (NIBBLES * 8)  # of the lanes of a row
    low = row // 8  # 0 or 1: the row of the group
    if asked == 1:
        lane = selector + 0 * chunk
        nibble = chunk + NIBBLES // 2 * low
    elif asked == 2 and bits >= 16:
        lane = 2 * selector + chunk // GROUP
        nibble = chunk % GROUP + NIBBLES // 2 * low
    elif asked == 2:
        lane = 2 * selector + low
        nibble = chunk
    else:
        lane = low + 2 * (chunk // NIBBLES)
        nibble = chunk % NIBBLES
    shape = (ROWS, count)
    lanes = np.broadcast_to(GROUP * (row % 8) + lane, shape)
    shifts = np.broadcast_to(4 * nibble, shape).astype(np.uint32)
    return Sparsity(depth=depth, unit=unit, pairs=pairs, lanes=lanes, shifts=shifts)
