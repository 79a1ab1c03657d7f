"""Rewriting and deciding: smaller expressions, equal expressions.

Nearly everything a convolution does with indices is counting in a mixed radix. A number m splits into digits,
``m = (n*P + p)*Q + q``, by `FloorDiv` and `Mod`, and digits join to a number again. Two questions come up:

* *Is this part constant, or simpler, given how large the variables are?* `simplify` answers with rules that
  need ranges.
* *Are these two expressions the same number, always?* `normal_form` writes every remainder as a quotient and
  leaves quotients with reduced dividends; where two forms agree, the expressions are equal for all integers.
  (Where they differ nothing is decided.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from convc.compiler.index.linear import Expr, Guard, Integer, Sum, Symbol, Terms, expression
from convc.compiler.index.lower import translate
from convc.compiler.index.symbols import FloorDiv, Mod, linear_sum, linear_terms
from convc.ir import expr as intexpr
from convc.ir.expr import Interval

Ranges = Mapping[str, Interval]


def bounds(expr: Expr, ranges: Ranges) -> Interval:
    """Interval of the values (see `convc.ir.expr.bounds`)."""
    return intexpr.bounds(translate(expr), ranges)


def simplify(expr: Expr, ranges: Ranges) -> Expr:
    """A smaller expression with the same value wherever the symbols keep their ranges.

    Two rules, applied from the leaves up; with x = dividend and b = divisor:
        x // b = k and x mod b = x - k*b              where all of x lies in k*b .. k*b + b - 1
        (g*y + r) // (g*b) = y // b, and
        (g*y + r) mod (g*b) = g*(y mod b) + r         where all of r lies in 0 .. g - 1
    The normal form is taken first where it has fewer divisions: digits that join to the number they came from.
    """
    own = tuple((name, ranges[name]) for name in sorted(map(str, symbols_in(expr))) if name in ranges)
    return _simplify(expr, own)


@lru_cache(maxsize=4096)
def _simplify(expr: Expr, own: tuple[tuple[str, Interval], ...]) -> Expr:
    """Simplify for the ranges of its own symbols alone: the maps of a convolution have many expressions in common."""
    if not expr.divisions:
        return expr
    normal = normal_form(expr)
    return _rewrite(normal if normal.divisions < expr.divisions else expr, dict(own))


@lru_cache(maxsize=4096)
def symbols_in(expr: Expr | Guard) -> frozenset[Symbol]:
    """The symbols in an expression or a condition."""
    return expr.free_symbols


def _rewrite(expr: Expr, ranges: Ranges) -> Expr:
    if not expr.divisions:
        return expr
    if isinstance(expr, Sum):
        terms: Terms = {}
        constant = expr.constant
        for atom, times in expr.terms.items():
            constant += _rewrite(atom, ranges).put_into(terms, times)
        return expression(constant, terms)
    assert isinstance(expr, FloorDiv | Mod)
    x = _rewrite(expr.dividend, ranges)
    divisor = expr.divisor
    low, high = bounds(x, ranges)
    if low // divisor == high // divisor:
        return Integer(low // divisor) if isinstance(expr, FloorDiv) else x - low // divisor * divisor
    constant, parts = linear_terms(x)
    for radix in sorted({math.gcd(c, divisor) for c, _ in parts} - {1}, reverse=True):
        upper = [(c // radix, rest) for c, rest in parts if c % radix == 0]
        below = linear_sum(constant % radix, [(c, rest) for c, rest in parts if c % radix])
        low, high = bounds(below, ranges)
        if low >= 0 and high < radix:
            above = linear_sum(constant // radix, upper)
            quotient = divisor // radix
            if isinstance(expr, FloorDiv):
                return _rewrite(FloorDiv(above, quotient), ranges)
            return radix * _rewrite(Mod(above, quotient), ranges) + below
    return type(expr)(x, divisor)


@lru_cache(maxsize=4096)
def normal_form(expr: Expr) -> Expr:
    """The form in which expressions are compared: no `Mod`, no quotient inside a dividend, small coefficients.

    Equal for all integers (a quotient that stands in a dividend with another coefficient than 1 stays there):
        x mod b = x - b*(x // b)
        (x + y // a) // b = (a*x + y) // (a*b)
        (c*x + y) // b = (c // b)*x + ((c mod b)*x + y) // b
    """
    if not expr.divisions:
        return expr
    if isinstance(expr, Sum):
        terms: Terms = {}
        constant = expr.constant
        for atom, times in expr.terms.items():
            constant += normal_form(atom).put_into(terms, times)
        return expression(constant, terms)
    assert isinstance(expr, FloorDiv | Mod)
    x = normal_form(expr.dividend)
    quotient = _normal_quotient(x, expr.divisor)
    return quotient if isinstance(expr, FloorDiv) else x - expr.divisor * quotient


def _normal_quotient(x: Expr, divisor: int) -> Expr:
    whole: Expr = Integer(0)
    while True:  # every round takes one quotient out of the dividend
        constant, terms = linear_terms(x)
        whole += linear_sum(constant // divisor, [(c // divisor, rest) for c, rest in terms])
        rest_of_x = linear_sum(constant % divisor, [(c % divisor, rest) for c, rest in terms])
        quotient = FloorDiv(rest_of_x, divisor)  # divides by a common factor, too
        if not isinstance(quotient, FloorDiv):
            return whole + quotient
        x = quotient.dividend
        divisor = quotient.divisor
        inner = [rest for c, rest in linear_terms(x)[1] if c == 1 and isinstance(rest, FloorDiv)]
        if not inner:
            return whole + quotient
        one = min(inner, key=_place)
        x, divisor = one.divisor * (x - one) + one.dividend, divisor * one.divisor


def _place(one: FloorDiv) -> tuple[int, str, int]:
    """A place among quotients that does not depend on how they were found: simple dividends first."""
    x = one.dividend
    kind = (Symbol, Sum, FloorDiv, Mod).index(type(x))
    return kind, str(translate(x)), one.divisor


def equal(a: Expr, b: Expr) -> bool:
    """Whether the algebra shows that a and b are equal for all integers; False means "not shown"."""
    return a == b or normal_form(a - b) == Integer(0)
