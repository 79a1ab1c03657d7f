"""The lanes of a tile: a row for each lane, a column for each filter column; to the right, the rows of shared memory.

A pixel has the same tint wherever it is, by its column in the image, so that what is shared shows as stripes. Every
other state has a sign: text for padding, a cross for masked lanes, a bar and the row for what was fetched anew. A
sentence about a cell appears where the mouse rests on it. Rows that a tile does not own have a purple frame, as in the
note that the algorithms are from: those of the halo, and lanes that are masked.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from convc.compiler.index.row_stream import WINDOW
from convc.draw.notation import notation
from convc.draw.svg import LETTER, MARGIN, TINTS, TITLE, Picture, cross, group, line, rect, text, titled
from convc.explain.lane_tables import heading
from convc.explain.lanes import Cell, Lane, LaneTable, Pixel, SharedRow
from convc.report.format import convolution

# Lengths are in pixels.
ROW = 18
"""Height of a row."""

LABEL = 130
"""Width of a label."""

CELL = 160
"""Width of a cell."""

GAP = 24
"""Space between panels."""

TOP = TITLE + 74
"""Where the rows begin: below the title, the legend and two lines of headings."""

LEGEND = (
    ("one tint: one column of the image", f"{TINTS[0]} box", ""),
    ("the next column", f"{TINTS[1]} box", ""),
    ("0: padding, a zero", "pad box dash", ""),
    ("X: masked", f"{TINTS[0]} box", "cross"),
    ("row: fetched anew", f"{TINTS[0]} box", "bar"),
    ("purple: masked, or from the halo", f"{TINTS[0]} box", "rim"),
    ("-: no output", "idle box", ""),
)


def lanes_picture(table: LaneTable) -> Picture:
    """Draw what every lane of a tile holds at one filter row."""
    columns = sum(len(buffer.taps) for buffer in table.buffers)
    lanes = LABEL + columns * CELL + (len(table.buffers) - 1) * GAP
    shared = max(len(buffer.rows) for buffer in table.buffers)
    keys = MARGIN + sum(32 + LETTER * len(words) + GAP for words, _, _ in LEGEND)
    width = max(MARGIN + lanes + len(table.buffers) * (GAP + CELL) + MARGIN, keys)
    height = TOP + max(shared, len(table.buffers[0].lanes)) * ROW + MARGIN
    parts = [*_legend(), *_lanes(table), *_shared(table, MARGIN + lanes + GAP)]
    return titled(f"{convolution(table.problem)}: {heading(table)}", width, height, parts, notes=list(_notes(table)))


def _notes(table: LaneTable) -> Iterator[str]:
    """The layout of the rows that lanes multiply, of each copy that has one."""
    copies: dict[str, list[str]] = {}
    for number, buffer in enumerate(table.buffers):
        found = notation(np.array([[cell.row for cell in lane.cells] for lane in buffer.lanes]))
        if found:
            copies.setdefault(found, []).append(str(number))
    for found, numbers in copies.items():
        copy = "" if len(numbers) == len(table.buffers) else f" of copy {', '.join(numbers)}"
        yield f"{table.unit}, filter column{copy} -> row of shared memory: {found}"


def about(table: LaneTable, lane: Lane, cell: Cell, s: int) -> str:
    """A sentence about a lane at a filter column."""
    who = f"{table.unit} {lane.lane} at filter tap ({table.r}, {s})"
    if cell.needed is None:
        return f"{who}: no output; row {cell.row} of shared memory holds pixel {cell.held.named()}"
    held = f"pixel {cell.held.named()} from row {cell.row} of shared memory"
    if cell.masked:
        return f"{who}: masked, it holds {held} and needs {cell.needed.named()}, which is padding"
    if not cell.held.real:
        return f"{who}: padding {cell.held.named()}, a zero in row {cell.row} of shared memory"
    return f"{who}: {held}{', fetched anew' if cell.fresh else ''}"


def place_of(pixel: Pixel) -> str:
    """A pixel as an attribute: ``n,h,w``."""
    return f"{pixel.n},{pixel.h},{pixel.w}"


def _legend() -> Iterator[str]:
    """A box for each state, with its words."""
    x = float(MARGIN)
    for words, kind, sign in LEGEND:
        yield rect(x, TITLE - 2, 26, ROW, kind)
        if sign == "bar":
            yield rect(x, TITLE - 2, 5, ROW, "hot")
        elif sign == "cross":
            yield cross(x, TITLE - 2, 26, ROW)
        elif sign == "rim":
            yield _rim(x, TITLE - 2, 26)
        yield text(x + 32, TITLE + 11, words)
        x += 32 + LETTER * len(words) + GAP


def _lanes(table: LaneTable) -> Iterator[str]:
    """The heads of the columns, and a line of cells per lane."""
    x = MARGIN + LABEL
    yield text(MARGIN, TOP - 8, f"{table.unit}: output")
    for number, buffer in enumerate(table.buffers):
        yield text(x, TOP - 26, f"from copy {number}")
        for column, s in enumerate(buffer.taps):
            yield text(x + 4, TOP - 8, f"filter column s = {s}")
            for place, lane in enumerate(buffer.lanes):
                yield _cell(table, lane, s, lane.cells[column], x, TOP + place * ROW)
            x += CELL
        x += GAP
    for place, lane in enumerate(table.buffers[0].lanes):
        output = "-" if lane.output is None else f"({', '.join(map(str, lane.output))})"
        yield text(MARGIN, TOP + place * ROW + 13, f"{lane.lane:3}: {output}")
        if place and place % WINDOW == 0 and table.moves:
            y = TOP + place * ROW
            yield line(MARGIN, y, x - GAP, y, "mark thick")


def _cell(table: LaneTable, lane: Lane, s: int, cell: Cell, x: float, y: float) -> str:
    """A lane at one filter column; grey where the lane has no output."""
    words = str(cell.held)
    kind = "idle box" if cell.needed is None else _kind(cell.held, table.problem.stride[1])
    signs: list[str] = []
    if cell.masked:
        signs.append(cross(x + CELL - 26, y, 26, ROW))
        words = f"X {words}"
    elif not cell.held.real:
        kind += " dash"
        words = f"0 {words}"
    if cell.fresh:
        signs.append(rect(x, y, 5, ROW, "hot"))
        words = f"{words} row {cell.row}"
    if cell.purple:
        signs.append(_rim(x, y, CELL))
    return group(
        (rect(x, y, CELL, ROW, kind), *signs, text(x + 10, y + 13, words)),
        about(table, lane, cell, s),
        lane=lane.lane,
        r=table.r,
        s=s,
        row=cell.row,
        pixel=place_of(cell.held),
        needed=None if cell.needed is None else place_of(cell.needed),
        output=None if lane.output is None else ",".join(map(str, lane.output)),
        state=state_of(cell),
    )


def state_of(cell: Cell) -> str:
    """One word: ``idle`` without an output, ``masked``, ``padding``, ``fresh`` or ``held``."""
    if cell.needed is None:
        return "idle"
    if cell.masked:
        return "masked"
    if not cell.held.real:
        return "padding"
    return "fresh" if cell.fresh else "held"


def _shared(table: LaneTable, x: float) -> Iterator[str]:
    for number, buffer in enumerate(table.buffers):
        yield text(x, TOP - 26, f"copy {number}, for s = {', '.join(map(str, buffer.taps))}")
        yield text(x, TOP - 8, "row of shared memory")
        for row in buffer.rows:
            yield _row(x, TOP + row.row * ROW, number, row, table.problem.stride[1], row in buffer.halo)
        x += CELL + GAP


def _row(x: float, y: float, copy: int, row: SharedRow, stride: int, halo: bool) -> str:
    """A row of shared memory: its number, its pixel, and its place in the halo if it is part of one."""
    kind = _kind(row.pixel, stride)
    words = f"{row.row:3}: {row.pixel}"
    if not row.pixel.real:
        kind += " dash"
        words += " 0"
    if row.halo is not None:
        words += f" halo {row.halo[1]}"
    rim = (_rim(x, y, CELL),) if halo else ()
    parts = (rect(x, y, CELL, ROW, kind), *rim, text(x + 4, y + 13, words))
    return group(parts, copy=copy, row=row.row, pixel=place_of(row.pixel))


def _rim(x: float, y: float, width: float) -> str:
    """A frame inside of a cell."""
    return rect(x + 1, y + 1, width - 2, ROW - 2, "rim")


def _kind(pixel: Pixel, stride: int) -> str:
    """The tint of the pixel's column in the image, or none for padding."""
    return f"{TINTS[pixel.w // stride % len(TINTS)]} box" if pixel.real else "pad box"
