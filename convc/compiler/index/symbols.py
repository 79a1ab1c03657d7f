"""The only functions that index expressions may use, and the axes they run over.

sympy's own ``floor`` is not integer division: turned into numpy code, ``floor(m / 49)`` is computed in
floating point and is wrong for some m. So an index expression is built from integers, axis symbols, ``+``,
``*`` and the two functions below, which stay integers from the first rewrite to the last. Divisors are
positive constants; division rounds down.

The rules that `FloorDiv` and `Mod` apply by themselves hold for every integer x, negative ones included
(a, b, g positive; c any integer):

    x // 1 = x                              x mod 1 = 0
    (x // a) // b = x // (a*b)              (x mod a) mod b = x mod b    where b divides a
    (x mod a) // b = 0  where a <= b        (x mod a) mod b = x mod a    where a <= b
                                            (b*x + y) mod b = y mod b
    (g*x + c) // (g*b) = (x + c//g) // b    (g*x + c) mod (g*b) = g*((x + c//g) mod b) + c mod g

Rules that need to know how large x is, and those that only help to compare, live in `convc.compiler.index.algebra`.
Expressions are only ever built by code: text is never parsed into one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import sympy
from sympy import Integer

from convc.ir.expr import Interval


def linear_terms(expr: sympy.Expr) -> tuple[int, list[tuple[int, sympy.Expr]]]:
    """``expr`` as (constant, [(coefficient, rest), ...]); ValueError for a coefficient that is no integer."""
    constant = 0
    terms: list[tuple[int, sympy.Expr]] = []
    for term in expr.args if isinstance(expr, sympy.Add) else (expr,):
        coefficient, rest = term.as_coeff_Mul()
        if not coefficient.is_Integer:
            raise ValueError(f"{expr} has the coefficient {coefficient}; index expressions have whole ones")
        if rest is sympy.S.One:
            constant += int(coefficient)
        else:
            terms.append((int(coefficient), rest))
    return constant, terms


def linear_sum(constant: int, terms: list[tuple[int, sympy.Expr]]) -> sympy.Expr:
    """The expression with this constant and these (coefficient, rest) terms."""
    return sympy.Add(*(Integer(coefficient) * rest for coefficient, rest in terms), Integer(constant))


class FloorDiv(sympy.Function):
    """``FloorDiv(x, b)``: x divided by the positive constant b, rounded down."""

    nargs = (2,)
    is_integer = True

    @classmethod
    def eval(cls, x: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        divisor = _divisor(b)
        if x.is_Integer:
            return Integer(int(x) // divisor)
        if divisor == 1:
            return x
        if isinstance(x, FloorDiv):
            return FloorDiv(x.args[0], Integer(divisor * int(x.args[1])))
        if isinstance(x, Mod) and int(x.args[1]) <= divisor:
            return Integer(0)
        constant, terms = linear_terms(x)
        common = math.gcd(divisor, *(c for c, _ in terms))
        if common > 1:
            reduced = linear_sum(constant // common, [(c // common, rest) for c, rest in terms])
            return FloorDiv(reduced, Integer(divisor // common))
        return None


class Mod(sympy.Function):
    """``Mod(x, b)``: what `FloorDiv` by the positive constant b leaves, in 0..b-1 for negative x too."""

    nargs = (2,)
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, x: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
        divisor = _divisor(b)
        if x.is_Integer:
            return Integer(int(x) % divisor)
        if divisor == 1:
            return Integer(0)
        if isinstance(x, Mod):
            inner = int(x.args[1])
            if inner <= divisor:
                return x
            if inner % divisor == 0:
                return Mod(x.args[0], b)
        constant, terms = linear_terms(x)
        part = [(c, rest) for c, rest in terms if c % divisor]
        if len(part) < len(terms) or not 0 <= constant < divisor:
            return Mod(linear_sum(constant % divisor, part), b)
        common = math.gcd(divisor, *(c for c, _ in terms))
        if common > 1:
            reduced = linear_sum(constant // common, [(c // common, rest) for c, rest in terms])
            return Integer(common) * Mod(reduced, Integer(divisor // common)) + Integer(constant % common)
        return None


def _divisor(b: sympy.Expr) -> int:
    if not (b.is_Integer and b.is_positive):
        raise ValueError(f"a divisor is a positive constant, got {b}")
    return int(b)


@lru_cache(maxsize=1024)
def _symbol(name: str, nonnegative: bool) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, nonnegative=True) if nonnegative else sympy.Symbol(name, integer=True)


@dataclass(frozen=True, slots=True)
class Axis:
    """A named run of integers ``first, first + 1, ...``.

    Attributes:
        name: an identifier.
        extent: how many integers, at least 1.
        first: the lowest one; 0 but for coordinates that start in the padding.

    Raises:
        ValueError: where the name is not an identifier or the extent is not positive.
    """

    name: str
    extent: int
    first: int = 0

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and self.name.isascii()):
            raise ValueError(f"an axis name is an identifier, got {self.name!r}")
        if self.extent < 1:
            raise ValueError(f"axis {self.name} needs an extent of at least 1, got {self.extent}")

    @property
    def symbol(self) -> sympy.Symbol:
        """The integer symbol of that name; it is known to be nonnegative where `first` is."""
        return _symbol(self.name, self.first >= 0)

    @property
    def range(self) -> Interval:
        """(lowest, highest) value."""
        return self.first, self.first + self.extent - 1
