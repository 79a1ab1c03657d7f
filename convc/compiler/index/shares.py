"""The shares of threads, chunks, slabs and copies in a tile (`convc.derive.shares`), with numbers put in."""

from __future__ import annotations

from collections.abc import Mapping

from convc.compiler.index.kernel_nest import value_of
from convc.derived.record import derived
from convc.ir.expr import Interval, IntExpr


def share(name: str, result: str, ranges: Mapping[str, Interval] | None = None, /, **given: int | IntExpr) -> IntExpr:
    """Give what an iteration or a thread is about.

    Args:
        name, result: of the map.
        ranges: of axes, where they make it smaller.
        given: the numbers that stand for sizes, and what stands for axes; others of these are variables.
    """
    sizes = {name: each for name, each in given.items() if isinstance(each, int)}
    axes = {name: each for name, each in given.items() if not isinstance(each, int)}
    return value_of(derived().shares[name].map, result, sizes, ranges or {}, axes)


def all_but_one(row: IntExpr, column: IntExpr, everyone: IntExpr) -> IntExpr:
    """The CTAs of a cluster of 2 x 2 tiles that share one with a CTA, a bit each: all but that at (row, column).

    `row` and `column` are the factors of its bit (`convc.derive.clusters`).
    """
    return row * column * -1 + everyone
