"""Tiled MMAs and copies: who holds each element of a tile that the threads of several warps hold together."""

from __future__ import annotations

from convc.atoms.families import find_atom
from convc.draw.layouts import holders_picture
from convc.draw.svg import Picture
from convc.errors import InputError
from convc.layout import Layout
from convc.layout.tiled import tiled_copy, tiled_mma


def mma_picture(name: str, groups: Layout, operand: str, tile: tuple[int, int] | None = None) -> Picture:
    """Draw an operand of a tiled MMA: thread and value of each element.

    Args:
        name: of the atom, as `convc.atoms.families.find_atom` takes it.
        groups: of atoms along M, N and K to their numbers.
        operand: A (M by K), B (N by K) or D (M by N).
        tile: its rows and columns; by default one atom in each group.

    Raises:
        InputError: there is no such atom, threads do not hold the operand, or the tile does not fit.
    """
    atom = find_atom(name)
    there = [held.name for held in atom]
    if operand not in there:
        raise InputError(f"expected an operand of {name}, {', '.join(there)}, got {operand!r}")
    held = atom[operand]
    layout = held.layout
    if held.space != "matrix" or not isinstance(layout, Layout):
        raise InputError(
            f"{operand} of {name} lies in {held.space} memory: expected one that threads hold in registers"
        )
    found, (rows, columns) = tiled_mma(layout, (held.rows, held.columns), groups, operand, tile)
    return holders_picture(found, rows, columns, f"{operand} of {name}, atoms {groups}")


def copy_picture(threads: Layout, values: Layout) -> Picture:
    """Draw a tiled copy: thread and value of each element.

    Args:
        threads: of rows and columns to the numbers of threads.
        values: of rows and columns to the numbers of the values of each.
    """
    found, (rows, columns) = tiled_copy(threads, values)
    return holders_picture(found, rows, columns, f"copy, threads {threads}, values {values}")
