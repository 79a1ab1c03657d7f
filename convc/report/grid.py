"""Tables of words and numbers that fit: the one place that decides how wide a column is and where a cell is broken.

Cells are broken between words alone, so a number or a shape stays whole. Where rows do not fit into the console,
columns of words become narrower; where that would make rows of more than two lines, the cell of one column stands by
itself on a line below. Only names are broken where they are longer than what is left for them. Where rows still do not
fit they are printed in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len, chop_cells
from rich.console import Console, JustifyMethod

from convc.report.console import table_width
from convc.support.short_names import LONGEST_NAME, short_names

GAP = 2
"""Spaces between columns."""

SHORTENED = f"a * stands for the middle of a name longer than {LONGEST_NAME} characters, and --layer takes it so"

NAME_WIDTH = 8
"""A column of names is never narrower."""


class Column(msgspec.Struct, frozen=True):
    """A column of a table.

    Attributes:
        heading: its name.
        justify: how it is aligned; what stands on the right is a number and stays in one line.
        name: whether its words are names, which may be broken anywhere.
        below: whether its cells may stand on a line of their own, under the row.
    """

    heading: str
    justify: JustifyMethod = "left"
    name: bool = False
    below: bool = False


class Row(msgspec.Struct, frozen=True):
    """The cells of a row, one for each column, and the style of its text (of rich; None for plain)."""

    cells: tuple[str, ...]
    style: str | None = None


def print_grid(console: Console, columns: Sequence[Column], rows: Iterable[Row], whole: bool = False) -> None:
    """Print a table as wide as the console; ``whole``: every row in one line, however long."""
    kept = [replace(row, cells=tuple(" ".join(cell.split()) for cell in row.cells)) for row in rows]
    short = kept if whole else _with_short_names(columns, kept)
    for line, style in grid_lines(columns, short, None if whole else table_width(console)):
        console.print(line, style=style, soft_wrap=True)
    if short != kept:
        console.print(SHORTENED, soft_wrap=True)


def _with_short_names(columns: Sequence[Column], rows: Sequence[Row]) -> list[Row]:
    cells = [[row.cells[i] for row in rows] for i in range(len(columns))]
    cells = [short_names(each) if column.name else each for column, each in zip(columns, cells, strict=True)]
    return [replace(row, cells=tuple(each[i] for each in cells)) for i, row in enumerate(rows)]


def grid_lines(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> list[tuple[str, str | None]]:
    """The lines of a table, each with its style; ``width``: what they should fit into, None for anything."""
    heads = Row(tuple(column.heading for column in columns), "bold")
    natural = [max(cell_len(row.cells[i]) for row in (heads, *rows)) for i in range(len(columns))]
    if width is None or _total(natural) <= width:
        return _lines(columns, [heads, *rows], natural)
    broken = _fitted(columns, [heads, *rows], natural, width)
    lines = None if broken is None else _lines(columns, [heads, *rows], broken)
    below = next((i for i, column in enumerate(columns) if column.below), None)
    if below is None or (lines is not None and len(lines) <= 2 * (len(rows) + 1)):
        return lines or _lines(columns, [heads, *rows], _least(columns, [heads, *rows], natural, folded=True))
    return _two_lines(columns, rows, below, width)


def _two_lines(columns: Sequence[Column], rows: Sequence[Row], below: int, width: int) -> list[tuple[str, str | None]]:
    """Rows without one of the columns, whose cell follows each on a line of its own."""
    others = [column for i, column in enumerate(columns) if i != below]
    short = [replace(row, cells=row.cells[:below] + row.cells[below + 1 :]) for row in rows]
    heads = Row(tuple(column.heading for column in others), "bold")
    natural = [max(cell_len(row.cells[i]) for row in (heads, *short)) for i in range(len(others))]
    widths = natural
    if _total(natural) > width:
        widths = _fitted(others, [heads, *short], natural, width)
        widths = widths or _least(others, [heads, *short], natural, folded=True)
    lines = _lines(others, [heads], widths)
    for row, cells in zip(rows, short, strict=True):
        lines += _lines(others, [cells], widths)
        words = _broken(row.cells[below], max(width - GAP, NAME_WIDTH), names=False)
        lines += [(" " * GAP + line, row.style) for line in words]
    return lines


def _fitted(columns: Sequence[Column], rows: Sequence[Row], natural: Sequence[int], width: int) -> list[int] | None:
    """Widths that fit, with whole names where that is possible; None where there are none."""
    for folded in (False, True):
        widths = _least(columns, rows, natural, folded)
        spare = width - _total(widths)
        if spare < 0:
            continue
        while spare:
            # The column that lacks most gets the next space.
            at = max(range(len(widths)), key=lambda i: natural[i] - widths[i])
            widths[at] += 1
            spare -= 1
        return widths
    return None


def _least(columns: Sequence[Column], rows: Sequence[Row], natural: Sequence[int], folded: bool) -> list[int]:
    """The least widths: a number, or the longest word; of names, if they are folded, a few letters."""
    widths: list[int] = []
    for i, column in enumerate(columns):
        longest = max(cell_len(word) for row in rows for word in (row.cells[i].split() or [""]))
        if column.justify == "right":
            # The heading may be broken, a number with its unit not.
            longest = max(longest, *(cell_len(row.cells[i]) for row in rows if row.cells[i] != column.heading), 0)
        if column.name and folded:
            longest = min(longest, NAME_WIDTH)
        widths.append(min(longest, natural[i]))
    return widths


def _lines(columns: Sequence[Column], rows: Iterable[Row], widths: Sequence[int]) -> list[tuple[str, str | None]]:
    """Rows at these widths, cells broken where they must be."""
    lines: list[tuple[str, str | None]] = []
    for row in rows:
        cells = [_broken(cell, widths[i], columns[i].name) for i, cell in enumerate(row.cells)]
        for number in range(max(map(len, cells))):
            parts = (cell[number] if number < len(cell) else "" for cell in cells)
            padded = (_padded(part, width, column) for part, width, column in zip(parts, widths, columns, strict=True))
            lines.append(((" " * GAP).join(padded).rstrip(), row.style))
    return lines


def _broken(cell: str, width: int, names: bool) -> list[str]:
    """The cell in lines of whole words; a word that is longer than a line is broken only if it is a name."""
    lines = [""]
    for word in cell.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        pieces = chop_cells(word, width) if names and cell_len(word) > width else [word]
        if lines[-1]:
            lines.append("")
        lines[-1:] = pieces
    return lines


def _padded(text: str, width: int, column: Column) -> str:
    """A text with spaces before or behind it."""
    spaces = " " * (width - cell_len(text))
    return spaces + text if column.justify == "right" else text + spaces


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
