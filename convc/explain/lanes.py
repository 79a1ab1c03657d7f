"""The lanes of a tile: their output pixels, and what each of them holds, lacks or must not write at a filter column.

A table is made by following the copies and the moves of one tile (`convc.explain.shared_rows`), not from the
closed forms that the kernel's masks come from, so the two can be compared cell by cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from convc.compiler.index.conv import ConvMaps
from convc.compiler.index.lane_masks import (
    axis_mask,
    masked_columns,
    masked_lines,
    tile_mask,
    tiles_with_masks,
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

LOOKED_AT = 32
"""Tiles with masked lanes among which a lane is looked for that would add something to its output."""

Place = tuple[int, int, int]
"""An output pixel: n, p, q."""


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
    output: Place | None
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
    taps_h, taps_w = maps.problem.kernel
    return LaneTable(
        schedule=schedule.name,
        problem=maps.problem,
        tile_m=tile_m,
        r=r,
        moves=moves,
        unit="column" if schedule.transposed else "lane",
        windows=maps.tile.windows,
        buffers=tuple(_shared(maps, moves, tile_m, r, buffer, outputs) for buffer in maps.walk.buffers),
        masks=tuple((y, x, words(tile_mask(maps, tile_m, y, x))) for y in range(taps_h) for x in range(taps_w)),
    )


def reload_table(maps: ConvMaps, tile_m: int, r: int | None = None) -> LaneTable:
    """Follow one tile of the schedule that loads a tile for every filter tap: each lane finds its own pixel, or a zero.

    ValueError for a tile or a filter row that there is not.
    """
    problem = maps.problem
    outputs, r = _outputs(problem, maps.pixel, tile_m, r)
    places = _places(maps.pixel, tile_m)
    buffers: list[BufferLanes] = []
    for s in range(problem.kernel[1]):
        rows: list[SharedRow] = []
        lanes: list[Lane] = []
        for lane, (place, output) in enumerate(zip(places, outputs, strict=True)):
            pixel = needed_pixel(problem, place, r, s)
            cell = Cell(lane, pixel, None if output is None else pixel, masked=False, fresh=False)
            rows.append(SharedRow(lane, pixel))
            lanes.append(Lane(lane, output, (cell,)))
        buffers.append(BufferLanes((s,), tuple(rows), tuple(lanes)))
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
    """For each filter column and filter row with masked lanes, what the first of these would add to its output.

    At most `LOOKED_AT` tiles with masked lanes are looked at for each, whatever the size of the image.
    """
    rows, columns = map(range, maps.problem.kernel)
    found = [_first_foreign(maps, "s", s, [(r, s) for r in rows]) for s in masked_columns(maps)]
    found += [_first_foreign(maps, "r", r, [(r, s) for s in columns]) for r in masked_lines(maps)]
    return tuple(each for each in found if each is not None)


def _first_foreign(
    maps: ReuseMaps, tap: Literal["r", "s"], value: int, taps: list[tuple[int, int]]
) -> Counterexample | None:
    """The first lane masked there that holds a real pixel in place of padding; None where all of them are padding."""
    claim = f"{tap} = {value}: every lane holds the pixel that it needs, or a zero"
    for tile_m in itertools.islice(tiles_with_masks(maps, tap, value), LOOKED_AT):
        mask = axis_mask(maps, tap, tile_m, value)
        for r, s in taps:
            for lane, cell in _column(maps, tile_m, r, s):
                if not mask[lane] or not cell.held.real or cell.needed is None:
                    continue
                point = (("tile_m", tile_m), ("lane", lane), ("r", r), ("s", s))
                text = f"without a mask lane {lane} would add pixel {cell.held.named()} where {cell.needed.named()}"
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


def _outputs(problem: ConvProblem, pixel: IndexMap, tile_m: int, r: int | None) -> tuple[tuple[Place | None, ...], int]:
    """Output pixel of each lane of a tile, None where it has none, and the filter row to look at."""
    tiles, lanes = (axis.extent for axis in pixel.domain)
    rows = problem.kernel[0]
    if not 0 <= tile_m < tiles or not 0 <= (r or 0) < rows:
        raise ValueError(f"there are tiles 0..{tiles - 1} and filter rows 0..{rows - 1}, got {tile_m} and {r}")
    holds = np.broadcast_to(pixel.holds({"tile_m": tile_m, "lane": np.arange(lanes)}), lanes).tolist()
    places = _places(pixel, tile_m)
    outputs = tuple(place if real else None for place, real in zip(places, holds, strict=True))
    return outputs, _first_row(problem, outputs) if r is None else r


def _places(pixel: IndexMap, tile_m: int) -> list[Place]:
    """(n, p, q) of each lane of a tile by the map, of lanes without an output too."""
    lanes = np.arange(pixel.domain[1].extent)
    found = pixel.evaluate({"tile_m": tile_m, "lane": lanes})
    # A result that does not depend on the lane is one number.
    n, p, q = (np.broadcast_to(found[name], lanes.shape).tolist() for name in "npq")
    return list(zip(n, p, q, strict=True))


def _first_row(problem: ConvProblem, outputs: tuple[Place | None, ...]) -> int:
    """The first filter row that meets an image at any of the outputs; 0 where none does."""
    for r in range(problem.kernel[0]):
        for output in outputs:
            if output is not None and 0 <= needed_pixel(problem, output, r, 0).h < problem.in_extent[0]:
                return r
    return 0


def _shared(
    maps: ReuseMaps, moves: bool, tile_m: int, r: int, buffer: Buffer, outputs: tuple[Place | None, ...]
) -> BufferLanes:
    """Follow the rows of one buffer from filter column to filter column."""
    rows = shared_rows(maps, moves, tile_m, r, buffer)
    cells: list[list[Cell]] = [[] for _ in outputs]
    before: set[int] | None = None  # rows that some lane held at the filter column before
    for tap, held in zip(buffer.taps, held_rows(maps, moves, buffer), strict=True):
        masked = tile_mask(maps, tile_m, r, tap.s).tolist()
        for lane, (row, output) in enumerate(zip(held, outputs, strict=True)):
            needed = None if output is None else needed_pixel(maps.problem, output, r, tap.s)
            fresh = before is not None and row not in before
            cells[lane].append(Cell(row, rows[row].pixel, needed, masked[lane], fresh))
        before = set(held)
    lanes = tuple(Lane(i, output, tuple(cells[i])) for i, output in enumerate(outputs))
    return BufferLanes(tuple(tap.s for tap in buffer.taps), rows, lanes)
