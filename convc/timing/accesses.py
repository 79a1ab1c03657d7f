"""Accesses of a warp as memory serves them: by sectors and lines of global memory, by wavefronts of shared memory."""

from __future__ import annotations

import numpy as np

SECTOR = 32
"""Bytes of global memory that are moved together."""

LINE = 32
"""Bytes of global memory that a load brings into the SM's cache."""

STORED_LINE = 128
"""Bytes of global memory that a store sends on together."""

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


def wavefronts(places: np.ndarray) -> int:
    """Cycles of the port of shared memory for the bytes of each lane, (lanes, bytes).

    Lanes are served together as far as their bytes fill the banks once: 32 of 4 bytes, 16 of 8, 8 of 16. Of these, each
    bank gives one word a cycle, to everyone who asks for it (CUDA programming guide, shared memory).
    """
    lanes, size = places.shape
    if lanes <= 1:
        return lanes
    together = max(1, min(lanes, BANKS * WORD // max(size, WORD)))
    words = places[:, ::WORD] // WORD
    if int(words.max()) - int(words.min()) < BANKS:  # no two words in one bank
        return -(-lanes // together)
    found = 0
    for first in range(0, lanes, together):
        own = np.unique(words[first : first + together])
        found += int(np.bincount(own % BANKS).max())
    return found
