"""Nested tuples of numbers, as CuTe's shapes, strides and coordinates are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, cast

from convc.layout.extents import Extent, extent, product, shown

Nested: TypeAlias = "Extent | tuple[Nested, ...]"


def nested(value: object) -> Nested:
    """Tuples or lists of whole numbers and expressions; `InputError` of anything else."""
    if isinstance(value, tuple | list):
        return tuple(nested(each) for each in cast("Sequence[object]", value))
    return extent(value)


def leaves(value: Nested) -> Iterator[Extent]:
    """The numbers, from left to right."""
    if isinstance(value, tuple):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def size(shape: Nested) -> Extent:
    """The product of the numbers."""
    return product(*leaves(shape))


def depth(value: Nested) -> int:
    """The depth to which tuples lie in each other: 0 of a number."""
    return 1 + max(map(depth, value), default=0) if isinstance(value, tuple) else 0


def congruent(one: Nested, other: Nested) -> bool:
    """Whether both are nested alike."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(congruent, one, other))
    return not isinstance(one, tuple) and not isinstance(other, tuple)


def compact(shape: Nested, first: Extent = 1) -> Nested:
    """Strides with which the elements of a shape lie behind each other, the first mode fastest."""
    if not isinstance(shape, tuple):
        return first
    strides: list[Nested] = []
    for mode in shape:
        strides.append(compact(mode, first))
        first = product(first, size(mode))
    return tuple(strides)


def text(value: Nested) -> str:
    """As CuTe prints it, without spaces."""
    if isinstance(value, tuple):
        return f"({','.join(map(text, value))})"
    return shown(value)


def unwrapped(values: Sequence[Nested]) -> Nested:
    """The tuple of some, but of one alone the value itself."""
    return values[0] if len(values) == 1 else tuple(values)
