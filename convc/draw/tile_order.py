"""The order in which the tiles of a grid begin: CTAs are numbered along x first, and take the SMs in that order."""

from __future__ import annotations

import numpy as np

from convc.draw.cells import Cells, draw_cells
from convc.draw.svg import MARGIN, TINTS, TITLE, Picture, legend, text, titled
from convc.errors import InputError
from convc.machine.base.cluster_ranks import place

ORDERS = ("rows",)
"""Orders that the compiler makes: x counts tiles along M, the rows of the product, y those along N."""

MOST = 128 * 128
"""Tiles that are drawn."""


def tile_numbers(tiles_m: int, tiles_n: int) -> np.ndarray:
    """The number of the CTA of each tile, int64 (tiles along M, tiles along N), as the machine counts CTAs."""
    found = place((tiles_m, tiles_n, 1), (1, 1, 1), 0, tiles_m * tiles_n)
    numbers = np.empty((tiles_m, tiles_n), np.int64)
    numbers[found.ctaid[0], found.ctaid[1]] = found.number
    return numbers


def tile_order_picture(tiles_m: int, tiles_n: int, sms: int, order: str = "rows") -> Picture:
    """Draw the grid with the number of each tile, coloured by the round of CTAs, one on each SM, that it belongs to.

    InputError for an order that the compiler does not make, and for a grid too large to look at.
    """
    if order not in ORDERS:
        raise InputError(
            f"expected an order of {', '.join(ORDERS)}, the only one that the compiler makes, got {order!r}"
        )
    if tiles_m < 1 or tiles_n < 1 or sms < 1:
        raise InputError(f"expected a grid and SMs of 1 and more, got {tiles_m}x{tiles_n} on {sms} SMs")
    if tiles_m * tiles_n > MOST:
        raise InputError(f"expected a grid of at most {MOST} tiles, got {tiles_m}x{tiles_n}")
    numbers = tile_numbers(tiles_m, tiles_n)
    rounds = numbers // sms
    table = Cells(
        name="grid",
        words=[[str(number) for number in row] for row in numbers.tolist()],
        kinds=lambda row, column: TINTS[rounds[row, column] % 8],
        row_heads=[f"m {row}" for row in range(tiles_m)],
    )
    last = int(rounds.max())
    shown = [(f"round {i}", TINTS[i]) for i in range(min(last + 1, 8))]
    top = TITLE + 34
    parts = [
        *legend(MARGIN, TITLE - 4, shown),
        text(MARGIN, top - 4, f"tiles along M down, along N across; {sms} SMs, one CTA each", "soft"),
        draw_cells(MARGIN, top, table),
    ]
    title = f"tile order {order}: {tiles_m} x {tiles_n} tiles in {last + 1} round{'s' if last else ''}"
    return titled(title, table.width() + 2 * MARGIN, top + table.height + MARGIN, parts)
