"""Scale factors of the block-scaled kinds, in tensor memory.

Row r of the scale matrix (a row of A, or a column of B) lies in lane r % 32 of each of the four sub-partitions
(four equal copies), in column base + r / 32. Its factors are consecutive bytes of that cell, from the scale id on.
With a CTA pair and M = 128 the factors of B are split like D: sub-partitions 0 and 1 hold those of the first half
of N, 2 and 3 the others.

Sources: PTX manual, tcgen05 block scaling (replication); mlc-ai/TIRx-harness on SM100 (bytes, columns); NVIDIA
CUTLASS (the split). Bits 31..30 of the address carry the id too; the descriptor's field is what counts (CUTLASS
copies it there).
"""

from __future__ import annotations

import numpy as np

from convc.machine.base.narrow_formats import table

ADDRESS = 0x3FFFFFFF
"""Bits of a scale-factor address without the id."""


def address_id(address: int, count: int) -> int:
    """The scale id in bits 31..30 of an address, for ``count`` factors: what its last bits cannot say is left out."""
    return (address >> 30 & 3) // count * count


def columns(rows: int) -> int:
    """Columns that the factors of ``rows`` rows take."""
    return -(-rows // 32)


def read(
    cells: np.ndarray, column: int, rows: int, first: int, count: int, scale_type: str, split: bool
) -> tuple[np.ndarray, bool]:
    """Factors of one operand.

    Args:
        cells: uint32 (ctas, 128, width).
        column: base column. rows: rows of the scale matrix. first, count: byte of a cell, and factors.
        scale_type: ue8m0 or ue4m3.
        split: halves of the rows lie in the two halves of the lanes.

    Returns:
        float32 (ctas, rows, count), and whether the copies in the sub-partitions agree.
    """
    halves = 2 if split else 1
    part = rows // halves
    row = np.arange(part)
    found: list[np.ndarray] = []
    same = True
    for half in range(halves):
        lane = row % 32 + 64 * half
        at = column + row // 32
        own = cells[:, lane, at]
        for copy in range(1, 4 // halves):
            same &= bool((cells[:, lane + 32 * copy, at] == own).all())
        found.append(own)
    data = np.concatenate(found, axis=1)
    shifts = 8 * (first + np.arange(count, dtype=np.uint32))
    codes = (data[:, :, None] >> shifts.astype(np.uint32)) & np.uint32(0xFF)
    return np.take(table(scale_type), codes), same
