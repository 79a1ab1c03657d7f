"""An atom: the thread and value of each element of its matrices, with their layouts in CuTe's notation.

Cells are coloured by the thread, those of tensor memory by 16 lanes or rows, those of shared memory by the row of the
operand. Matrices of a warp or a warpgroup stand as a product (`convc.draw.crossing`), all others below each other.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from convc.atoms.families import FAMILIES, find_atom
from convc.atoms.held import Atom, Held
from convc.atoms.tensor import moved
from convc.draw.cells import Cells, Placed
from convc.draw.crossing import GAP, crossing
from convc.draw.svg import MARGIN, TINTS, TITLE, Picture, titled

TINTED = len(TINTS)


def atom_picture(atom: Atom, most: int | None = None) -> Picture:
    """Draw an atom.

    Args:
        atom: of `convc.atoms`.
        most: rows and columns that are drawn of each matrix, by default all.
    """
    held = list(atom)
    tables: list[Placed] = []
    top = TITLE + GAP
    if [each.name for each in held[:3]] == ["A", "B", "D"] and all(each.space == "matrix" for each in held[:3]):
        a, b, d = (table(each, most, turned=each.name == "B") for each in held[:3])
        tables = crossing(a, b, d, ("A: m down, k across", "B: k down, n across", "D: m down, n across"), top)
        held = held[3:]
        top = tables[-1].end + GAP
    for each in held:
        tables.append(Placed(table=table(each, most), x=MARGIN, y=top, heading=each.name))
        top = tables[-1].end + GAP
    notes = [*notation(atom), f"{_colours(atom)}; source: {atom.source}"]
    right = max(each.right for each in tables)
    low = max(each.end for each in tables)
    return titled(atom.title, right + MARGIN, low + MARGIN + 8, [each.svg() for each in tables], notes)


def notation(atom: Atom) -> list[str]:
    """The layouts of its matrices in CuTe's notation, each with what it is about."""
    return [f"{held.name}: {held.layout}  {held.what}" for held in atom]


def table(held: Held, most: int | None = None, turned: bool = False, band: int = 0, name: str = "") -> Cells:
    """A matrix as cells with thread and value.

    Args:
        held: the matrix. most: rows and columns that are drawn.
        turned: its rows are drawn as columns.
        band: threads, or what stands for them, that share a colour. name: of the table, by default the matrix's.
    """
    rows = min(held.rows, most or held.rows)
    columns = min(held.columns, most or held.columns)
    holders = held.grid(rows, columns)
    if turned:
        holders = [list(column) for column in zip(*holders, strict=True)]
    thread, value = held.letters
    band = band or _band(held)

    def word(found: list[tuple[int, int]]) -> str:
        if not found:
            return ""
        return f"{thread}{','.join(str(t) for t, _ in found)} {value}{found[0][1]}"

    def colour(row: int, column: int) -> str:
        found = holders[row][column]
        return TINTS[found[0][0] // band % TINTED] if found else "idle"

    prefix = "lane " if held.space == "tensor" else ""
    return Cells(
        name=name or held.name,
        words=[[word(found) for found in line] for line in holders],
        kinds=colour,
        row_heads=[f"{prefix}{number}" for number in range(len(holders))] if prefix else None,
    )


def _band(held: Held) -> int:
    """Threads, or what stands for them, that share a colour."""
    return 16 if held.space == "tensor" and held.letters[0] != "T" else 1


def _colours(atom: Atom) -> str:
    """What colours mean."""
    told = {(held.letters[0].strip(), _band(held)) for held in atom}
    said = (f"{name} / {band} % 8" if band > 1 else f"{name} % 8" for name, band in sorted(told))
    return f"colours: {', '.join(said)}"


def registers_picture(shape: str, number: str) -> Picture:
    """Draw the cells of tensor memory that a tcgen05.ld reads, each with the thread and register that receive it.

    Raises:
        InputError: there is no such load.
    """
    digits = number.removeprefix("x")
    return atom_picture(moved(shape, int(digits) if digits.isdecimal() and len(digits) < 5 else 0))


def names_by_spelling() -> Iterator[tuple[str, str]]:
    """The spelling of each family's names, and the names, in lines that are set in."""
    for family in FAMILIES:
        lines = textwrap.wrap(" ".join(family.names()), 116, break_on_hyphens=False, break_long_words=False)
        yield family.spelling, "\n".join(f"  {line}" for line in lines)


def named_picture(name: str, most: int | None = None) -> Picture:
    """Draw the atom of a name.

    Raises:
        InputError: there is no such atom.
    """
    return atom_picture(find_atom(name), most)
