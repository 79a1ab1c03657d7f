"""A tile on the image: the pixel that each lane holds at one filter tap, where it lies.

A lane has one colour at every filter tap, so that a row of pictures shows how the tile moves over the image. Cells are
labelled with their lanes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convc.draw.lanes import about, place_of, state_of
from convc.draw.notation import notation
from convc.draw.svg import LETTER, MARGIN, TINTS, TITLE, Picture, cross, group, legend, rect, text, titled
from convc.errors import InputError
from convc.explain.lane_tables import heading, sentences
from convc.explain.lanes import BufferLanes, Cell, Lane, LaneTable
from convc.report.format import convolution

CELL = 28
"""Pixels of a cell's sides."""

AXIS = 34
"""Pixels of the indices beside an image."""


def tile_picture(table: LaneTable, s: int) -> Picture:
    """Draw the pixels that the lanes of a tile hold at filter column s, on the images that they lie in.

    Masked lanes are crossed, those without an output pale, padding is dashed; a green bar marks what no lane held at
    the filter column before.

    Raises:
        InputError: there is no filter column s.
    """
    buffer, held = _held(table, s)
    frames = _frames(table)
    each = max(1, len(buffer.lanes) // len(TINTS))
    keys = (
        (f"one colour: {each} {table.unit}{'s' if each > 1 else ''}", TINTS[0]),
        ("padding, a zero", "pad dash"),
        ("the image", "idle"),
        ("bar: fetched anew", "hot"),
    )
    parts = [*legend(MARGIN, TITLE, keys), text(MARGIN, TITLE + 34, "crossed: masked; white: no output", "soft")]
    top = TITLE + 56.0
    width = 0.0
    for n, (rows, columns) in sorted(frames.items()):
        image = _Image(table, s, n, rows, columns, [pair for pair in held if pair[1].held.n == n])
        parts += image.drawn(MARGIN, top)
        width = max(width, image.width)
        top += image.height + 20
    said = list(sentences(table, buffer))[buffer.taps.index(s)]
    for line in textwrap.wrap(said, max(80, int(width / LETTER))):
        parts.append(text(MARGIN, top, line))
        top += 14
    title = f"{convolution(table.problem)}: {heading(table)}, filter column {s}"
    return titled(title, width + 2 * MARGIN, top + MARGIN, parts, notes=_notes(table))


def _notes(table: LaneTable) -> list[str]:
    """The layout of the pixels that lanes hold, padding included, where a layout gives them."""
    height, width = table.problem.in_extent
    places = {
        tap: [
            (cell.held.n * height + cell.held.h) * width + cell.held.w
            for cell in (lane.cells[i] for lane in buffer.lanes)
        ]
        for buffer in table.buffers
        for i, tap in enumerate(buffer.taps)
    }
    found = notation(np.array([places[s] for s in sorted(places)]).T)
    pixel = f"{height * width} * n + {width} * h + w"
    return [f"{table.unit}, filter column -> pixel {pixel}: {found}"] if found else []


def _held(table: LaneTable, s: int) -> tuple[BufferLanes, list[tuple[Lane, Cell]]]:
    """The buffer that serves filter column s, and each lane with what it holds there."""
    for buffer in table.buffers:
        if s in buffer.taps:
            return buffer, [(lane, lane.cells[buffer.taps.index(s)]) for lane in buffer.lanes]
    last = max(tap for buffer in table.buffers for tap in buffer.taps)
    raise InputError(f"there is no filter column {s}", hint=f"filter columns of this layer: 0 to {last}")


def _frames(table: LaneTable) -> dict[int, tuple[list[int], range]]:
    """Rows and columns of each image that lanes hold at any filter column: pictures of all of them have one frame."""
    pixels = [cell.held for buffer in table.buffers for lane in buffer.lanes for cell in lane.cells]
    found: dict[int, tuple[list[int], range]] = {}
    for n in {pixel.n for pixel in pixels}:
        rows = sorted({pixel.h for pixel in pixels if pixel.n == n})
        columns = [pixel.w for pixel in pixels if pixel.n == n]
        found[n] = rows, range(min(columns), max(columns) + 1)
    return found


@dataclass(frozen=True, slots=True)
class _Image:
    """The part of one image that a tile meets: rows and columns of it, and the lanes there."""

    table: LaneTable
    s: int
    n: int
    rows: list[int]
    columns: range
    lanes: list[tuple[Lane, Cell]]

    @property
    def width(self) -> float:
        """Pixels of the part with its indices."""
        return AXIS + len(self.columns) * CELL

    @property
    def height(self) -> float:
        """Pixels of the part with its indices."""
        return 36 + len(self.rows) * CELL

    def drawn(self, x: float, y: float) -> Iterator[str]:
        """Indices, the image behind, and the lanes on it; rows of the image that no lane meets are left out.

        Lanes that have an output are drawn above those that hold the same pixel and have none.
        """
        image = 0 <= self.n < self.table.problem.batch
        yield text(x, y + 10, f"image {self.n}" if image else f"n = {self.n}: no image", "strong")
        x += AXIS
        y += 36
        extent_h, extent_w = self.table.problem.in_extent
        left = self.columns.start
        for column in self.columns:
            yield text(x + (column - left + 0.5) * CELL, y - 5, str(column), "soft mid")
        for place, h in enumerate(self.rows):
            yield text(x - 4, y + place * CELL + 18, str(h), "soft end")
            first = max(0, left)
            last = min(extent_w, self.columns.stop)
            if image and 0 <= h < extent_h and first < last:
                yield rect(x + (first - left) * CELL, y + place * CELL, (last - first) * CELL, CELL, "idle")
        count = len(self.table.buffers[0].lanes)
        for lane, cell in sorted(self.lanes, key=lambda pair: pair[1].needed is not None):
            place = self.rows.index(cell.held.h)
            yield self._lane(lane, cell, x + (cell.held.w - left) * CELL, y + place * CELL, count)

    def _lane(self, lane: Lane, cell: Cell, x: float, y: float, count: int) -> str:
        state = state_of(cell)
        kind = "pad box" if cell.held.real else "pad box dash"
        if cell.held.real and state != "idle":
            kind = f"{TINTS[lane.lane * len(TINTS) // count]} box"
        parts = [rect(x, y, CELL, CELL, kind)]
        if cell.masked:
            parts.append(cross(x, y, CELL, CELL))
        if cell.fresh:
            parts.append(rect(x, y, 4, CELL, "hot"))
        parts.append(text(x + CELL / 2, y + 18, str(lane.lane), "mid soft" if state == "idle" else "mid"))
        needed = None if cell.needed is None else place_of(cell.needed)
        return group(
            parts,
            about(self.table, lane, cell, self.s),
            lane=lane.lane,
            r=self.table.r,
            s=self.s,
            row=cell.row,
            pixel=place_of(cell.held),
            needed=needed,
            output=None if lane.output is None else ",".join(map(str, lane.output)),
            state=state,
        )
