r"""Tables of cells as LaTeX: a document of its own with a TikZ picture, of the same cells as the SVG.

A length is a pixel of the SVG, y runs down as there, and colours are those of light pages. Cells side by side in one
colour share a ``\fill``; words are escaped, and what is not ASCII becomes a question mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from convc.draw.cells import HEAD, ROW, Placed
from convc.draw.svg import COLOURS, MARGIN, NOTE, Picture
from convc.errors import InputError

PIXEL = 0.75
"""Points of a pixel."""

SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", **{sign: f"\\{sign}" for sign in "#$%&_{}"},
}  # fmt: skip


def tikz(picture: Picture) -> str:
    """The text of a LaTeX document with the tables, the title and the notes of a picture.

    Raises:
        InputError: the picture is not made of tables of cells.
    """
    tables = [each for each in picture.tables if isinstance(each, Placed)]
    if not tables:
        raise InputError(
            "only tables of cells can be written as LaTeX; this picture has other shapes",
            hint="write FILE.svg or FILE.png",
        )
    used = sorted({_colour(each.table.kinds(row, column)) for each in tables for row, column in _places(each)})
    defined = [rf"\definecolor{{{name}}}{{HTML}}{{{COLOURS[name][0][1:].upper()}}}" for name in ("line", "soft", *used)]
    lines = [
        r"\documentclass[tikz,border=4pt]{standalone}",
        *defined,
        r"\begin{document}",
        rf"\begin{{tikzpicture}}[x={PIXEL}pt,y=-{PIXEL}pt,font=\ttfamily\fontsize{{8}}{{8}}\selectfont,inner sep=0pt]",
        _node(MARGIN, 26, picture.title, "base west,font=\\ttfamily\\fontsize{11}{11}\\selectfont"),
    ]
    for each in tables:
        lines += _table(each)
    low = picture.height - NOTE * len(picture.notes)
    lines += [_node(MARGIN, low + NOTE * i, words, "base west,soft") for i, words in enumerate(picture.notes)]
    return "\n".join([*lines, r"\end{tikzpicture}", r"\end{document}"]) + "\n"


def _places(placed: Placed) -> Iterator[tuple[int, int]]:
    return ((row, column) for row in range(placed.table.rows) for column in range(placed.table.columns))


def _colour(kind: str) -> str:
    """The colour among the names of a box's classes."""
    return next((name for name in kind.split() if name in COLOURS), "paper")


def _table(placed: Placed) -> Iterator[str]:
    table = placed.table
    width = placed.cell or table.cell
    left = placed.x + table.side
    top = placed.y + HEAD
    right = left + table.columns * width
    low = top + table.rows * ROW
    if placed.heading:
        font = "soft" if placed.quiet else "font=\\ttfamily\\bfseries\\fontsize{8}{8}\\selectfont"
        yield _node(placed.x, placed.y - 6, placed.heading, f"base west,{font}")
    for column, words in enumerate(table.above):
        yield _node(left + (column + 0.5) * width, top - 4, words, "base,soft")
    for row, words in enumerate(table.beside):
        yield _node(left - 4, top + row * ROW + 12, words, "base east,soft")
    for row in range(table.rows):
        y = top + row * ROW
        for kind, run in groupby(range(table.columns), lambda column, row=row: _colour(table.kinds(row, column))):
            columns = list(run)
            start = left + columns[0] * width
            end = start + len(columns) * width
            yield rf"\fill[{kind}] ({start:g},{y:g}) rectangle ({end:g},{y + ROW:g});"
    for row in range(table.rows + 1):
        yield rf"\draw[line] ({left:g},{top + row * ROW:g}) -- ({right:g},{top + row * ROW:g});"
    for column in range(table.columns + 1):
        yield rf"\draw[line] ({left + column * width:g},{top:g}) -- ({left + column * width:g},{low:g});"
    for row, column in _places(placed):
        if table.words[row][column]:
            middle = left + (column + 0.5) * width
            yield _node(middle, top + row * ROW + 12, table.words[row][column], "base")


def _node(x: float, y: float, words: str, anchor: str) -> str:
    place, *options = anchor.split(",")
    return rf"\node[{','.join([f'anchor={place}', *options])}] at ({x:g},{y:g}) {{{escaped(words)}}};"


def escaped(words: str) -> str:
    """Words as LaTeX takes them."""
    plain = re.sub(r"[^ -~]", "?", words)
    return "".join(SPECIAL.get(letter, letter) for letter in plain)
