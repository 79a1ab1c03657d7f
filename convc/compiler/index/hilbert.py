"""A Hilbert curve over a rectangle of any extents, as a list: steps between neighbours that stay close for long.

A rectangle is halved again and again, across its longer side, or into three where it is about a square, so that each
part begins where the one before has ended (J. Červený, *Generalized Hilbert space-filling curve for rectangular domains
of arbitrary sizes*, 2018). Where its extents are powers of two that is Hilbert's curve. One step in a rectangle with an
odd longer side may be a diagonal one.
"""

from __future__ import annotations

from collections.abc import Iterator

Vector = tuple[int, int]


def hilbert(rows: int, columns: int) -> tuple[Vector, ...]:
    """List (row, column) of every cell of a grid, in the order of the curve.

    Args:
        rows, columns: extents, 1 and more.
    """
    if rows >= columns:
        return tuple(_curve((0, 0), (rows, 0), (0, columns)))
    return tuple(_curve((0, 0), (0, columns), (rows, 0)))


def _curve(at: Vector, along: Vector, across: Vector) -> Iterator[Vector]:
    """Visit a rectangle from one corner to the one at the other end of a side.

    Args:
        at: the cell to begin at.
        along: that side, with its length. across: the other one.
    """
    length = abs(along[0] + along[1])
    width = abs(across[0] + across[1])
    step = _sign(along)
    aside = _sign(across)
    if width == 1 or length == 1:
        many, one = (length, step) if width == 1 else (width, aside)
        yield from ((at[0] + i * one[0], at[1] + i * one[1]) for i in range(many))
        return
    half = _half(along)
    half_across = _half(across)
    if 2 * length > 3 * width:
        if _odd(half) and length > 2:  # parts of even lengths have no diagonal steps
            half = (half[0] + step[0], half[1] + step[1])
        yield from _curve(at, half, across)
        yield from _curve(_moved(at, half), _less(along, half), across)
        return
    if _odd(half_across) and width > 2:
        half_across = (half_across[0] + aside[0], half_across[1] + aside[1])
    yield from _curve(at, half_across, half)
    yield from _curve(_moved(at, half_across), along, _less(across, half_across))
    last = _moved(at, _less(along, step))
    back = _moved(last, _less(half_across, aside))
    yield from _curve(back, _less((0, 0), half_across), _less(half, along))


def _sign(side: Vector) -> Vector:
    return (side[0] > 0) - (side[0] < 0), (side[1] > 0) - (side[1] < 0)


def _half(side: Vector) -> Vector:
    """Half of a side, rounded down as Python does it."""
    return side[0] // 2, side[1] // 2


def _odd(side: Vector) -> bool:
    return (side[0] + side[1]) % 2 == 1


def _moved(at: Vector, by: Vector) -> Vector:
    return at[0] + by[0], at[1] + by[1]


def _less(side: Vector, part: Vector) -> Vector:
    return side[0] - part[0], side[1] - part[1]
