"""A product as CuTe draws it: A to the left of D, B above it with k running down, each a table of cells.

A row of A and a column of B meet at their element of D.
"""

from __future__ import annotations

from convc.draw.cells import Cells, Placed
from convc.draw.svg import MARGIN

GAP = 28
"""Pixels between tables; headings stand in them."""


def crossing(a: Cells, b: Cells, d: Cells, headings: tuple[str, str, str], top: float) -> list[Placed]:
    """Place A, B and D, with cells that are equally wide.

    Args:
        a, b, d: B with k down.
        headings: of each, above it.
        top: pixels above the cells of B.
    """
    cell = max(a.cell, b.cell, d.cell)
    left = MARGIN + a.width(cell) + GAP
    below = top + b.height + GAP
    places = ((b, left, top, headings[1]), (a, MARGIN, below, headings[0]), (d, left, below, headings[2]))
    return [Placed(table=table, x=x, y=y, cell=cell, heading=heading) for table, x, y, heading in places]
