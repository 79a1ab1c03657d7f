"""Accesses of a warp as memory serves them: by sectors and lines of global memory, by wavefronts of shared memory."""

from __future__ import annotations

import numpy as np

SECTOR = 32
"""Bytes of global memory that are moved together."""

LINE = 32
"""Bytes of global memory that a load brings into the SM's cache."""

STORED_LINE = 128
"""Bytes of global memory that a store sends on together."""

REQUEST = 64
"""Bytes of L2's rate that a request of the copy engine takes at least: those that a slice gives in a cycle."""

PIECE = 16
"""Bytes of a row that the copy engine takes from one place: it reads all of them, or fills all of them in."""

BANKS = 32
"""Banks of shared memory, of four bytes each."""

WORD = 4
"""Bytes of a bank."""


def sectors(starts: np.ndarray, size: int) -> tuple[int, int]:
    """Sectors that accesses of ``size`` bytes touch, and lines of which they touch some bytes, but not all.

    A store takes a cycle for each sector, however many of its bytes are written, and one more for each line that is not
    written whole (``tests/recordings/timing/stores_h200.csv``).
    """
    if not starts.size:
        return 0, 0
    touched = np.unique((starts[:, None] + np.arange(size)).ravel())
    _, counts = np.unique(touched // STORED_LINE, return_counts=True)
    return np.unique(touched // SECTOR).size, int(np.count_nonzero(counts < STORED_LINE))


def requests(starts: np.ndarray, size: int, row: int) -> int:
    """Count the requests of a copy to shared memory: each is a cycle of the copy engine, whatever its size.

    A row asks for the sectors that it has whole once for each line, and once more for a part of a sector at either of
    its ends; what is filled in behind it is asked for like that too. So 128 rows take the cycles of
    ``tests/recordings/timing/rows_h200.csv``.

    Args:
        starts: bytes of global memory at which rows begin; -1 of a row outside of the tensor, which is one request.
        size: bytes of a row that are in the tensor. row: bytes of it in shared memory.
    """
    inside = starts[starts >= 0]
    ends = inside + size
    first = -(-inside // SECTOR) * SECTOR
    last = ends // SECTOR * SECTOR
    head = inside < first
    whole = np.where(first < last, (last - 1) // STORED_LINE - first // STORED_LINE + 1, 0)
    tail = (last < ends) & (first <= last)
    there = -(-size // PIECE) * PIECE
    filled = int(there < row and there % SECTOR != 0) + int(row > -(-there // SECTOR) * SECTOR)
    return int(np.sum(head + whole + tail + filled)) + starts.size - inside.size


def lonely(starts: np.ndarray, size: int) -> int:
    """Rows of a copy in lines of which no other of its rows has a part; ``starts``, ``size``: see `requests`.

    Of those L2 gives as many bytes as they have, also where all SMs ask; of others a cycle of a slice goes for each
    request (``rows_h200.csv``: rows of 32 and 64 bytes, 128 bytes apart or behind each other).
    """
    inside = starts[starts >= 0]
    first = inside // STORED_LINE
    last = (inside + size - 1) // STORED_LINE
    _, place, count = np.unique(np.concatenate([first, last[last != first]]), return_inverse=True, return_counts=True)
    return int(np.count_nonzero(count[place[: inside.size]] == 1))


def wavefronts(places: np.ndarray) -> int:
    """Cycles of the port of shared memory for the bytes of each lane, (lanes, bytes).

    Lanes are served together as far as their bytes fill the banks once: 32 of 4 bytes, 16 of 8, 8 of 16. Of these, each
    bank gives one word a cycle, to everyone who asks for it (CUDA programming guide, shared memory). Those that ask for
    the very same words as others are served with them, whichever lane asks for which: epilogues where all lanes load
    the same numbers were 8 to 17 % shorter on an H200 than they are without this.
    """
    lanes, size = places.shape
    if lanes <= 1:
        return lanes
    together = max(1, min(lanes, BANKS * WORD // max(size, WORD)))
    words = places[:, ::WORD] // WORD
    least = int(words.min())
    if int(words.max()) - least < BANKS:  # no two words in one bank: a set of them is a bit each, and takes a cycle
        asked = np.bitwise_or.reduce(1 << (words.astype(np.int64) - least), axis=1)
        return len(set(np.bitwise_or.reduceat(asked, range(0, lanes, together)).tolist()))
    served: set[bytes] = set()
    found = 0
    for first in range(0, lanes, together):
        own = np.unique(words[first : first + together])
        if own.tobytes() not in served:
            found += int(np.bincount(own % BANKS).max())
            served.add(own.tobytes())
    return found
