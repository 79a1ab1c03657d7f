"""The rows of a tile in shared memory, by following its copies pixel by pixel, and the row that each lane multiplies.

Nothing here uses the derived nest but the start of a copy: a copy goes on by the rule of the PTX manual (tensor
im2col::w mode) and rows move one by one, so that lane tables, which are made from the nest, have a second oracle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from convc.compiler.index.reuse import ReuseMaps
from convc.compiler.index.row_stream import WINDOW
from convc.compiler.index.row_walk import Buffer
from convc.explain.lanes import Pixel, SharedRow


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
        inside = 0 <= n < problem.batch
        yield Pixel(n, h, w, inside, inside and 0 <= h < problem.in_extent[0] and 0 <= w < problem.in_extent[1])
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
