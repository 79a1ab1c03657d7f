"""Accesses of a warp as memory serves them: by sectors and lines of global memory, by wavefronts of shared memory."""

from __future__ import annotations

import numpy as np

SECTOR = 32
"""Bytes of global memory that are moved together."""

LINE = 32
"""Bytes of global memory that a load brings into the SM's cache."""

BANKS = 32
"""Banks of shared memory, of four bytes each."""

WORD = 4
"""Bytes of a bank."""


def sectors(starts: np.ndarray, size: int) -> tuple[int, int]:
    """Sectors that accesses of ``size`` bytes touch: all of their bytes, and only some of them."""
    if not starts.size:
        return 0, 0
    touched = np.unique((starts[:, None] + np.arange(size)).ravel())
    _, counts = np.unique(touched // SECTOR, return_counts=True)
    whole = int(np.count_nonzero(counts == SECTOR))
    return whole, len(counts) - whole


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
