"""Values of a warp: one number for all lanes, a tuple of one number a lane, or None where it is not known.

Numbers are patterns of bits, not negative. A lane of a tuple may be None. A register never written is `UNSET`: what
it holds in lanes that a write leaves out is no part of any right kernel, so such a write is taken for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

LANES = 32
ALL = (1 << LANES) - 1

Value = int | tuple[int | None, ...] | None
Numeric = Callable[[int], int] | Callable[[int, int], int] | Callable[[int, int, int], int]
"""A function of one, two or three numbers."""


class Unset:
    """The value of a register that was never written."""

    __slots__ = ()


UNSET = Unset()


def evaluate(function: Numeric | Callable[[int], int | None], *values: Value) -> Value:
    """A function of numbers, lane by lane where any is a tuple; unknown where an argument is."""
    spread = False
    for value in values:
        if value is None:
            return None
        if type(value) is tuple:
            spread = True
    if not spread:
        return function(*values)  # pyright: ignore[reportArgumentType] - none of them is a tuple
    columns = [value if type(value) is tuple else (value,) * LANES for value in values]
    return gather(None if None in row else function(*row) for row in zip(*columns, strict=True))


def remembering(function: Numeric) -> Callable[..., Value]:
    """`evaluate` of a function, which remembers results for lanes: loops ask for the same ones again and again."""
    known: dict[tuple[Value, ...], Value] = {}

    def apply(*values: Value) -> Value:
        for value in values:
            if value is None:
                return None
            if type(value) is tuple:
                break
        else:
            return function(*values)  # pyright: ignore[reportArgumentType] - none of them is a tuple
        found = known.get(values, UNSET)
        if isinstance(found, Unset):
            if len(known) >= MOST_REMEMBERED:
                known.clear()
            found = known[values] = evaluate(function, *values)
        return found

    return apply


MOST_REMEMBERED = 256
"""Results of one instruction that are remembered."""


def gather(numbers: Iterable[int | None]) -> Value:
    """One number where all lanes have the same."""
    lanes = tuple(numbers)
    return lanes[0] if lanes.count(lanes[0]) == LANES else lanes


def blend(old: Value | Unset, new: Value, mask: int) -> Value:
    """A register after a write of some lanes."""
    if mask == ALL or isinstance(old, Unset) or old == new:
        return new
    before = old if isinstance(old, tuple) else (old,) * LANES
    after = new if isinstance(new, tuple) else (new,) * LANES
    return gather(after[lane] if mask >> lane & 1 else before[lane] for lane in range(LANES))


def at(value: Value, mask: int) -> int | None:
    """The number that all lanes of a mask have; None where they differ or it is not known."""
    if not isinstance(value, tuple):
        return value
    first = value[(mask & -mask).bit_length() - 1]
    return first if all(value[lane] == first for lane in lanes_of(mask)) else None


def each(value: Value, mask: int) -> list[int | None]:
    """The numbers of the lanes of a mask."""
    if not isinstance(value, tuple):
        return [value] * mask.bit_count()
    return [value[lane] for lane in lanes_of(mask)]


def lanes_of(mask: int) -> list[int]:
    """The lanes of a mask, ascending."""
    return [lane for lane in range(LANES) if mask >> lane & 1]


def lanes_where(value: Value, mask: int, wanted: bool) -> int | None:
    """The lanes of a mask whose predicate is as wanted; None where one is not known."""
    if value is None:
        return None
    if type(value) is not tuple:
        return mask if bool(value) == wanted else 0
    found = 0
    for lane in lanes_of(mask):
        number = value[lane]
        if number is None:
            return None
        if bool(number) == wanted:
            found |= 1 << lane
    return found
