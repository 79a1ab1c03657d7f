"""Pictures of the layouts that a kernel uses: swizzles, MMAs at their addresses, loads, and tensor maps.

And the lanes of a tile at every filter tap, as data that the page's script draws: the lane tables, and nothing else.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from convc.compiler.plan.records import Plan
from convc.draw.atoms import registers_picture
from convc.draw.descriptors import descriptor_picture
from convc.draw.fields import explain_map
from convc.draw.issued import issued_mmas
from convc.draw.lanes import state_of
from convc.draw.mma import cropped, issued_layout, mma_picture
from convc.draw.svg import Picture
from convc.draw.swizzles import MODES, swizzle_picture
from convc.explain.lane_tables import sentences
from convc.explain.lanes import BufferLanes, Cell, LaneTable
from convc.explain.tiles import KernelTiles
from convc.ir.launch import LaunchSpec, TensorMapParam

LOAD = re.compile(r"tcgen05\.ld\.sync\.aligned\.(\w+)\.(x\d+)")
Told = tuple[str, Picture]
"""A sentence that says where a layout is used, and the picture."""


def layouts(plan: Plan, text: str, launch: LaunchSpec, most: int) -> Iterator[Told]:
    """The layouts of a kernel: first shared memory, then what the tensor core reads and writes, then its way out.

    Of an MMA ``most`` rows and columns of D are drawn: 8 are a period of every swizzle, all would be megabytes.
    """
    yield from _swizzles(plan)
    yield from _mmas(text, launch, most)
    for shape, number in dict.fromkeys(LOAD.findall(text)):
        yield f"a warp of the epilogue loads tensor memory with .{shape}.{number}", registers_picture(shape, number)


def tensor_maps(launch: LaunchSpec) -> Iterator[Told]:
    """The tensor maps of a launch, which copies use, as the simulator has them; addresses are not known before it."""
    for number, param in enumerate(launch.params):
        if isinstance(param, TensorMapParam):
            said = f"parameter {number} of the kernel, a tensor map over {param.map.buffer}"
            yield said, descriptor_picture(explain_map(param.map))


def _swizzles(plan: Plan) -> Iterator[Told]:
    """The swizzle of each operand tile in shared memory, tiles with the same one together."""
    tiles: dict[str, list[str]] = defaultdict(list)
    for tile in plan.storage.smem:
        tiles[tile.swizzle].append(f"{tile.name} ({tile.rows} rows of {tile.row_bytes} bytes)")
    for mode, names in tiles.items():
        if mode in MODES:
            yield f"swizzle {mode} in shared memory: {', '.join(names)}", swizzle_picture(mode)


def _mmas(text: str, launch: LaunchSpec, most: int) -> Iterator[Told]:
    """The first MMA of each layout that the first CTA issues on the simulator."""
    seen: set[object] = set()
    for number, mma in enumerate(issued_mmas(text, launch)):
        form = (mma.shape, mma.a_in_tensor, mma.a >> 32, mma.b >> 32)
        if form not in seen:
            seen.add(form)
            yield f"MMA {number} of the first CTA, at its addresses", mma_picture(cropped(issued_layout(mma), most))


STATES = ("held", "fresh", "masked", "padding", "idle")
"""States of a lane at a filter tap; the data names them by their places here."""

FIRST = 2
"""Filter column that a page shows at first, where there is one: rows have moved, borders are masked."""


def lane_data(tiles: KernelTiles) -> dict[str, Any]:
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
