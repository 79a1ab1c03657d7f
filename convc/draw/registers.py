"""The registers of tcgen05.ld: which lane and register of a warp receives each cell of tensor memory."""

from __future__ import annotations

import numpy as np

from convc.draw.cells import Cells, draw_cells
from convc.draw.svg import MARGIN, TINTS, TITLE, Picture, legend, text, titled
from convc.errors import InputError
from convc.machine.isa.tcgen05.ld_st import register_map

PER_NUMBER = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}
"""Registers of a thread under ``.x1`` (PTX manual, tcgen05.ld); 128 are the most."""

NUMBERS = tuple(f"x{1 << i}" for i in range(8))
MOST = 128


def loaded_cells(shape: str, number: str) -> tuple[np.ndarray, np.ndarray]:
    """Thread and register of every cell that one warp loads.

    Args:
        shape: a key of `PER_NUMBER`.
        number: ``x1`` to ``x128``.

    Returns:
        Two int64 (lanes, columns) arrays, relative to the address: the thread of the warp, and its register.

    Raises:
        InputError: there is no such load.
    """
    if shape not in PER_NUMBER:
        raise InputError(f"expected a shape of {', '.join(PER_NUMBER)}, got {shape!r}")
    count = PER_NUMBER[shape] * int(number[1:]) if number in NUMBERS else 0
    if not 0 < count <= MOST:
        known = [name for name in NUMBERS if PER_NUMBER[shape] * int(name[1:]) <= MOST]
        raise InputError(f"expected a number of {', '.join(known)} for {shape}, got {number!r}")
    lanes, columns = register_map(shape, count, 0, False)
    threads = np.full((int(lanes.max()) + 1, int(columns.max()) + 1), -1)
    registers = threads.copy()
    thread, register = np.indices(lanes.shape)
    threads[lanes, columns] = thread
    registers[lanes, columns] = register
    return threads, registers


def registers_picture(shape: str, number: str) -> Picture:
    """Draw the cells of tensor memory, each with its thread and register."""
    threads, registers = loaded_cells(shape, number)
    table = Cells(
        name="tensor memory",
        words=[
            [f"T{thread} r{register}" for thread, register in zip(*row, strict=True)]
            for row in zip(threads.tolist(), registers.tolist(), strict=True)
        ],
        kinds=lambda lane, column: TINTS[int(threads[lane, column]) % 8],
        row_heads=[f"lane {lane}" for lane in range(len(threads))],
    )
    top = TITLE + 34
    parts = [
        *legend(MARGIN, TITLE - 4, [(f"thread {i}", tint) for i, tint in enumerate(TINTS)]),
        text(MARGIN, top - 4, "columns of 32 bits; threads that differ by 8 share a colour", "soft"),
        draw_cells(MARGIN, top, table),
    ]
    title = f"tcgen05.ld.sync.aligned.{shape}.{number}.b32: thread and register of each cell"
    return titled(title, table.width() + 2 * MARGIN, top + table.height + MARGIN, parts)
