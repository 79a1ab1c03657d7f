"""Swizzles: how shared memory permutes small pieces of a row, so that a column of chunks hits all banks.

A swizzle XORs a few higher bits of a byte address into lower ones. It is its own inverse, keeps pieces
(*atoms*) of 16, 32 or 64 bytes whole, and depends on the absolute shared-memory address alone. The copy
engine writes with the same function that matrix descriptors read with, so that a buffer needs no correction
wherever it starts.

| mode | atom | XOR |
| --- | --- | --- |
| 32B | 16 | bit 7 into bit 4 |
| 64B | 16 | bits 7-8 into bits 4-5 |
| 128B | 16 | bits 7-9 into bits 4-6 |
| 128B_atom32 | 32 | bits 7-8 into bits 5-6 |
| 128B_atom32_flip8 | 32 | the same, and the 8-byte halves of each chunk change places where bit 7 is set |
| 128B_atom64 | 64 | bit 7 into bit 6 |

Source: PTX manual, shared-memory swizzle tables. 32B, 64B and 128B are recorded on an H200, at all starts
(``tests/recordings``); the atom variants are documented only.
"""

from __future__ import annotations

import numpy as np

from convc.ir.tensormap import SWIZZLE_SPAN

XOR = {
    "none": (0, 0), "32B": (1, 0), "64B": (3, 0), "128B": (7, 0),
    "128B_atom32": (3, 1), "128B_atom32_flip8": (3, 1), "128B_atom64": (1, 2),
}  # fmt: skip
"""Mask of the 128-byte line number that is XORed into the chunk index, and its left shift on the way."""

FLIP8 = "128B_atom32_flip8"


def chunk_xor(mode: str, line: np.ndarray | int, base: int = 0) -> np.ndarray | int:
    """What the 16-byte chunk index is XORed with.

    Args:
        mode: a swizzle name.
        line: address >> 7 (the 128-byte line), any shape.
        base: the base-offset field of a matrix descriptor; 0 for the copy engine.
    """
    mask, shift = XOR[mode]
    return ((line - base) & mask) << shift


def swizzle(mode: str, address: np.ndarray | int, base: int = 0) -> np.ndarray | int:
    """The byte address that a byte of an unswizzled layout really has; its own inverse for base 0."""
    moved = address ^ (chunk_xor(mode, address >> 7, base) << 4)
    if mode == FLIP8:
        moved = moved ^ (((address >> 7) & 1) << 3)
    return moved


def pitch(mode: str) -> int:
    """Bytes of one row of a matrix operand: the swizzle span, and 16 without a swizzle."""
    return SWIZZLE_SPAN[mode] or 16
