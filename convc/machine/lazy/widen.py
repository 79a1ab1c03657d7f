"""Raw elements to float32, in memory that is used again and in blocks that stay inside a cache."""

from __future__ import annotations

import numpy as np

from convc.machine.tensor_core import formats
from convc.machine.tma.load import TensorLoader

BLOCK = 1 << 16
"""Elements that are widened together."""

EXPONENTS = {
    "f16": (np.dtype(np.uint16), 0x7C00),
    "bf16": (np.dtype(np.uint16), 0x7F80),
    "tf32": (np.dtype(np.uint32), 0x7F800000),
    "e5m2": (np.dtype(np.uint8), 0x7C),
    "e4m3": (np.dtype(np.uint8), 0x7F),
}
"""The bits that are all set in an infinity or a NaN, and only there; the elements of these formats can wait."""


class Rooms:
    """Arrays to work in, each with a name and as large as it ever had to be."""

    def __init__(self) -> None:
        self._rooms: dict[tuple[str, np.dtype], np.ndarray] = {}

    def room(self, name: str, size: int, kind: np.dtype) -> np.ndarray:
        """An array (size,) of anything."""
        room = self._rooms.get((name, kind))
        if room is None or room.size < size:
            room = self._rooms[name, kind] = np.empty(size, kind)
        return room[:size]


def is_finite(loader: TensorLoader, element: str) -> bool:
    """Whether copies of a tensor bring only finite elements."""
    return loader.tmap.fill == "zero" and not loader.any_word(*EXPONENTS[element])


def widened(raw: np.ndarray, element: str, finite: bool, rooms: Rooms) -> np.ndarray:
    """float32 (elements,) of raw elements in any contiguous array."""
    if element != "f16" or not finite:
        return formats.widen(raw.view(np.uint8), element, "plain")
    halves = raw.view(np.int16)
    out = rooms.room("widened", halves.size, np.dtype(np.float32))
    for low in range(0, halves.size, BLOCK):
        # as in `formats.widen_f16`: fields into place, then the exponent
        part = out[low : low + BLOCK]
        words = part.view(np.int32)
        np.left_shift(halves[low : low + BLOCK], 13, out=words, dtype=np.int32, casting="unsafe")
        np.bitwise_and(words, -0x70002000, out=words)
        np.multiply(part, np.float32(2.0**112), out=part)
    return out
