"""What an integer expression is worth: with variables replaced, with numbers for them, or with ranges of numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from convc.ir.expr.nodes import (
    Add,
    And,
    Const,
    FloorDiv,
    IntExpr,
    Less,
    Mod,
    Mul,
    Select,
    Var,
    add,
    children,
    floor_div,
    mod,
    mul,
)

Interval = tuple[int, int]
"""Lowest and highest value, both included."""


def substitute(expr: IntExpr, values: Mapping[str, IntExpr]) -> IntExpr:
    """The expression with variables replaced; constants that meet are folded."""
    parts = [substitute(child, values) for child in children(expr)]
    match expr:
        case Const():
            return expr
        case Var(name):
            return values.get(name, expr)
        case Add():
            return add(*parts)
        case Mul():
            return mul(*parts)
        case FloorDiv():
            return floor_div(*parts)
        case Mod():
            return mod(*parts)
        case Less():
            return Less(*parts)
        case And():
            return And(tuple(parts))
        case Select():
            return Select(*parts)


def evaluate(expr: IntExpr, env: Mapping[str, Any]) -> Any:
    """Value of the expression.

    Args:
        expr: what to evaluate.
        env: value of each variable: ints, or signed numpy integer arrays that broadcast together.

    Returns:
        an int (a bool for conditions), or an array where an array came in.

    Only Python's operators are used, on both arms of a selection. Numpy's ``//`` and ``%`` on signed integers
    are floor division and remainder. KeyError names a variable that env lacks.
    """
    return _VALUE[type(expr)](expr, env)


def _sum(expr: Add, env: Mapping[str, Any]) -> Any:
    return reduce(operator.add, [_VALUE[type(part)](part, env) for part in expr.args])


def _product_of(expr: Mul, env: Mapping[str, Any]) -> Any:
    return reduce(operator.mul, [_VALUE[type(part)](part, env) for part in expr.args])


def _holds(expr: And, env: Mapping[str, Any]) -> Any:
    return reduce(lambda a, b: a & b, [_VALUE[type(part)](part, env) for part in expr.args])


def _selected(expr: Select, env: Mapping[str, Any]) -> Any:
    holds = evaluate(expr.cond, env)
    yes = evaluate(expr.a, env)
    no = evaluate(expr.b, env)
    return no + holds * (yes - no)  # for arrays of conditions, which have no `if`


_VALUE: dict[type, Callable[[Any, Mapping[str, Any]], Any]] = {
    Const: lambda expr, env: expr.value,
    Var: lambda expr, env: env[expr.name],
    Add: _sum,
    Mul: _product_of,
    FloorDiv: lambda expr, env: evaluate(expr.a, env) // evaluate(expr.b, env),
    Mod: lambda expr, env: evaluate(expr.a, env) % evaluate(expr.b, env),
    Less: lambda expr, env: evaluate(expr.a, env) < evaluate(expr.b, env),
    And: _holds,
    Select: _selected,
}
"""By the class of a node. Every node of every expression is looked up: a table takes half of the time of a `match`."""


def bounds(expr: IntExpr, ranges: Mapping[str, Interval], known: Mapping[IntExpr, Interval] | None = None) -> Interval:
    """An interval that holds every value of the expression (interval arithmetic).

    Args:
        expr: what to bound.
        ranges: interval of each variable.
        known: intervals that whole subtrees are known to keep, say because a guard was tested before.

    Sound always, and exact for affine expressions in which every variable occurs once. Conditions answer within
    (0, 1). ValueError where a divisor may be zero or negative; KeyError names a variable without a range.
    """
    if isinstance(expr, Const):
        return expr.value, expr.value
    if isinstance(expr, Var) and not known:
        return ranges[expr.name]
    lo, hi = _bounds(expr, ranges, [bounds(child, ranges, known) for child in children(expr)])
    if known and expr in known:
        first, last = known[expr]
        return max(lo, first), min(hi, last)
    return lo, hi


def nonnegative(expr: IntExpr, ranges: Mapping[str, Interval]) -> bool:
    """Whether interval arithmetic shows that the expression is never negative.

    Asked of the dividend of a `FloorDiv` or `Mod`, a yes means that unsigned division and remainder are right.
    """
    return bounds(expr, ranges)[0] >= 0


def _bounds(expr: IntExpr, ranges: Mapping[str, Interval], parts: list[Interval]) -> Interval:
    """The interval of a node from those of its operands."""
    match expr:
        case Const(value):
            return value, value
        case Var(name):
            return ranges[name]
        case Add():
            return sum(lo for lo, _ in parts), sum(hi for _, hi in parts)
        case Mul():
            return reduce(_product, parts, (1, 1))
        case FloorDiv() | Mod():
            dividend, divisor = parts
            if divisor[0] <= 0:
                raise ValueError(f"the divisor in {expr} may be {divisor[0]}; divisors are positive")
            return (_quotient if isinstance(expr, FloorDiv) else _remainder)(dividend, divisor)
        case Less():
            (lo, hi), (low, high) = parts
            return int(hi < low), int(lo < high)
        case And():
            return min(lo for lo, _ in parts), min(hi for _, hi in parts)
        case Select():
            (never, ever), yes, no = parts
            arms = ([yes] if ever else []) + ([] if never else [no])
            return min(lo for lo, _ in arms), max(hi for _, hi in arms)


def _product(a: Interval, b: Interval) -> Interval:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _quotient(dividend: Interval, divisor: Interval) -> Interval:
    """Bounds of ``a // b`` for positive b: the divisor that makes it small depends on the sign of a."""
    lo, hi = dividend
    low, high = divisor
    return min(lo // low, lo // high), max(hi // low, hi // high)


def _remainder(dividend: Interval, divisor: Interval) -> Interval:
    """Bounds of ``a % b`` for positive b."""
    lo, hi = dividend
    low, high = divisor
    if low == high and lo // low == hi // low:  # no multiple of b in between: the remainder grows with a
        return lo % low, hi % low
    return 0, min(high - 1, hi) if lo >= 0 else high - 1
