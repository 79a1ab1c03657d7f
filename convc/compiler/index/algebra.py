"""Rewriting and deciding: smaller expressions, equal expressions, mixed-radix numbers.

Nearly everything a convolution does with indices is counting in a mixed radix. A number m splits into digits,
``m = (n*P + p)*Q + q``, by `FloorDiv` and `Mod`, and digits join to a number again. Three questions come up:

* *Is this part constant, or simpler, given how large the variables are?* `simplify` answers with rules that
  need ranges.
* *Are these two expressions the same number, always?* `normal_form` writes every remainder as a quotient and
  leaves quotients with reduced dividends; where two forms agree, the expressions are equal for all integers.
  (Where they differ nothing is decided.)
* *Does this sum give every value once?* `digits` recognises a sum of coefficient times digit where each
  coefficient is the number of values of everything below it: the sum counts, without gap or repetition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import sympy
from sympy import Integer

from convc.compiler.index.lower import translate
from convc.compiler.index.symbols import FloorDiv, Mod, linear_sum, linear_terms
from convc.ir import expr as intexpr
from convc.ir.expr import Interval

Ranges = Mapping[str, Interval]


def bounds(expr: sympy.Expr, ranges: Ranges) -> Interval:
    """Interval of the values (see `convc.ir.expr.bounds`)."""
    return intexpr.bounds(translate(expr), ranges)


def simplify(expr: sympy.Expr, ranges: Ranges) -> sympy.Expr:
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
def _simplify(expr: sympy.Expr, own: tuple[tuple[str, Interval], ...]) -> sympy.Expr:
    """Simplify for the ranges of its own symbols alone: the maps of a convolution have many expressions in common."""
    if not expr.has(FloorDiv, Mod):
        return expr
    normal = normal_form(expr)
    return _rewrite(normal if _divisions(normal) < _divisions(expr) else expr, dict(own))


@lru_cache(maxsize=4096)
def symbols_in(expr: sympy.Basic) -> frozenset[sympy.Basic]:
    """The symbols in an expression or a condition."""
    return frozenset(expr.free_symbols)


def _rewrite(expr: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    if not expr.args:
        return expr
    args = [_rewrite(arg, ranges) for arg in expr.args]
    if not isinstance(expr, FloorDiv | Mod):
        return expr.func(*args) if any(new is not old for new, old in zip(args, expr.args, strict=True)) else expr
    x = args[0]
    divisor = int(args[1])
    low, high = bounds(x, ranges)
    if low // divisor == high // divisor:
        return Integer(low // divisor) if isinstance(expr, FloorDiv) else x - low // divisor * divisor
    constant, terms = linear_terms(x)
    for radix in sorted({math.gcd(c, divisor) for c, _ in terms} - {1}, reverse=True):
        upper = [(c // radix, rest) for c, rest in terms if c % radix == 0]
        below = linear_sum(constant % radix, [(c, rest) for c, rest in terms if c % radix])
        low, high = bounds(below, ranges)
        if low >= 0 and high < radix:
            above = linear_sum(constant // radix, upper)
            quotient = Integer(divisor // radix)
            if isinstance(expr, FloorDiv):
                return _rewrite(FloorDiv(above, quotient), ranges)
            return radix * _rewrite(Mod(above, quotient), ranges) + below
    return expr.func(x, args[1])


def _divisions(expr: sympy.Expr) -> int:
    return sum(isinstance(node, FloorDiv | Mod) for node in sympy.preorder_traversal(expr))


@lru_cache(maxsize=4096)
def normal_form(expr: sympy.Expr) -> sympy.Expr:
    """The form in which expressions are compared: no `Mod`, no quotient inside a dividend, small coefficients.

    Equal for all integers (a quotient that stands in a dividend with another coefficient than 1 stays there):
        x mod b = x - b*(x // b)
        (x + y // a) // b = (a*x + y) // (a*b)
        (c*x + y) // b = (c // b)*x + ((c mod b)*x + y) // b
    """
    if not expr.args or not expr.has(FloorDiv, Mod):
        return expr
    if not isinstance(expr, FloorDiv | Mod):
        return expr.func(*map(normal_form, expr.args))
    x = normal_form(expr.args[0])
    divisor = int(expr.args[1])
    quotient = _normal_quotient(x, divisor)
    return quotient if isinstance(expr, FloorDiv) else x - divisor * quotient


def _normal_quotient(x: sympy.Expr, divisor: int) -> sympy.Expr:
    whole = Integer(0)
    while True:  # every round takes one quotient out of the dividend
        constant, terms = linear_terms(x)
        whole += linear_sum(constant // divisor, [(c // divisor, rest) for c, rest in terms])
        rest_of_x = linear_sum(constant % divisor, [(c % divisor, rest) for c, rest in terms])
        quotient = FloorDiv(rest_of_x, Integer(divisor))  # divides by a common factor, too
        if not isinstance(quotient, FloorDiv):
            return whole + quotient
        x = quotient.args[0]
        divisor = int(quotient.args[1])
        inner = [rest for c, rest in linear_terms(x)[1] if c == 1 and isinstance(rest, FloorDiv)]
        if not inner:
            return whole + quotient
        y, scale = min(inner, key=sympy.default_sort_key).args
        x, divisor = scale * (x - FloorDiv(y, scale)) + y, divisor * int(scale)


def equal(a: sympy.Expr, b: sympy.Expr) -> bool:
    """Whether the algebra shows that a and b are equal for all integers; False means "not shown"."""
    return a == b or normal_form(a - b).is_zero is True


def digits(expr: sympy.Expr, ranges: Ranges) -> tuple[tuple[int, str, int], ...] | None:
    """``expr`` as a mixed-radix number: (coefficient, symbol, values) from the lowest digit up; or None.

    A result means: as its symbols run through their ranges (which start at 0), the expression takes every value
    from 0 to the product of the numbers of values less one, each exactly once. For then every coefficient is
    the product of the radices below it, as in a number system. Digits with one value only do not count.
    """
    constant, terms = linear_terms(expr)
    found: list[tuple[int, str, int]] = []
    for coefficient, rest in terms:
        if not isinstance(rest, sympy.Symbol) or rest.name not in ranges or ranges[rest.name][0] != 0:
            return None
        values = ranges[rest.name][1] + 1
        if values > 1:
            found.append((coefficient, rest.name, values))
    found.sort()
    weight = 1
    for coefficient, _, values in found:
        if coefficient != weight:
            return None
        weight *= values
    return tuple(found) if constant == 0 else None
