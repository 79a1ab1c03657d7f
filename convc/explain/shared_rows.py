"""The pixel in each row of shared memory, and the row that each lane multiplies.

Nothing here uses the closed forms of `convc.compiler.index.reuse` but the start of a copy: a copy is followed pixel by
pixel by the rule of the PTX manual (tensor im2col::w mode) and rows move one by one, so that a table made from it shows
what a kernel does, and tests can hold it against the algebra.

    im2col::w         the pixels of the tile in rows 0, 1, ..., those of the halo behind them: the walk goes on
    im2col::w::128    the tile in rows 0..127; pixel h of the halo of group g, 32 lanes, in row 128 + 4*h + g: it is the
                      one that follows h places after the group's last

How filter column s, j lanes behind the first one of its buffer, finds its pixels:

    slide         lane i multiplies row i + j of shared memory
    stationary    pixels are columns of the tile: column i multiplies row i + j
    shift         the rows have moved j times in groups of 32 lanes; the last lane of group g comes from halo (g, j - 1)

In *windows* of 32 lanes the last rows are not refreshed but belong to no output: the next window fetches them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.index.row_walk import Buffer
from convc.ir.problem import ConvProblem


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


def needed_pixel(problem: ConvProblem, output: tuple[int, int, int], r: int, s: int) -> Pixel:
    """The pixel that an output (n, p, q) needs at filter tap (r, s)."""
    n, p, q = output
    top, left = problem.pad_lo
    h = p * problem.stride[0] + r * problem.dilation[0] - top
    w = q * problem.stride[1] + s * problem.dilation[1] - left
    return _pixel(problem, n, h, w)


def _pixel(problem: ConvProblem, n: int, h: int, w: int) -> Pixel:
    """The pixel with what it is: inside an image or not."""
    height, width = problem.in_extent
    image = 0 <= n < problem.batch
    return Pixel(n, h, w, image, image and 0 <= h < height and 0 <= w < width)


def shared_rows(maps: ReuseMaps, moves: bool, tile_m: int, r: int, buffer: Buffer) -> tuple[SharedRow, ...]:
    """The rows that the copies of a buffer fill in shared memory; moves: whether rows go from lane to lane."""
    lanes = maps.tile.lanes
    if maps.tile.windows > 1:
        pixels = []
        for window in range(maps.tile.windows):
            pixels += copied_pixels(maps, tile_m, window, r, buffer, WINDOW)
        return _rows(pixels)
    pixels = list(copied_pixels(maps, tile_m, 0, r, buffer, lanes + buffer.halo))
    if not moves:
        return _rows(pixels)
    # im2col::w::128 copies the halo of every group of lanes: all pixels 0 behind the tile, then all pixels 1, ...
    size = min(WINDOW, lanes)
    rows = list(_rows(pixels[:lanes]))
    for h in range(buffer.halo):
        for g in range(lanes // size):
            rows.append(SharedRow(len(rows), pixels[size * (g + 1) + h], (g, h)))
    return tuple(rows)


def _rows(pixels: Sequence[Pixel]) -> tuple[SharedRow, ...]:
    """Rows that hold these pixels one after the other, the first in row 0."""
    return tuple(SharedRow(row, pixel) for row, pixel in enumerate(pixels))


def copied_pixels(maps: ReuseMaps, tile_m: int, window: int, r: int, buffer: Buffer, count: int) -> Iterator[Pixel]:
    """The pixels of an im2col::w copy, followed one by one."""
    problem = maps.problem
    walk = maps.walk
    stream = maps.stream
    start = {name: int(value) for name, value in maps.start.evaluate({"tile_m": tile_m, "window": window}).items()}
    row = start["row"]
    w = start["w"] + buffer.offset
    down = r * problem.dilation[0] - problem.pad_lo[0]
    for _ in range(count):
        if not stream.merged:
            n = row
            h = start["p"] * problem.stride[0] + down
        elif stream.boxed:
            n, p = divmod(row, stream.image_rows)
            h = p * problem.stride[0] + down
        elif problem.batch == 1:
            n = 0
            h = row * stream.step + down
        else:
            n, h = divmod(row * stream.step + down, problem.in_extent[0])
        yield _pixel(problem, n, h, w)
        # The bounding box of the copy moves with the offset of its buffer (wOffset).
        w += problem.stride[1]
        if w >= problem.in_extent[1] + walk.upper + buffer.offset:
            row += 1
            w = walk.lower + buffer.offset


def held_rows(maps: ReuseMaps, moves: bool, buffer: Buffer) -> Iterator[list[int]]:
    """The row of shared memory that each lane multiplies, for each filter column of a buffer."""
    held = list(range(maps.tile.lanes))
    moved = 0
    for tap in buffer.taps:
        while moved < tap.lanes:
            held = _moved(maps, held, moved) if moves else [row + 1 for row in held]
            moved += 1
        yield held


def _moved(maps: ReuseMaps, held: list[int], h: int) -> list[int]:
    """The rows one lane further down: the last lane of a group gets halo (g, h), or keeps its row in a window."""
    lanes = len(held)
    size = min(WINDOW, lanes)
    groups = lanes // size
    found = [*held[1:], held[-1]]
    for g in range(groups):
        last = size * (g + 1) - 1
        found[last] = held[last] if maps.tile.windows > 1 else lanes + groups * h + g
    return found
