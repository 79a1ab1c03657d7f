"""Tiled MMAs and copies: the thread-value layout of a tile that several groups of threads hold together.

An atom says which element of its tile each thread and value is. Groups of threads stand beside each other as a layout
says, along M, N and K, and the tile is done in as many rounds as it needs, each round giving every thread further
values. A thread-value layout is of (thread, value) to ``row + rows * column``, as CuTe's are.
"""

from __future__ import annotations

from convc.errors import InputError
from convc.layout.algebra import composition, right_inverse
from convc.layout.layouts import Layout, concatenated
from convc.layout.products import raked_product

ALONG = {"A": (0, 2), "B": (1, 2), "D": (0, 1)}
"""The modes of a layout of groups (M, N, K) that run along the rows and the columns of an operand; B is N by K."""


def tiled_mma(
    atom: Layout, held: tuple[int, int], groups: Layout, operand: str = "D", tile: tuple[int, int] | None = None
) -> tuple[Layout, tuple[int, int]]:
    """The thread-value layout of an operand of a tiled MMA, and the rows and columns of its tile.

    Args:
        atom: thread and value to ``row + rows * column`` of what the atom holds of the operand.
        held: its rows and columns.
        groups: of (M, N) or (M, N, K) to the number of a group of the atom's threads, each number once.
        operand: A, B or D. Groups that do not differ along its rows and columns hold the same elements.
        tile: rows and columns of the operand; by default what all groups hold at once.

    Raises:
        InputError: the layout does not number its groups, or the tile is no multiple of what they hold.
    """
    if operand not in ALONG:
        raise InputError(f"expected an operand of {', '.join(ALONG)}, got {operand!r}")
    counts = _counts(groups)
    down, across = ALONG[operand]
    once = (held[0] * counts[down], held[1] * counts[across])
    rows, columns = tile or once
    if rows % once[0] or columns % once[1] or min(rows, columns) < 1:
        raise InputError(
            f"expected a tile of multiples of {once[0]}x{once[1]}, which groups {groups} of atoms of "
            f"{held[0]}x{held[1]} hold of {operand} at once, got {rows}x{columns}"
        )
    threads, values = composition(Layout(held, (1, rows)), atom).modes
    steps = [0, 0, 0]
    steps[down] = held[0]
    steps[across] = held[1] * rows
    beside = composition(Layout(tuple(counts), tuple(steps)), _numbered(groups))
    rounds = Layout((rows // once[0], columns // once[1]), (once[0], once[1] * rows))
    return concatenated(_with(threads, beside), _with(values, rounds)), (rows, columns)


def tiled_copy(threads: Layout, values: Layout) -> tuple[Layout, tuple[int, int]]:
    """The thread-value layout of a tiled copy, and the rows and columns of its tile.

    Args:
        threads: of (M, N) to the number of a thread, each number once.
        values: of (M, N) to the number of a value of each thread; neighbours in the tile.

    Raises:
        InputError: the layouts do not number threads and values.
    """
    both = raked_product(threads, values)
    sizes = [*_sizes(both, 2, "rows and columns, such as (16,8):(8,1)"), 1][:2]
    shape = tuple(_numbered(each).size for each in (threads, values))
    return composition(right_inverse(both), Layout(shape)), (sizes[0], sizes[1])


def _counts(groups: Layout) -> list[int]:
    """Groups along M, N and K."""
    return [*_sizes(groups, 3, "groups along M, N and K, such as (2,2) or (2,2,1)"), 1, 1][:3]


def _sizes(layout: Layout, most: int, expected: str) -> list[int]:
    """The sizes of one to so many modes; `InputError` of others, and of symbols."""
    sizes = [mode.size for mode in layout.modes]
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) < len(sizes) or not 1 <= len(sizes) <= most:
        raise InputError(f"expected {expected}, got {layout}")
    return numbers


def _numbered(groups: Layout) -> Layout:
    """The index of each number from 0 on; `InputError` where a number is missing or there twice."""
    inverse = right_inverse(groups)
    if inverse.size != groups.size:
        raise InputError(
            f"expected a layout with each number below its size {groups.size} once, got {groups}",
            hint=f"{Layout(groups.shape)} has",
        )
    return inverse


def _with(first: Layout, second: Layout) -> Layout:
    """Both as modes of one; what has one coordinate is left out."""
    kept = [mode for mode in second.modes if mode.size != 1]
    return concatenated(first, *kept) if kept else first
