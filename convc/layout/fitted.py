"""A layout found in offsets: whatever lies where a layout of CuTe would put it has a notation."""

from __future__ import annotations

from collections.abc import Sequence

from convc.layout.extents import Extent
from convc.layout.layouts import Layout, concatenated, flat
from convc.layout.swizzled import Composed, Swizzle


def fitted(table: Sequence[Sequence[int]]) -> tuple[Layout, int] | None:
    """The layout (rows, columns) and the offset at its first element that together make a table of offsets.

    None: no layout does. Each mode is as simple as it can be.
    """
    first = table[0][0]
    rows = _axis([row[0] - first for row in table])
    columns = _axis([each - first for each in table[0]])
    if rows is None or columns is None:
        return None
    along = columns.offsets()
    for start, row in zip(rows.offsets(), table, strict=True):
        if any(first + start + step != each for step, each in zip(along, row, strict=True)):
            return None
    return concatenated(rows, columns), first


def fitted_swizzle(table: Sequence[Sequence[int]], swizzle: Swizzle, unit: int) -> Composed | None:
    """The layout behind a swizzle that makes a table of offsets, in elements of ``unit`` bits; None: there is none.

    A swizzle undoes itself: the layout is what it makes of the offsets.
    """
    undone = Composed(swizzle=swizzle, unit=unit, layout=Layout(1))
    found = fitted([list(map(undone.placed, row)) for row in table])
    return found and Composed(swizzle=swizzle, unit=unit, layout=found[0], offset=found[1])


def _axis(offsets: list[int]) -> Layout | None:
    """The layout of offsets from 0 on: its first mode goes as far as they are equally far apart, and so on."""
    count = len(offsets)
    pairs: list[tuple[Extent, Extent]] = []
    step = 1
    while step < count:
        stride = offsets[step]
        extent = 2
        while extent * step < count and offsets[extent * step] == extent * stride:
            extent += 1
        pairs.append((extent, stride))
        step *= extent
    found = flat(pairs)
    return found if found.offsets() == offsets else None
