"""Two index expressions are the same number, whatever the sizes are: when that is shown.

`normal` brings an expression to a form in which equal ones look alike. Its rules hold for all whole numbers x and y,
and for positive a and b, which may be symbols:

    x mod b = x - b*(x // b)
    (b*x + y) // b = x + y // b
    (x // a + y) // b = (x + a*y) // (a*b)
    (a*x) // (a*b) = x // b
    y // b = i                       where i*b <= y < (i + 1)*b, for i = 0, -1, 1
    (a*x + y) // (a*b) = x // b      where 0 <= y < a

The last two need to know how large y is. A `Facts` says it: symbols are put as others plus a *slack*, a number that is
not negative (q < T is T = q + slack + 1), after which a bound is a polynomial without a negative term. That shows
less than there is to show, and never anything false: terms are not negative one by one, so their sum is not.

Sums of products are multiplied out in a polynomial ring, whose generators are symbols and divisions: 0.03 ms where
sympy's ``expand`` takes one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping

from sympy import Add, Expr, Integer, Mul, Pow, S, Symbol
from sympy.polys.domains import ZZ
from sympy.polys.rings import PolyElement, PolyRing

from convc.derive.symbols import Division, FloorDiv, Mod

Facts = Mapping[Symbol, Expr]
"""Symbols, and what they are in other symbols and slacks."""


def expanded(expr: Expr) -> Expr:
    """An expression as a sum of products; divisions are atoms."""
    if expr.is_Atom or isinstance(expr, Division):
        return expr
    return _polynomial(expr).as_expr()


def _polynomial(expr: Expr) -> PolyElement:
    atoms: dict[Expr, None] = {}
    _collect(expr, atoms)
    ring = _ring(tuple(atoms))
    return _element(expr, ring, dict(zip(ring.symbols, ring.gens, strict=True)))


@functools.lru_cache(maxsize=4096)
def _ring(atoms: tuple[Expr, ...]) -> PolyRing:
    return PolyRing(atoms, ZZ)


def _collect(expr: Expr, atoms: dict[Expr, None]) -> None:
    if isinstance(expr, Add | Mul):
        for each in expr.args:
            _collect(each, atoms)
    elif isinstance(expr, Pow):
        _collect(expr.base, atoms)
    elif not expr.is_Integer:
        atoms[expr] = None


def _element(expr: Expr, ring: PolyRing, gens: Mapping[Expr, PolyElement]) -> PolyElement:
    if isinstance(expr, Add | Mul):
        first, *others = (_element(each, ring, gens) for each in expr.args)
        for other in others:
            first = first + other if isinstance(expr, Add) else first * other
        return first
    if isinstance(expr, Pow):
        return _element(expr.base, ring, gens) ** int(expr.exp)
    return ring(int(expr)) if expr.is_Integer else gens[expr]


def not_negative(expr: Expr, facts: Facts) -> bool:
    """Whether an expression is shown to be 0 or more."""
    polynomial = _polynomial(expr.xreplace(dict(facts)) if facts else expr)
    return all(times >= 0 for times in polynomial.values()) and all(x.is_nonnegative for x in polynomial.ring.symbols)


def normal(expr: Expr, facts: Facts | None = None) -> Expr:
    """The form in which expressions are compared: no `Mod`, and each quotient as small as the rules make it."""
    facts = facts or {}
    if expr.is_Atom:
        return expr
    if isinstance(expr, FloorDiv):
        return _quotient(normal(expr.dividend, facts), expr.divisor, facts)
    if isinstance(expr, Mod):
        dividend = normal(expr.dividend, facts)
        return expanded(dividend - expr.divisor * _quotient(dividend, expr.divisor, facts))
    return expanded(expr.func(*(normal(each, facts) for each in expr.args)))


def same(left: Expr, right: Expr, facts: Facts | None = None) -> bool:
    """Whether two expressions are shown to be the same number."""
    return left == right or normal(left - right, facts) == 0


def _quotient(x: Expr, divisor: Expr, facts: Facts) -> Expr:
    """x // divisor, of an x in normal form and a divisor that is a product of sizes and a number."""
    whole: list[Expr] = []
    rest: list[Expr] = []
    for term in Add.make_args(x):
        times, left = _divided(term, divisor)
        whole.append(times)
        rest.append(left)
    y = Add(*rest)
    if y == 0:
        return Add(*whole)
    for times in (0, -1, 1):
        if not_negative(y - times * divisor, facts) and not_negative((times + 1) * divisor - 1 - y, facts):
            return Add(*whole, times)
    for term in Add.make_args(y):
        if isinstance(term, FloorDiv):
            joined = expanded(term.dividend + term.divisor * (y - term))
            return Add(*whole, _quotient(joined, expanded(term.divisor * divisor), facts))
    common = _common(divisor, Add.make_args(y))
    if common != 1:
        return Add(*whole, _quotient(_over(Add.make_args(y), common), divisor / common, facts))
    smaller = _without_low_part(y, divisor, facts)
    return Add(*whole, FloorDiv(y, divisor) if smaller is None else _quotient(*smaller, facts))


def _divided(term: Expr, divisor: Expr) -> tuple[Expr, Expr]:
    times = term / divisor
    if times.as_numer_denom()[1] == 1:
        return times, S.Zero
    number, product = term.as_coeff_Mul()
    by = divisor.as_coeff_Mul()[0]
    if by != 1 and number // by:  # c*y = by*(c // by)*y + (c mod by)*y
        times = by * (number // by) * product / divisor
        if times.as_numer_denom()[1] == 1:
            return times, number % by * product
    return S.Zero, term


def _without_low_part(y: Expr, divisor: Expr, facts: Facts) -> tuple[Expr, Expr] | None:
    """(x, b) where y is a*x + z and the divisor a*b, 0 <= z < a: the last rule. None where no factor a is found."""
    for a in divisor.as_coeff_Mul()[1].as_powers_dict():
        if a == 1:
            continue
        high = [term for term in Add.make_args(y) if (term / a).as_numer_denom()[1] == 1]
        low = y - Add(*high)
        if high and low != 0 and not_negative(low, facts) and not_negative(a - 1 - low, facts):
            return _over(high, a), divisor / a
    return None


def _over(terms: Iterable[Expr], factor: Expr) -> Expr:
    """A sum of terms, each divided by a factor that it has."""
    return Add(*(term / factor for term in terms))


def _common(divisor: Expr, terms: tuple[Expr, ...]) -> Expr:
    """The largest product that divides the divisor and all terms."""
    number, product = divisor.as_coeff_Mul()
    powers = dict(product.as_powers_dict())
    common = int(number)
    for term in terms:
        times, factors = term.as_coeff_Mul()
        common = math.gcd(common, int(times))
        mine = factors.as_powers_dict()
        powers = {base: min(power, mine[base]) for base, power in powers.items() if base != 1 and base in mine}
    return Mul(Integer(common), *(base**power for base, power in powers.items()))
