"""The lanes of a tile as a picture: an SVG text that a browser shows, the same for the same tile.

A row for each lane, a column for each filter column; to the right, the rows of shared memory. A pixel has the same
tint wherever it is, by its column in the image, so that what is shared shows as stripes. Every other state has a sign:
text for padding, a cross for masked lanes, a bar and the row for what was fetched anew. A sentence about a cell appears
where the mouse rests on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from convc.compiler.index.row_stream import WINDOW
from convc.explain.lane_tables import heading
from convc.explain.lanes import Cell, Lane, LaneTable
from convc.explain.shared_rows import Pixel, SharedRow
from convc.report.format import convolution

# Lengths are in pixels.
ROW = 18
"""Height of a row."""

LABEL = 130
"""Width of a label."""

CELL = 160
"""Width of a cell."""

GAP = 24
"""Space between panels, and around the picture."""

TOP = 118
"""Where the rows begin: below the title, the legend and two lines of headings."""

TINTS = ("#dbe9f6", "#fde8d0", "#dcefdc", "#f6dbe4", "#e6dff3", "#f7f1c9", "#d3eeee", "#eadfd3")
"""Of pixels, by their column in the image: neighbours in a tile have neighbouring tints."""

PADDING = "#ffffff"
IDLE = "#eeeeee"
BORDER = "#555555"
FRESH = "#1b7837"

LEGEND = (
    ("one tint: one column of the image", TINTS[0], ""),
    ("the next column", TINTS[1], ""),
    ("0: padding, a zero", PADDING, "dash"),
    ("X: masked", TINTS[0], "cross"),
    ("row: fetched anew", TINTS[0], "bar"),
    ("-: no output", IDLE, ""),
)


def lanes_svg(table: LaneTable) -> str:
    """The picture as text, lines ending in newlines."""
    columns = sum(len(buffer.taps) for buffer in table.buffers)
    lanes = LABEL + columns * CELL + (len(table.buffers) - 1) * GAP
    shared = max(len(buffer.rows) for buffer in table.buffers)
    title = f"{convolution(table.problem)}: {heading(table)}"
    legend = GAP + sum(32 + 7 * len(words) + GAP for words, _, _ in LEGEND)
    width = max(GAP + lanes + len(table.buffers) * (GAP + CELL) + GAP, legend, 2 * GAP + 9 * len(title))
    height = TOP + max(shared, len(table.buffers[0].lanes)) * ROW + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="monospace" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(GAP, 26, title, size=15),
        *_legend(),
        *_lanes(table),
        *_shared(table, GAP + lanes + GAP),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _legend() -> Iterator[str]:
    """A box for each state, with its words."""
    x = GAP
    for words, fill, sign in LEGEND:
        yield _box(x, 42, 26, fill, sign)
        yield _text(x + 32, 54, words)
        x += 32 + 7 * len(words) + GAP


def _lanes(table: LaneTable) -> Iterator[str]:
    """The heads of the columns, and a line of cells per lane."""
    x = GAP + LABEL
    yield _text(GAP, TOP - 8, f"{table.unit}: output")
    for number, buffer in enumerate(table.buffers):
        yield _text(x, TOP - 26, f"from copy {number}")
        for s in buffer.taps:
            yield _text(x + 4, TOP - 8, f"filter column s = {s}")
            for place, lane in enumerate(buffer.lanes):
                cell = lane.cells[buffer.taps.index(s)]
                yield f"<g><title>{escape(_about(table, lane, cell, s))}</title>"
                yield from _cell(x, TOP + place * ROW, cell, table.problem.stride[1])
                yield "</g>"
            x += CELL
        x += GAP
    for place, lane in enumerate(table.buffers[0].lanes):
        output = "-" if lane.output is None else f"({', '.join(map(str, lane.output))})"
        yield _text(GAP, TOP + place * ROW + 13, f"{lane.lane:3}: {output}")
        if place and place % WINDOW == 0 and table.moves:
            y = TOP + place * ROW
            yield f'<line x1="{GAP}" y1="{y}" x2="{x - GAP}" y2="{y}" stroke="black" stroke-width="2"/>'


def _about(table: LaneTable, lane: Lane, cell: Cell, s: int) -> str:
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


def _cell(x: int, y: int, cell: Cell, stride: int) -> Iterator[str]:
    """A lane at one filter column; grey where the lane has no output."""
    sign = ""
    words = str(cell.held)
    if cell.masked:
        sign = "cross"
        words = f"X {words}"
    elif not cell.held.real:
        sign = "dash"
        words = f"0 {words}"
    yield _box(x, y, CELL, IDLE if cell.needed is None else _fill(cell.held, stride), sign)
    if cell.fresh:
        words = f"{words} row {cell.row}"
        yield f'<rect x="{x}" y="{y}" width="5" height="{ROW}" fill="{FRESH}"/>'
    yield _text(x + 10, y + 13, words)


def _shared(table: LaneTable, x: int) -> Iterator[str]:
    """The rows of shared memory of each copy."""
    for number, buffer in enumerate(table.buffers):
        yield _text(x, TOP - 26, f"copy {number}, for s = {', '.join(map(str, buffer.taps))}")
        yield _text(x, TOP - 8, "row of shared memory")
        for row in buffer.rows:
            yield from _row(x, TOP + row.row * ROW, row, table.problem.stride[1])
        x += CELL + GAP


def _row(x: int, y: int, row: SharedRow, stride: int) -> Iterator[str]:
    """A row of shared memory: its number, its pixel, and its place in the halo if it is part of one."""
    sign = ""
    words = f"{row.row:3}: {row.pixel}"
    if not row.pixel.real:
        sign = "dash"
        words += " 0"
    if row.halo is not None:
        words += f" halo {row.halo[1]}"
    yield _box(x, y, CELL, _fill(row.pixel, stride), sign)
    yield _text(x + 4, y + 13, words)


def _fill(pixel: Pixel, stride: int) -> str:
    """The tint of the pixel's column in the image, or none for padding."""
    return TINTS[pixel.w // stride % len(TINTS)] if pixel.real else PADDING


def _box(x: int, y: int, width: int, fill: str, sign: str) -> str:
    """A box with a sign: "", "dash" (its border), "cross" (at its right end) or "bar" (at its left end)."""
    dash = ' stroke-dasharray="3 2"' if sign == "dash" else ""
    box = f'<rect x="{x}" y="{y}" width="{width}" height="{ROW}" fill="{fill}" stroke="{BORDER}"{dash}/>'
    if sign == "bar":
        return f'{box}<rect x="{x}" y="{y}" width="5" height="{ROW}" fill="{FRESH}"/>'
    if sign == "cross":
        left = x + width - 26
        right = x + width
        low = y + ROW
        return f'{box}<path d="M{left} {y}L{right} {low}M{right} {y}L{left} {low}" stroke="black"/>'
    return box


def _text(x: int, y: int, words: str, size: int = 0) -> str:
    """Words from x on, standing on the line y, in the size of the picture unless another is given."""
    bigger = f' font-size="{size}"' if size else ""
    return f'<text x="{x}" y="{y}" xml:space="preserve"{bigger}>{escape(words)}</text>'
