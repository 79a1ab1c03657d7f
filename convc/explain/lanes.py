"""The lanes of a tile: their output pixels, and what each of them holds, lacks or must not write at a filter column.

A table is the kernel's loop nest (`convc.explain.derived`), evaluated for one tile and one filter row: which pixel the
load brings to a row of the tile, which row a lane multiplies, and where a mask leaves it out. The rows lie in shared
memory as the copies write them:

    im2col::w         the pixels of the tile in rows 0, 1, ..., those of the halo behind them
    im2col::w::128    the tile in rows 0..127; pixel h of the halo of group g, 32 lanes, in row 128 + 4*h + g: it is the
                      one that follows h places after the group's last
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from convc.compiler.index.formulas import Instance
from convc.compiler.index.lane_masks import masked_columns, masked_lines, tiles_with_masks, words
from convc.compiler.index.maps import Counterexample
from convc.compiler.index.reuse import ReuseMaps, shared_instance
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.plan.meanings import MASK_R, MASK_S
from convc.compiler.schedules.all import CHAIN, RELOAD, SLIDE
from convc.compiler.schedules.base import Schedule
from convc.compiler.schedules.sharing.indexing import schedule_form
from convc.explain.derived import FilledNest, definition, kernel_nest
from convc.ir.problem import ConvProblem

LOOKED_AT = 32
"""Tiles with masked lanes among which a lane is looked for that would add something to its output."""

Place = tuple[int, int, int]
"""An output pixel: n, p, q."""

Values = dict[str, int | np.ndarray]

CHANNELS = ("BN", "BK", "BLOCKS", "TILES_N", "GROUP_TILES", "C_PITCH", "K_PITCH")
"""Numbers of the tiles of channels: what a lane holds does not depend on them."""


@dataclass(frozen=True, slots=True)
class Pixel:
    """A place in an image; not `real`: padding, or not even an `image`, where the copy writes a zero."""

    n: int
    h: int
    w: int
    image: bool
    real: bool

    def __str__(self) -> str:
        return f"({self.n}, {self.h}, {self.w})"

    def named(self) -> str:
        """The pixel with the names of its coordinates."""
        return f"(n={self.n}, h={self.h}, w={self.w})"


@dataclass(frozen=True, slots=True)
class SharedRow:
    """A row of the tile in shared memory, with its pixel; (group, halo) where im2col::w::128 put it behind the tile."""

    row: int
    pixel: Pixel
    halo: tuple[int, int] | None = None


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

    @property
    def purple(self) -> bool:
        """Whether the lane is left out, or holds a row that was brought for it alone: purple in figures."""
        return self.masked or self.fresh


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

    @property
    def halo(self) -> tuple[SharedRow, ...]:
        """The rows behind those that the lanes begin with: purple in figures."""
        return self.rows[len(self.lanes) :]


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
    """The lanes of a tile of a schedule that shares activations, at filter row r: by default one that meets an image.

    ValueError for another schedule, tile or filter row, and for windows that do not move.
    """
    if not schedule.shares:
        raise ValueError(f"schedule {schedule.name} does not share activations")
    if maps.tile.windows > 1 and schedule.activations != "tensor memory":
        raise ValueError(f"windows of {WINDOW} lanes are for rows that move, not for schedule {schedule.name}")
    return _table(_shared(maps, schedule), schedule, maps.problem, tile_m, r)


def tile_count(maps: ReuseMaps, schedule: Schedule) -> int:
    """Count the tiles of a schedule's nest; a tile that the grid has besides, so that CTAs have peers, is none."""
    return kernel_nest(_shared(maps, schedule)).extents["tile_m"]


def _shared(maps: ReuseMaps, schedule: Schedule) -> Instance:
    return shared_instance(maps.problem, maps, schedule_form(maps, schedule), dict[str, int].fromkeys(CHANNELS, 1))


def reload_table(derived: Instance, problem: ConvProblem, tile_m: int, r: int | None = None) -> LaneTable:
    """The lanes of a tile of the schedule that loads a tile for every filter tap: each finds its own pixel, or a zero.

    ValueError for a tile or a filter row that there is not.
    """
    return _table(derived, RELOAD, problem, tile_m, r)


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
        for r, s in taps:
            for lane, cell in _column(maps, tile_m, r, s):
                needed = cell.needed
                if needed is None or not cell.masked or not cell.held.real or _inside(maps.problem, needed, tap):
                    continue
                point = (("tile_m", tile_m), ("lane", lane), ("r", r), ("s", s))
                text = f"without a mask lane {lane} would add pixel {cell.held.named()} where {needed.named()}"
                return Counterexample(claim, point, f"{text} is padding", MASK_S if tap == "s" else MASK_R)
    return None


def _inside(problem: ConvProblem, pixel: Pixel, tap: Literal["r", "s"]) -> bool:
    """Whether a pixel lies in the image along the axis of a filter row, or of a filter column."""
    height, width = problem.in_extent
    return 0 <= pixel.h < height if tap == "r" else 0 <= pixel.w < width


def _column(maps: ReuseMaps, tile_m: int, r: int, s: int) -> Iterator[tuple[int, Cell]]:
    """(lane, cell) of a tile at one filter tap."""
    schedule = CHAIN if maps.windowed else SLIDE
    for buffer in _table(_shared(maps, schedule), schedule, maps.problem, tile_m, r).buffers:
        if s in buffer.taps:
            yield from ((lane.lane, lane.cells[buffer.taps.index(s)]) for lane in buffer.lanes)


# ---- from the nest ---------------------------------------------------------------------------------------------------


def _table(instance: Instance, schedule: Schedule, problem: ConvProblem, tile_m: int, r: int | None) -> LaneTable:
    nest = kernel_nest(instance)
    tiles, rows = (nest.extents[axis] for axis in ("tile_m", "r"))
    if not 0 <= tile_m < tiles or not 0 <= (r or 0) < rows:
        raise ValueError(f"there are tiles 0..{tiles - 1} and filter rows 0..{rows - 1}, got {tile_m} and {r}")
    tile = _Tile(nest, instance, problem, schedule.activations == "tensor memory", tile_m)
    if r is None:
        r = next((row for row in range(rows) if tile.meets(row)), 0)
    of_buffers = [(buffer, tile.taps(buffer)) for buffer in range(tile.buffers)]
    return LaneTable(
        schedule=schedule.name,
        problem=problem,
        tile_m=tile_m,
        r=r,
        moves=tile.moves,
        unit="column" if nest.record.swapped else "lane",
        windows=tile.windows,
        buffers=tuple(tile.buffer_lanes(r, buffer, taps) for buffer, taps in of_buffers),
        masks=tuple(sorted(tile.mask_words(of_buffers))) if schedule.shares else (),
    )


class _Tile:
    """A tile of a nest: what its formulas are, for all lanes at once.

    Attributes:
        lanes: numbers of the lanes, or columns, that hold pixels.
        outputs: (n, p, q) of each, None where it has none.
        buffers: loads at a filter row. windows: above 1, groups of lanes that have a load each.
        size: lanes among which rows move.
        counted: whether image rows are counted through, and there is one image.
    """

    def __init__(self, nest: FilledNest, instance: Instance, problem: ConvProblem, moves: bool, tile_m: int) -> None:
        self.nest = nest
        self.definition = definition(instance)
        self.problem = problem
        self.moves = moves
        self.lane = "column" if nest.record.swapped else "lane"
        self.lanes = np.arange(nest.extents[self.lane])
        self.at: Values = {"tile_m": tile_m, self.lane: self.lanes}
        self.tap = "tap" if "tap" in nest.extents else "s"
        self.buffers = nest.extents["buffer"] if self.tap == "tap" else nest.extents["s"]
        self.windows = instance.sizes.get("WINDOWS", 1)
        self.size = min(WINDOW, self.lanes.size)
        self.counted = problem.batch == 1 and "rows merged" in instance.form
        space = dict(nest.record.space)
        self.space = {name: np.broadcast_to(nest.value(space[name], self.at), self.lanes.shape) for name in "npq"}
        pixel = instance.map("pixel")
        real = np.broadcast_to(pixel.holds({"tile_m": tile_m, "lane": self.lanes}), self.lanes.shape)
        places = zip(*(self.space[name].tolist() for name in "npq"), strict=True)
        self.outputs = [place if has else None for place, has in zip(places, real.tolist(), strict=True)]

    def meets(self, r: int) -> bool:
        """Whether an output finds a filter row in its image."""
        needed = (pixel for pixel in self.needed(r, 0) if pixel is not None)
        return any(0 <= pixel.h < self.problem.in_extent[0] for pixel in needed)

    def needed(self, r: int, s: int) -> list[Pixel | None]:
        """The pixel that the output of each lane needs at a filter tap, by the definition; None where it has none."""
        pixel = dict(self.definition.record.pixel)
        at: Values = {**self.space, "r": r, "s": s}
        n, h, w = (np.broadcast_to(self.definition.value(pixel[axis], at), self.lanes.shape).tolist() for axis in "nhw")
        places = zip(n, h, w, self.outputs, strict=True)
        return [None if output is None else self.pixel(*place) for *place, output in places]

    def pixel(self, n: int, h: int, w: int) -> Pixel:
        """A place with what it is: inside an image or not."""
        height, width = self.problem.in_extent
        image = 0 <= n < self.problem.batch
        return Pixel(n, h, w, image, image and 0 <= h < height and 0 <= w < width)

    def point(self, buffer: int, tap: int) -> Values:
        """The loops at a column of a buffer."""
        return {"buffer": buffer, "tap": tap} if self.tap == "tap" else {"s": buffer}

    def taps(self, buffer: int) -> list[int]:
        """The filter columns of a buffer."""
        column = dict(self.nest.record.space)["s"]
        count = self.nest.extents["tap"] if self.tap == "tap" else 1
        found = (int(self.nest.value(column, self.point(buffer, tap))) for tap in range(count))
        return [s for s in found if s < self.problem.kernel[1]]

    def further(self, tap: int) -> int:
        """How many rows further on a column reads: by where it reads, or because the rows have moved."""
        record = self.nest.record
        assert record.read is not None
        moved = 0 if record.move is None else tap * int(self.nest.value(record.move.lanes, {}))
        return int(self.nest.value(record.read, {"tap": tap})) + moved

    def loaded(self, r: int, buffer: int, count: int) -> list[Pixel]:
        """The pixels that the nest loads to the first rows of the tile."""
        load = self.nest.record.load
        assert load is not None
        rows = np.arange(count)
        at: Values = {**self.at, self.lane: 0, **self.point(buffer, 0), "r": r, load.row: rows}
        pixel = dict(load.pixel)
        n, h, w = (np.broadcast_to(self.nest.value(pixel[axis], at), rows.shape) for axis in "nhw")
        if self.counted:  # a row above or below the one image is a row of no other
            n, h = n * 0, n * self.problem.in_extent[0] + h
        if load.since is not None:  # in front of the first pixel: the walk comes from padding, left of the image
            since = np.minimum(np.broadcast_to(self.nest.value(load.since, at), rows.shape), 0)
            first = rows - since
            n, h, w = n[first], h[first], w[first] + since * self.problem.stride[1]
        return [self.pixel(*place) for place in zip(n.tolist(), h.tolist(), w.tolist(), strict=True)]

    def rows(self, r: int, buffer: int, halo: int) -> tuple[SharedRow, ...]:
        """The rows of shared memory."""
        lanes = self.lanes.size
        pixels = self.loaded(r, buffer, lanes if self.windows > 1 else lanes + halo)
        if not self.moves or self.windows > 1:
            return tuple(SharedRow(row, pixel) for row, pixel in enumerate(pixels))
        rows = [SharedRow(row, pixel) for row, pixel in enumerate(pixels[:lanes])]
        for h, g in itertools.product(range(halo), range(lanes // self.size)):
            rows.append(SharedRow(len(rows), pixels[self.size * (g + 1) + h], (g, h)))
        return tuple(rows)

    def held(self, further: int) -> list[int]:
        """The row of shared memory that each lane multiplies, so many rows further on."""
        row = self.lanes + further
        inside = self.lanes % self.size + further
        if self.windows > 1:  # the last row of a window keeps its value
            row = self.lanes - self.lanes % self.size + np.minimum(inside, self.size - 1)
        elif self.moves:
            groups = self.lanes.size // self.size
            halo = self.lanes.size + groups * (inside - self.size) + self.lanes // self.size
            row = np.where(inside < self.size, row, halo)
        return row.tolist()

    def masked(self, r: int, buffer: int, tap: int) -> np.ndarray:
        """Whether the masks of the nest leave a lane out: it needs padding, and holds something else."""
        at: Values = {**self.at, **self.point(buffer, tap), "r": r}
        found = np.zeros(self.lanes.shape, bool)
        for mask in self.nest.record.masks:
            need, end, held, held_end = (
                self.nest.value(side, at) for side in (mask.need, mask.end, mask.held, mask.held_end)
            )
            real = (held >= 0) & (held < held_end)
            if mask.since is not None:
                real = real & (self.nest.value(mask.since, at) >= 0)
            found = found | (real & ((need < 0) | (need >= end)))
        return found & np.array([output is not None for output in self.outputs])

    def mask_words(self, of_buffers: Sequence[tuple[int, list[int]]]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """(r, s, words of 32 lanes) of each filter tap."""
        for r in range(self.nest.extents["r"]):
            for buffer, taps in of_buffers:
                yield from ((r, s, words(self.masked(r, buffer, tap))) for tap, s in enumerate(taps))

    def buffer_lanes(self, r: int, buffer: int, taps: list[int]) -> BufferLanes:
        """The lanes of a buffer, from filter column to filter column."""
        further = [self.further(tap) for tap in range(len(taps))]
        rows = self.rows(r, buffer, max(further))
        cells: list[list[Cell]] = [[] for _ in self.outputs]
        before: set[int] | None = None  # rows that some lane held at the filter column before
        for tap, s in enumerate(taps):
            masked = self.masked(r, buffer, tap).tolist()
            held = self.held(further[tap])
            for lane, (row, needed) in enumerate(zip(held, self.needed(r, s), strict=True)):
                fresh = before is not None and row not in before
                cells[lane].append(Cell(row, rows[row].pixel, needed, masked[lane], fresh))
            before = set(held)
        lanes = tuple(Lane(i, output, tuple(cells[i])) for i, output in enumerate(self.outputs))
        return BufferLanes(tuple(taps), rows, lanes)
