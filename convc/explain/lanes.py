"""The lanes of a tile: their output pixels, and what each of them holds, lacks or must not write at a filter column.

A table is made by following the copies and the moves of one tile (`convc.explain.shared_rows`), not from the
closed forms that the kernel's masks come from, so the two can be compared cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from convc.compiler.index.conv import ConvMaps
from convc.compiler.index.lane_masks import (
    column_mask,
    line_mask,
    masked_columns,
    masked_lanes,
    masked_lines,
    tile_mask,
    words,
)
from convc.compiler.index.maps import Counterexample, IndexMap
from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.index.row_walk import Buffer
from convc.compiler.schedules.all import RELOAD
from convc.compiler.schedules.base import Schedule
from convc.explain.shared_rows import Pixel, SharedRow, held_rows, needed_pixel, shared_rows
from convc.ir.problem import ConvProblem


@dataclass(frozen=True, slots=True)
class Cell:
    """A lane at one filter column.

    Attributes:
        row: the row of shared memory that its pixel came from.
        held, needed: the pixel that it holds, and the one that its output needs; None: it has no output.
        masked: whether the lane is left out.
        fresh: whether no lane held that row at the filter column before.
    """

    row: int
    held: Pixel
    needed: Pixel | None
    masked: bool
    fresh: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane: its output pixel (n, p, q), if it has one, and a cell for each filter column of the buffer."""

    lane: int
    output: tuple[int, int, int] | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class BufferLanes:
    """The filter columns that share a copy, the rows that it fills, and the lanes that use them."""

    taps: tuple[int, ...]
    rows: tuple[SharedRow, ...]
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class LaneTable:
    """One tile at one filter row.

    Attributes:
        moves: whether rows move from lane to lane, in tensor memory.
        unit: what a pixel of the tile is to the tensor core, a lane or a column.
        windows: copies that fill the tile of a buffer; above 1: windows of 32 lanes.
        masks: (r, s, words of 32 lanes) of every filter tap.
    """

    schedule: str
    problem: ConvProblem
    tile_m: int
    r: int
    moves: bool
    unit: Literal["lane", "column"]
    windows: int
    buffers: tuple[BufferLanes, ...]
    masks: tuple[tuple[int, int, tuple[int, ...]], ...]


def lane_table(maps: ReuseMaps, schedule: Schedule, tile_m: int, r: int | None = None) -> LaneTable:
    """Follow one tile of a schedule that shares activations, at filter row r: by default the first that meets an image.

    ValueError for another schedule, tile or filter row, and for windows that do not move.
    """
    if not schedule.shares:
        raise ValueError(f"schedule {schedule.name} does not share activations")
    moves = schedule.activations == "tensor memory"
    if maps.tile.windows > 1 and not moves:
        raise ValueError(f"windows of {WINDOW} lanes are for rows that move, not for schedule {schedule.name}")
    outputs, r = _outputs(maps.problem, maps.pixel, tile_m, r)
    taps = product(*map(range, maps.problem.kernel))
    return LaneTable(
        schedule=schedule.name,
        problem=maps.problem,
        tile_m=tile_m,
        r=r,
        moves=moves,
        unit="column" if schedule.transposed else "lane",
        windows=maps.tile.windows,
        buffers=tuple(_shared(maps, moves, tile_m, r, buffer, outputs) for buffer in maps.walk.buffers),
        masks=tuple((*tap, words(tile_mask(maps, tile_m, *tap))) for tap in taps),
    )


def reload_table(maps: ConvMaps, tile_m: int, r: int | None = None) -> LaneTable:
    """The same for the schedule that loads a tile for every filter tap: each lane finds its own pixel, or a zero."""
    problem, buffers = maps.problem, []
    outputs, r = _outputs(problem, maps.pixel, tile_m, r)
    for s in range(problem.kernel[1]):
        walk = maps.pixel.evaluate({"tile_m": tile_m, "lane": np.arange(len(outputs))})
        places = zip(*(np.broadcast_to(walk[name], len(outputs)).tolist() for name in "npq"), strict=True)
        pixels = [needed_pixel(problem, place, r, s) for place in places]
        lanes = tuple(
            Lane(lane, output, (Cell(lane, pixel, output and pixel, masked=False, fresh=False),))
            for lane, (output, pixel) in enumerate(zip(outputs, pixels, strict=True))
        )
        buffers.append(BufferLanes((s,), tuple(SharedRow(row, pixel) for row, pixel in enumerate(pixels)), lanes))
    return LaneTable(
        schedule=RELOAD.name,
        problem=problem,
        tile_m=tile_m,
        r=r,
        moves=False,
        unit="lane",
        windows=1,
        buffers=tuple(buffers),
        masks=(),
    )


def why_masked(maps: ReuseMaps) -> tuple[Counterexample, ...]:
    """For each filter column and filter row with masked lanes, what the first of these would add to its output."""
    rows, columns = map(range, maps.problem.kernel)
    by_column, by_row = column_mask(maps), line_mask(maps)
    cases = [
        (f"s = {s}", masked_lanes(by_column, maps.column, s=s), [(r, s) for r in rows]) for s in masked_columns(maps)
    ]
    cases += [(f"r = {r}", masked_lanes(by_row, maps.line, r=r), [(r, s) for s in columns]) for r in masked_lines(maps)]
    found = (_first_foreign(maps, tap, mask, taps) for tap, mask, taps in cases)
    return tuple(each for each in found if each is not None)


def _first_foreign(maps: ReuseMaps, tap: str, mask: np.ndarray, taps: list[tuple[int, int]]) -> Counterexample | None:
    """The first lane of a mask that holds a real pixel in place of padding; None where the whole tap is padding."""
    for tile_m in np.flatnonzero(mask.any(1)).tolist():
        for r, s in taps:
            for lane, cell in _column(maps, tile_m, r, s):
                if mask[tile_m, lane] and cell.held.real:
                    point = (("tile_m", tile_m), ("lane", lane), ("r", r), ("s", s))
                    text = f"without a mask lane {lane} would add pixel {cell.held.named()} where {cell.needed.named()}"
                    claim = f"{tap}: every lane holds the pixel that it needs, or a zero"
                    return Counterexample(claim, point, f"{text} is padding")
    return None


def _column(maps: ReuseMaps, tile_m: int, r: int, s: int) -> Iterator[tuple[int, Cell]]:
    """(lane, cell) of a tile at one filter tap, where the rows move."""
    outputs, _ = _outputs(maps.problem, maps.pixel, tile_m, r)
    for buffer in maps.walk.buffers:
        taps = [tap.s for tap in buffer.taps]
        if s in taps:
            for lane in _shared(maps, True, tile_m, r, buffer, outputs).lanes:
                yield lane.lane, lane.cells[taps.index(s)]


def _outputs(
    problem: ConvProblem, pixel: IndexMap, tile_m: int, r: int | None
) -> tuple[list[tuple[int, int, int] | None], int]:
    """Output pixel of each lane of a tile, None where it has none, and the filter row to look at."""
    (tiles, lanes), rows = (axis.extent for axis in pixel.domain), problem.kernel[0]
    if not 0 <= tile_m < tiles or not 0 <= (r or 0) < rows:
        raise ValueError(f"there are tiles 0..{tiles - 1} and filter rows 0..{rows - 1}, got {tile_m} and {r}")
    points = {"tile_m": tile_m, "lane": np.arange(lanes)}
    found, holds = pixel.evaluate(points), np.broadcast_to(pixel.holds(points), lanes).tolist()
    places = zip(*(np.broadcast_to(found[name], lanes).tolist() for name in "npq"), strict=True)
    outputs = [place if real else None for place, real in zip(places, holds, strict=True)]
    if r is None:
        heights = [{needed_pixel(problem, output, row, 0).h for output in outputs if output} for row in range(rows)]
        r = next((row for row in range(rows) if any(0 <= h < problem.in_extent[0] for h in heights[row])), 0)
    return outputs, r


def _shared(
    maps: ReuseMaps, moves: bool, tile_m: int, r: int, buffer: Buffer, outputs: list[tuple[int, int, int] | None]
) -> BufferLanes:
    rows = shared_rows(maps, moves, tile_m, r, buffer)
    masks = [tile_mask(maps, tile_m, r, tap.s).tolist() for tap in buffer.taps]
    columns: list[list[Cell]] = []
    before: set[int] | None = None
    for tap, held, masked in zip(buffer.taps, held_rows(maps, moves, buffer), masks, strict=True):
        columns.append(
            [
                Cell(
                    row,
                    rows[row].pixel,
                    output and needed_pixel(maps.problem, output, r, tap.s),
                    mask,
                    fresh=before is not None and row not in before,
                )
                for row, output, mask in zip(held, outputs, masked, strict=True)
            ]
        )
        before = set(held)
    lanes = tuple(Lane(i, *each) for i, each in enumerate(zip(outputs, zip(*columns, strict=True), strict=True)))
    return BufferLanes(tuple(tap.s for tap in buffer.taps), rows, lanes)
