"""A swizzle: eight rows of 16-byte units, and where in the 128-byte lines of shared memory each unit lies."""

from __future__ import annotations

import numpy as np

from convc.draw.cells import Cells, Placed
from convc.draw.mma import operand_descriptor
from convc.draw.notation import shared_notation
from convc.draw.svg import MARGIN, TINTS, TITLE, Picture, arrow, titled
from convc.errors import InputError
from convc.machine.base.swizzle import pitch
from convc.machine.tensor_core.smem_layout import chunk_offsets

MODES = ("none", "32B", "64B", "128B")
"""Swizzles of K-major operands."""

UNITS = 8
"""16-byte units of a line: together they are all banks."""

ROWS = 8


def swizzled_units(mode: str) -> np.ndarray:
    """The number of the 16-byte unit in shared memory at which each unit of eight rows lies.

    Returns:
        int64 (8, units of a row): 128-byte line times 8 plus place in the line.

    Raises:
        InputError: a K-major operand has no such swizzle.
    """
    if mode not in MODES:
        raise InputError(f"expected a swizzle of {', '.join(MODES)}, got {mode!r}")
    return chunk_offsets(operand_descriptor(ROWS, mode), ROWS, pitch(mode))


def swizzle_picture(mode: str) -> Picture:
    """Draw the rows as the operand has them, and the lines as shared memory has them."""
    units = swizzled_units(mode)
    found = {int(unit): (row, column) for (row, column), unit in np.ndenumerate(units)}
    lines = max(found) // UNITS + 1
    places = [[found.get(line * UNITS + place) for place in range(UNITS)] for line in range(lines)]
    rows = Cells(
        name="operand",
        words=[[f"{unit // UNITS},{unit % UNITS}" for unit in row] for row in units.tolist()],
        kinds=lambda row, column: TINTS[row],
        row_heads=[f"row {row}" for row in range(ROWS)],
    )
    shared = Cells(
        name="shared memory",
        words=[[f"{place[0]},{place[1]}" if place else "" for place in line] for line in places],
        kinds=lambda line, unit: _tint(places[line][unit]),
        row_heads=[f"line {line}" for line in range(lines)],
    )
    cell = 36
    top = TITLE + 26
    right = MARGIN + max(rows.width(cell), 310) + 60
    tables = [
        Placed(table=rows, x=MARGIN, y=top, cell=cell, heading="operand, 16 bytes a cell: line,unit of its place"),
        Placed(table=shared, x=right, y=top, cell=cell, heading="shared memory, a 128-byte line each: row,unit"),
    ]
    parts = [
        arrow(right - 54, top + rows.height / 2, right - 14, top + rows.height / 2),
        *(each.svg() for each in tables),
    ]
    of_bytes = (16 * units[:, :, np.newaxis] + np.arange(16)).reshape(ROWS, -1)
    notes = [f"row, byte of the row -> byte of shared memory: {shared_notation(of_bytes, mode)}"]
    width = right + max(shared.width(cell), 330) + MARGIN
    period = f"the pattern repeats after {lines * 128} bytes"
    title = f"swizzle {mode}: rows of {pitch(mode)} bytes; {period}"
    return titled(title, width, top + rows.height + MARGIN + 8, parts, notes)


def _tint(place: tuple[int, int] | None) -> str:
    return "idle" if place is None else TINTS[place[0]]
