"""Smaller expressions: those of a derivation, with the numbers of a problem, as few and small as its extents allow.

A formula holds for all sizes. With numbers in it much falls away: digits of extent 1, remainders of what is below the
divisor, digits that join to the number that they came from. Expressions here are sums of whole numbers times variables,
quotients and remainders by positive constants (`convc.ir.expr`), and `tidy` gives each its one form: terms of one atom
added up, the largest coefficient first, and these rules applied from the leaves up, which hold for every integer x
(a, b, g positive; c any integer):

    x // 1 = x                              x % 1 = 0
    (x // a) // b = x // (a*b)              (x % a) % b = x % b          where b divides a
    (x % a) // b = 0  where a <= b          (x % a) % b = x % a          where a <= b
                                            (b*x + y) % b = y % b
    (g*x + c) // (g*b) = (x + c//g) // b    (g*x + c) % (g*b) = g*((x + c//g) % b) + c % g

`smaller` knows the ranges of variables too. That an expression is right is not a matter of these rules: isl holds every
number of a kernel against its meaning (`convc.compiler.plan.validation`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

from convc.ir.expr import Add, Const, FloorDiv, Interval, IntExpr, Mod, Mul, Var, bounds

Ranges = Mapping[str, Interval]
Term = tuple[int, IntExpr]
"""So many times an expression."""


def smaller(expr: IntExpr, ranges: Ranges) -> IntExpr:
    """A smaller expression with the same value wherever the variables keep their ranges.

    Two rules, applied from the leaves up; with x = dividend and b = divisor:
        x // b = k and x % b = x - k*b               where all of x lies in k*b .. k*b + b - 1
        (g*y + r) // (g*b) = y // b, and
        (g*y + r) % (g*b) = g*(y % b) + r            where all of r lies in 0 .. g - 1
    The form without remainders is taken first where it has fewer divisions.

    Raises:
        ValueError: the expression is no sum as the module says.
    """
    own = ((name, ranges[name]) for name in sorted(expr.variables()) if name in ranges)
    return _smaller(tidy(expr), tuple(own))


@lru_cache(maxsize=4096)
def _smaller(expr: IntExpr, own: tuple[tuple[str, Interval], ...]) -> IntExpr:
    """By the ranges of its own variables alone: the maps of a convolution have many expressions in common."""
    if not _divisions(expr):
        return expr
    without = _without_remainders(expr)
    return _in_ranges(without if _divisions(without) < _divisions(expr) else expr, dict(own))


@lru_cache(maxsize=4096)
def tidy(expr: IntExpr) -> IntExpr:
    """The one form of an expression that equals it for all integers; ValueError as of `smaller`."""
    match expr:
        case Const() | Var():
            return expr
        case Add(args):
            return _sum((1, tidy(arg)) for arg in args)
        case Mul((factor, Const(times))):
            return _sum([(times, tidy(factor))])
        case FloorDiv(a, Const(b)):
            return _quotient(tidy(a), b)
        case Mod(a, Const(b)):
            return _remainder(tidy(a), b)
        case _:
            raise ValueError(f"{expr} is no sum of whole numbers times variables and quotients")


def _divisions(expr: IntExpr) -> int:
    if isinstance(expr, FloorDiv | Mod):
        return 1 + _divisions(expr.a)
    return sum(map(_divisions, expr.args)) if isinstance(expr, Add | Mul) else 0


def _terms(expr: IntExpr) -> tuple[int, list[Term]]:
    """The constant of a tidy expression, and its atoms with their coefficients."""
    constant = 0
    found: list[Term] = []
    for part in expr.args if isinstance(expr, Add) else (expr,):
        match part:
            case Const(value):
                constant = value
            case Mul((atom, Const(times))):
                found.append((times, atom))
            case _:
                found.append((1, part))
    return constant, found


def _sum(parts: Iterable[Term], constant: int = 0) -> IntExpr:
    """Tidy expressions, each so many times, and a constant: largest coefficients first, equal ones by their text."""
    found: dict[IntExpr, int] = {}
    for times, part in parts:
        own, terms = _terms(part)
        constant += times * own
        for each, atom in terms:
            found[atom] = found.get(atom, 0) + times * each
    terms = [(times, atom) for atom, times in found.items() if times]
    if len({times for times, _ in terms}) == len(terms):
        terms.sort(key=lambda term: -term[0])
    else:
        terms.sort(key=lambda term: (-term[0], str(term[1])))
    made: list[IntExpr] = [atom if times == 1 else Mul((atom, Const(times))) for times, atom in terms]
    if constant or not made:
        made.append(Const(constant))
    return made[0] if len(made) == 1 else Add(tuple(made))


def _quotient(x: IntExpr, b: int) -> IntExpr:
    """A tidy expression divided by a constant."""
    match x:
        case _ if b == 1:
            return x
        case Const(value):
            return Const(value // b)
        case FloorDiv(a, Const(inner)):
            return _quotient(a, b * inner)
        case Mod(_, Const(inner)) if inner <= b:
            return Const(0)
        case _:
            constant, terms = _terms(x)
            common = math.gcd(b, *(times for times, _ in terms))
            if common == 1:
                return FloorDiv(x, Const(b))
            reduced = ((times // common, atom) for times, atom in terms)
            return _quotient(_sum(reduced, constant // common), b // common)


def _remainder(x: IntExpr, b: int) -> IntExpr:
    """What is left of a tidy expression."""
    match x:
        case _ if b == 1:
            return Const(0)
        case Const(value):
            return Const(value % b)
        case Mod(_, Const(inner)) if inner <= b:
            return x
        case Mod(a, Const(inner)) if inner % b == 0:
            return _remainder(a, b)
        case _:
            constant, terms = _terms(x)
            left = [(times, atom) for times, atom in terms if times % b]
            if len(left) < len(terms) or not 0 <= constant < b:
                return _remainder(_sum(left, constant % b), b)
            common = math.gcd(b, *(times for times, _ in left))
            if common == 1:
                return Mod(x, Const(b))
            reduced = _sum(((times // common, atom) for times, atom in left), constant // common)
            return _sum([(common, _remainder(reduced, b // common))], constant % common)


def _in_ranges(expr: IntExpr, ranges: Ranges) -> IntExpr:
    match expr:
        case Const() | Var():
            return expr
        case FloorDiv(a, Const(divisor)) | Mod(a, Const(divisor)):
            x = _in_ranges(a, ranges)
        case _:
            constant, terms = _terms(expr)
            return _sum(((times, _in_ranges(atom, ranges)) for times, atom in terms), constant)
    whole = isinstance(expr, FloorDiv)
    low, high = bounds(x, ranges)
    if low // divisor == high // divisor:
        return Const(low // divisor) if whole else _sum([(1, x)], -(low // divisor * divisor))
    constant, terms = _terms(x)
    for radix in sorted({math.gcd(times, divisor) for times, _ in terms} - {1}, reverse=True):
        below = _sum(((times, rest) for times, rest in terms if times % radix), constant % radix)
        low, high = bounds(below, ranges)
        if low >= 0 and high < radix:
            above = _sum(((times // radix, rest) for times, rest in terms if times % radix == 0), constant // radix)
            if whole:
                return _in_ranges(_quotient(above, divisor // radix), ranges)
            return _sum([(radix, _in_ranges(_remainder(above, divisor // radix), ranges)), (1, below)])
    return _quotient(x, divisor) if whole else _remainder(x, divisor)


@lru_cache(maxsize=4096)
def _without_remainders(expr: IntExpr) -> IntExpr:
    """No remainder, no quotient inside a dividend, small coefficients.

    Equal for all integers (a quotient that stands in a dividend with another coefficient than 1 stays there):
        x % b = x - b*(x // b)
        (x + y // a) // b = (a*x + y) // (a*b)
        (c*x + y) // b = (c // b)*x + ((c % b)*x + y) // b
    """
    match expr:
        case Const() | Var():
            return expr
        case FloorDiv(a, Const(divisor)):
            return _whole(_without_remainders(a), divisor)
        case Mod(a, Const(divisor)):
            x = _without_remainders(a)
            return _sum([(1, x), (-divisor, _whole(x, divisor))])
        case _:
            constant, terms = _terms(expr)
            return _sum(((times, _without_remainders(atom)) for times, atom in terms), constant)


def _whole(x: IntExpr, divisor: int) -> IntExpr:
    """The quotient of an expression without remainders."""
    whole: list[Term] = []
    while True:  # every round takes one quotient out of the dividend
        constant, terms = _terms(x)
        whole.append((1, _sum(((times // divisor, atom) for times, atom in terms), constant // divisor)))
        quotient = _quotient(_sum(((times % divisor, atom) for times, atom in terms), constant % divisor), divisor)
        inner: list[FloorDiv] = []
        if isinstance(quotient, FloorDiv):
            x = quotient.a
            divisor = _divisor(quotient)
            inner = [atom for times, atom in _terms(x)[1] if times == 1 and isinstance(atom, FloorDiv)]
        if not inner:
            return _sum([*whole, (1, quotient)])
        one = min(inner, key=_place)
        by = _divisor(one)
        x, divisor = _sum([(by, x), (-by, one), (1, one.a)]), divisor * by


def _place(one: FloorDiv) -> tuple[int, str, int]:
    """A place among quotients that does not depend on how they were found: simple dividends first."""
    kinds = (Var, Add | Mul, FloorDiv, Mod)
    return next(number for number, kind in enumerate(kinds) if isinstance(one.a, kind)), str(one.a), _divisor(one)


def _divisor(one: FloorDiv) -> int:
    assert isinstance(one.b, Const)
    return one.b.value
