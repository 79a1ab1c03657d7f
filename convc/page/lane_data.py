"""The lanes of a tile at every filter tap, as data that the page's script draws: the lane tables, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from convc.draw.lanes import state_of
from convc.explain.lane_tables import sentences
from convc.explain.lanes import BufferLanes, Cell, LaneTable
from convc.explain.tiles import Tiles

STATES = ("held", "fresh", "masked", "padding", "idle")
"""States of a lane at a filter tap; the data names them by their places here."""

FIRST = 2
"""Filter column that a page shows at first, where there is one: rows have moved, borders are masked."""


def lane_data(tiles: Tiles) -> dict[str, Any]:
    """A typical tile of a kernel at every filter tap.

    Returns:
        ``tile``, ``unit`` (``lane`` or ``column``), ``image`` (images, height, width), ``kernel`` (rows, columns),
        ``outputs`` (n, p, q of each lane, or None), ``first`` (filter row and column to show first), ``copies`` (the
        rows of shared memory that each copy fills: n, h, w), and ``taps``: each with ``r``, ``s``, ``copy`` (which
        copy holds its rows), ``said`` (a sentence) and ``lanes``: the row that holds the lane's pixel, the place of
        its state in ``states``, and n, h, w of the pixel needed where the lane is masked.
    """
    typical = tiles.typical()
    problem = typical.problem
    copies: list[list[list[int]]] = []
    taps: list[dict[str, Any]] = []
    for row in range(tiles.rows):
        table = tiles.lanes(typical.tile_m, row)
        found = [
            tap for number, buffer in enumerate(table.buffers, len(copies)) for tap in _taps(table, buffer, number)
        ]
        taps += sorted(found, key=lambda tap: tap["s"])
        copies += [[[row.pixel.n, row.pixel.h, row.pixel.w] for row in buffer.rows] for buffer in table.buffers]
    return {
        "tile": typical.tile_m,
        "unit": typical.unit,
        "moves": typical.moves,
        "image": [problem.batch, *problem.in_extent],
        "kernel": problem.kernel,
        "outputs": [lane.output for lane in typical.buffers[0].lanes],
        "first": [typical.r, min(FIRST, problem.kernel[1] - 1)],
        "states": STATES,
        "copies": copies,
        "taps": taps,
    }


def _taps(table: LaneTable, buffer: BufferLanes, copy: int) -> Iterator[dict[str, Any]]:
    """The filter columns that a copy serves."""
    said = list(sentences(table, buffer))
    for place, s in enumerate(buffer.taps):
        lanes = [_numbers(lane.cells[place]) for lane in buffer.lanes]
        yield {"r": table.r, "s": s, "copy": copy, "said": said[place], "lanes": lanes}


def _numbers(cell: Cell) -> list[int]:
    """A lane at a filter tap."""
    numbers = [cell.row, STATES.index(state_of(cell))]
    if cell.masked and cell.needed is not None:
        numbers += [cell.needed.n, cell.needed.h, cell.needed.w]
    return numbers
