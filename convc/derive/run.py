"""A nest, run with numbers: which products it adds to which outputs, against those of the definition.

Theorems say that a rewrite is right, for all sizes. Where one is refused, or a problem does not meet what it needs,
running shows what goes wrong: a product that an output lacks, or one that it should not get.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sympy import Expr, Symbol

from convc.derive import symbols as z
from convc.derive.nests import PIXEL, SPACE, Nest, Place, definition
from convc.derive.theorem import Either, value

Product = tuple[int, ...]
"""n, p, q, k of an output; n, h, w, c of a pixel; k, r, s, c of a weight."""

POINTS = 1 << 22
"""Iterations that a nest is run for."""


def difference(nest: Nest, sizes: Mapping[str, int]) -> str:
    """Say what a nest adds up otherwise than the definition; "" where it is the convolution.

    Args:
        nest: the nest.
        sizes: a number for each size, by its name in `convc.derive.symbols`.

    Raises:
        ValueError: more than `POINTS` iterations.
    """
    wanted, found = (products(each, sizes) for each in (definition(), nest))
    lacking = wanted - found
    added = found - wanted
    first = min((*lacking, *added), default=None)
    if first is None:
        return ""
    if first in lacking:
        return f"{_said(first)} is missing"
    return f"{_said(first)} is added {'twice' if first in wanted else 'and should not be'}"


def broken(nest: Nest, sizes: Mapping[str, int]) -> Iterator[str]:
    """The conditions of a nest that the numbers do not meet, each with its numbers, for the first buffer that fails."""
    buffers = range(sizes.get(z.BUFFERS.name, 1))
    for condition in nest.conditions:
        failed = (each for each in buffers if not condition.holds({**sizes, z.buffer.name: each}))
        first = next(failed, None)
        if first is not None:
            bounds = condition.bounds if isinstance(condition, Either) else (condition,)
            at = {**sizes, z.buffer.name: first}
            sides = ((one, value(one.low, at), value(one.high, at)) for one in bounds)
            numbers = " and ".join(f"{high} {'<=' if one.strict else '<'} {low}" for one, low, high in sides)
            yield f"it needs {condition.words or condition}: {condition}, and {numbers}"


def _said(product: Product) -> str:
    output, pixel, weight = (list(product[first : first + 4]) for first in (0, 4, 8))
    return f"y{output} += x{pixel} * w{weight}"


def products(nest: Nest, sizes: Mapping[str, int]) -> Counter[Product]:
    """The products that a nest adds up, and how often; those with padding are zero, and left out."""
    points = _points(nest, sizes)
    shape = np.broadcast_shapes(*(np.shape(each) for each in points.values()))

    def at(expr: Expr) -> np.ndarray:
        return np.broadcast_to(value(expr, points), shape)

    space = {name: at(nest.space[name]) for name in SPACE}
    pixel, real = _pixels(nest, points, shape)
    for bound in nest.guard:
        real = real & (at(bound.room) >= 0)
    for mask in nest.masks:
        holds = (at(mask.held) >= 0) & (at(mask.held) < at(mask.held_end))
        holds = holds if mask.since is None else holds & (at(mask.since) >= 0)
        real = real & ~(holds & ((at(mask.need) < 0) | (at(mask.need) >= at(mask.end))))
    columns = (*(space[name] for name in "npqk"), *(pixel[name] for name in PIXEL), *(space[name] for name in "krsc"))
    return Counter(zip(*(column[real].tolist() for column in columns), strict=True))


def _points(nest: Nest, sizes: Mapping[str, int]) -> dict[str, Any]:
    """The number of every loop in every iteration, sizes, and what lets work out."""
    extents = [value(loop.extent, sizes) for loop in nest.loops]
    count = int(np.prod(extents, dtype=object))
    if count > POINTS:
        raise ValueError(f"the nest has {count} iterations, and is run for up to {POINTS}: take smaller numbers")
    grid = np.meshgrid(*map(np.arange, extents), indexing="ij", sparse=True)
    points: dict[str, Any] = {**sizes, **dict(zip((axis.name for axis in nest.axes), grid, strict=True))}
    for let in nest.lets:
        *cases, last = let.cases
        found = value(last.value, points)
        for case in reversed(cases):
            assert case.key is not None  # the last case alone has none
            found = np.where(value(case.key, points) < value(case.limit, points), value(case.value, points), found)
        points[let.axis.name] = found
    return points


def _pixels(nest: Nest, points: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The pixel that each iteration multiplies, or is the gradient of, and whether it lies in its image.

    It comes from its row of the tile, if there is one.
    """
    load = nest.load
    place: Place = nest.output or nest.pixel()
    since: np.ndarray | int = 0
    left: np.ndarray | int = 1
    if load is not None:
        assert nest.read is not None
        row = value(nest.read, points)
        if nest.move is not None:  # behind so many turns a row has moved by so many lanes
            row = row + points[nest.move.inside.name] * value(nest.move.lanes, points)
        # What a load does not know is what it was in the first iteration of the loops further in.
        known: set[Symbol] = nest.known(load.inside) | {z.e} | {let.axis for let in nest.lets}
        points = {**points, **{axis.name: 0 for axis in nest.axes if axis not in known}, load.row.name: row}
        place = load.pixel
        since = 0 if load.since is None else value(load.since, points)
        left = value(load.rows, points) - row
    found = {name: np.broadcast_to(value(place[name], points), shape) for name in PIXEL}
    inside = np.broadcast_to((np.asarray(since) >= 0) & (np.asarray(left) > 0), shape)
    for name, end in zip("nhw", (z.N, z.H, z.W), strict=True):
        inside = inside & (found[name] >= 0) & (found[name] < value(end, points))
    return found, inside
