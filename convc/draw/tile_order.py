"""The order in which the tiles of a grid begin, as a path over it: CTAs take the SMs in the order of their numbers."""

from __future__ import annotations

import math

import numpy as np

from convc.compiler.index.order_names import ORDERS
from convc.compiler.index.tile_order import RasterOrder, order_of
from convc.compiler.plan.records import Plan
from convc.draw.cells import HEAD, ROW, Cells, draw_cells
from convc.draw.notation import notation
from convc.draw.svg import MARGIN, TINTS, TITLE, Picture, legend, path, text, titled
from convc.errors import InputError

LANE = 5
"""Pixels beside the numbers of a cell, where the way runs."""

MOST = 128 * 128
"""Tiles that are drawn."""


def grid_order(tiles_m: int, tiles_n: int, sms: int, name: str) -> RasterOrder:
    """An order of a grid of tiles that no kernel is asked for; groups make the tiles of a round about a square.

    InputError for an order that there is not, and for a grid without tiles.
    """
    if name not in ORDERS:
        raise InputError(f"expected an order of {', '.join(ORDERS)}, got {name!r}")
    if tiles_m < 1 or tiles_n < 1 or sms < 1:
        raise InputError(f"expected a grid and SMs of 1 and more, got {tiles_m}x{tiles_n} on {sms} SMs")
    _check_size(tiles_m, tiles_n)
    return order_of(ORDERS[ORDERS.index(name)], (tiles_m, tiles_n), groups=max(1, tiles_m // max(1, math.isqrt(sms))))


def plan_order(plan: Plan) -> RasterOrder:
    """Derive the order in which a kernel makes its tiles."""
    order = plan.launch.order
    together = plan.tiling.ctas if order.places is not None else 1
    return order_of(order.name, plan.launch.tiles, together=together, groups=order.groups)


def tile_order_picture(order: RasterOrder, sms: int) -> Picture:
    """Draw the grid with the number of each tile, coloured by the wave of CTAs, one on each SM, and the way over it.

    InputError for a grid too large to look at.
    """
    tiles_m, tiles_n = order.tiles
    _check_size(tiles_m, tiles_n)
    m, n = order.places.at(np.arange(tiles_m * tiles_n))
    numbers = np.empty(order.tiles, np.int64)
    numbers[m, n] = np.arange(m.size)
    rounds = numbers // min(sms, numbers.size)
    table = Cells(
        name="grid",
        words=[[str(number) for number in row] for row in numbers.tolist()],
        kinds=lambda row, column: TINTS[int(rounds[row, column]) % 8],
        row_heads=[f"m {row}" for row in range(tiles_m)],
    )
    last = int(rounds.max())
    shown = [(f"round {i}", TINTS[i]) for i in range(min(last + 1, 8))]
    top = TITLE + 34
    cell = table.cell + 2 * LANE
    # The way runs along the left and the lower edge of the cells: their numbers stand free.
    left = MARGIN + table.side + LANE / 2 + 1
    low = top + HEAD + ROW - 2
    points = [f"{left + cell * x:g} {low + ROW * y:g}" for x, y in zip(n.tolist(), m.tolist(), strict=True)]
    parts = [
        *legend(MARGIN, TITLE - 4, shown),
        text(MARGIN, top - 4, f"tiles along M down, along N across; {sms} SMs, one CTA each", "soft"),
        draw_cells(MARGIN, top, table, cell),
        path("M" + "L".join(points), "way"),
    ]
    name = f"{order.name}, {order.groups} groups" if order.groups > 1 else order.name
    title = f"rasterization order {name}: {tiles_m} x {tiles_n} tiles in {last + 1} wave{'s' if last else ''}"
    found = notation(numbers)
    notes = [f"tile along M, along N -> its number: {found}"] if found else []
    return titled(title, table.width(cell) + 2 * MARGIN, top + table.height + MARGIN + 8, parts, notes=notes)


def _check_size(tiles_m: int, tiles_n: int) -> None:
    if tiles_m * tiles_n > MOST:
        raise InputError(f"expected a grid of at most {MOST} tiles, got {tiles_m}x{tiles_n}")
