"""Tables of small cells, as CuTe draws layouts: indices beside the rows and above the columns, values inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from convc.draw.svg import LETTER, group, path, rect, text

ROW = 16
"""Height of a cell in pixels."""

HEAD = 16
"""Height of the indices above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A table.

    Attributes:
        name: of the table, which its element carries as ``data-table``.
        words: of each cell, row by row.
        kinds: the colour of a cell by row and column, as `convc.draw.svg.rect` takes it.
        row_heads, column_heads: indices; by default numbers from 0 on.
    """

    name: str
    words: Sequence[Sequence[str]]
    kinds: Callable[[int, int], str]
    row_heads: Sequence[str] | None = None
    column_heads: Sequence[str] | None = None

    @property
    def rows(self) -> int:
        """Rows of cells."""
        return len(self.words)

    @property
    def columns(self) -> int:
        """Columns of cells."""
        return len(self.words[0])

    @property
    def cell(self) -> float:
        """Pixels of a cell's width."""
        longest = max(max(map(len, row)) for row in (*self.words, self.above))
        return round(longest * LETTER + 6)

    @property
    def beside(self) -> Sequence[str]:
        """Indices of the rows."""
        return self.row_heads or [str(row) for row in range(self.rows)]

    @property
    def above(self) -> Sequence[str]:
        """Indices of the columns."""
        return self.column_heads or [str(column) for column in range(self.columns)]

    @property
    def side(self) -> float:
        """Pixels of the indices on the left."""
        return round(max(map(len, self.beside)) * LETTER + 8)

    def width(self, cell: float | None = None) -> float:
        """Pixels of the whole with its indices; ``cell``: the width of a cell where another table says so."""
        return self.side + self.columns * (cell or self.cell)

    @property
    def height(self) -> float:
        """Pixels of the whole with its indices."""
        return HEAD + self.rows * ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A table at a place of a picture.

    Attributes:
        table: its cells.
        x, y: the corner of its indices, in pixels.
        cell: width of a cell, where another table says so.
        heading: a line above it.
        quiet: the line is in a soft colour, and not bold.
    """

    table: Cells
    x: float
    y: float
    cell: float | None = None
    heading: str = ""
    quiet: bool = False

    @property
    def right(self) -> float:
        """Pixels to its right edge."""
        return self.x + self.table.width(self.cell)

    @property
    def end(self) -> float:
        """Pixels to its lower edge."""
        return self.y + self.table.height

    def svg(self) -> str:
        """The table and its heading as elements of SVG."""
        drawn = draw_cells(self.x, self.y, self.table, self.cell)
        above = self.heading and text(self.x, self.y - 6, self.heading, "soft" if self.quiet else "strong")
        return above + drawn


def draw_cells(x: float, y: float, table: Cells, cell: float | None = None) -> str:
    """The table with its indices' corner at a place.

    A row is a group with ``data-row``; its cells are the words of the class ``cell`` in there, in the order of the
    columns. Cells side by side in one colour share a box, as a table may have tens of thousands of cells.
    """
    width = cell or table.cell
    parts = [*_heads(x, y, table, width)]
    left = x + table.side
    top = y + HEAD
    for row in range(table.rows):
        parts.append(group(_row(left, top + row * ROW, row, table, width), row=row))
    right = left + table.columns * width
    low = top + table.rows * ROW
    across = "".join(f"M{left:g} {top + row * ROW:g}H{right:g}" for row in range(table.rows + 1))
    down = "".join(f"M{left + column * width:g} {top:g}V{low:g}" for column in range(table.columns + 1))
    parts.append(path(across + down))
    return group(parts, table=table.name)


def _heads(x: float, y: float, table: Cells, width: float) -> Iterator[str]:
    for column, words in enumerate(table.above):
        yield text(x + table.side + (column + 0.5) * width, y + HEAD - 4, words, "soft mid")
    for row, words in enumerate(table.beside):
        yield text(x + table.side - 4, y + HEAD + row * ROW + 12, words, "soft end")


def _row(x: float, y: float, row: int, table: Cells, width: float) -> Iterator[str]:
    for kind, run in groupby(range(table.columns), lambda column: table.kinds(row, column)):
        columns = list(run)
        yield rect(x + columns[0] * width, y, len(columns) * width, ROW, kind)
    for column, words in enumerate(table.words[row]):
        if words:
            yield text(x + (column + 0.5) * width, y + 12, words, "cell mid")
