"""Layouts of pictures in CuTe's notation: found in the places that are drawn, where a layout puts them there."""

from __future__ import annotations

import numpy as np

from convc.layout import Layout, Swizzle
from convc.layout.fitted import fitted, fitted_swizzle

SWIZZLES = {
    "none": Swizzle(0, 4, 3), "32B": Swizzle(1, 4, 3), "64B": Swizzle(2, 4, 3), "128B": Swizzle(3, 4, 3),
    "128B_atom32": Swizzle(2, 5, 2),
}  # fmt: skip
"""Swizzles of byte addresses by the names of tensor maps, as CuTe prints them (PTX manual, shared-memory swizzles)."""

LANE = 1 << 16
"""What a lane adds to an address of tensor memory, in columns of 32 bits."""


def shared_notation(places: np.ndarray, swizzle: str, bits: int = 8) -> str | None:
    """The layout of an operand in shared memory behind its swizzle; None: it has none.

    Args:
        places: byte offset of each element, int64 (rows, columns); elements of 4 bits share a byte, the even one below.
        swizzle: name of its swizzle.
        bits: of an element. Of those whose number is no power of two offsets are in bytes.
    """
    if swizzle not in SWIZZLES:
        return None
    unit = bits if bits in (4, 8, 16, 32, 64) else 8
    numbers = np.asarray(places * 8 // unit, np.int64)
    if unit == 4:
        numbers[:, 1::2] += 1
    found = fitted_swizzle(numbers.tolist(), SWIZZLES[swizzle], unit)
    return found and str(found)


def tensor_notation(lanes: np.ndarray, columns: np.ndarray) -> str | None:
    """The layout of a table of tensor memory, a lane being 65536 columns of 32 bits; None: it has none."""
    return notation(lanes * LANE + columns)


def notation(places: np.ndarray) -> str | None:
    """The layout that makes a table of numbers, int64 (rows, columns); None: there is none."""
    found = fitted(places.tolist())
    if found is None:
        return None
    layout, first = found
    return f"{layout}, from {first} on" if first else str(layout)


def stages_notation(rows: int, row_bytes: int, stages: tuple[int, int], swizzle: str, start: int) -> str:
    """The bytes of the stages of a tile: rows, bytes of a row, stages (how many, and bytes from one to the next)."""
    count, step = stages
    layout = Layout((rows, row_bytes), (row_bytes, 1))
    if count > 1:
        layout = Layout((rows, row_bytes, count), (row_bytes, 1, step))
    pointer = f"smem_ptr[8b]({start:#x})" if start else "smem_ptr[8b](unset)"
    return f"{SWIZZLES[swizzle]} o {pointer} o {layout}"
