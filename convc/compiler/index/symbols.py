"""The only functions that index expressions may use, and the axes they run over.

An index expression is built from integers, axis symbols, ``+``, products with integers, and the two functions below,
which stay integers from the first rewrite to the last. Divisors are positive constants; division rounds down.

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
from abc import abstractmethod
from collections.abc import Mapping

import msgspec

from convc.compiler.index.linear import Expr, Integer, Sum, Symbol, Terms, expression
from convc.ir.expr import Interval


def linear_terms(expr: Expr) -> tuple[int, list[tuple[int, Expr]]]:
    """``expr`` as (constant, [(coefficient, atom), ...])."""
    if isinstance(expr, Sum):
        return expr.constant, [(coefficient, atom) for atom, coefficient in expr.terms.items()]
    return (expr.value, []) if isinstance(expr, Integer) else (0, [(1, expr)])


def linear_sum(constant: int, terms: list[tuple[int, Expr]]) -> Expr:
    """The expression with this constant and these (coefficient, atom) terms."""
    found: Terms = {}
    for coefficient, atom in terms:
        found[atom] = found.get(atom, 0) + coefficient
    return expression(constant, found)


class _Division(Expr):
    """What `FloorDiv` and `Mod` have in common.

    Attributes:
        dividend, divisor: an expression, and the positive constant that it is divided by.
    """

    __slots__ = ("dividend", "divisor")

    dividend: Expr
    divisor: int

    def __new__(cls, x: Expr | int, b: Expr | int) -> Expr:
        dividend = Integer(x) if isinstance(x, int) else x
        divisor = _divisor(b)
        found = cls.simpler(dividend, divisor)
        if found is not None:
            return found
        made = object.__new__(cls)
        made.dividend = dividend
        made.divisor = divisor
        made.divisions = dividend.divisions + 1
        made._hash = hash((cls, dividend, divisor))
        return made

    @classmethod
    @abstractmethod
    def simpler(cls, x: Expr, divisor: int) -> Expr | None:
        """What the rules make of it; None where none of them applies."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, _Division) or type(other) is not type(self) or self._hash != other._hash:
            return False
        return self.divisor == other.divisor and self.dividend == other.dividend

    __hash__ = Expr.__hash__

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.dividend}, {self.divisor})"

    @property
    def free_symbols(self) -> frozenset[Symbol]:
        return self.dividend.free_symbols

    def xreplace(self, put: Mapping[Symbol, Expr]) -> Expr:
        dividend = self.dividend.xreplace(put)
        return self if dividend is self.dividend else type(self)(dividend, self.divisor)


class FloorDiv(_Division):
    """``FloorDiv(x, b)``: x divided by the positive constant b, rounded down."""

    __slots__ = ()

    @classmethod
    def simpler(cls, x: Expr, divisor: int) -> Expr | None:
        if isinstance(x, Integer):
            return Integer(x.value // divisor)
        if divisor == 1:
            return x
        if isinstance(x, FloorDiv):
            return FloorDiv(x.dividend, divisor * x.divisor)
        if isinstance(x, Mod) and x.divisor <= divisor:
            return Integer(0)
        if isinstance(x, Sum):
            common = math.gcd(divisor, *x.terms.values())
            if common > 1:
                reduced = {atom: times // common for atom, times in x.terms.items()}
                return FloorDiv(expression(x.constant // common, reduced), divisor // common)
        return None


class Mod(_Division):
    """``Mod(x, b)``: what `FloorDiv` by the positive constant b leaves, in 0..b-1 for negative x too."""

    __slots__ = ()

    @classmethod
    def simpler(cls, x: Expr, divisor: int) -> Expr | None:
        if isinstance(x, Integer):
            return Integer(x.value % divisor)
        if divisor == 1:
            return Integer(0)
        if isinstance(x, Mod):
            if x.divisor <= divisor:
                return x
            if x.divisor % divisor == 0:
                return Mod(x.dividend, divisor)
        if not isinstance(x, Sum):
            return None
        part = {atom: times for atom, times in x.terms.items() if times % divisor}
        if len(part) < len(x.terms) or not 0 <= x.constant < divisor:
            return Mod(expression(x.constant % divisor, part), divisor)
        common = math.gcd(divisor, *part.values())
        if common > 1:
            reduced = {atom: times // common for atom, times in part.items()}
            return common * Mod(expression(x.constant // common, reduced), divisor // common) + x.constant % common
        return None


def _divisor(b: Expr | int) -> int:
    """A divisor as a number; ValueError where it is none, or not positive."""
    divisor = b.value if isinstance(b, Integer) else b
    if not isinstance(divisor, int) or divisor < 1:
        raise ValueError(f"a divisor is a positive constant, got {b}")
    return divisor


class Axis(msgspec.Struct, frozen=True, gc=False):
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
    def symbol(self) -> Symbol:
        """The symbol of that name."""
        return Symbol(self.name)

    @property
    def range(self) -> Interval:
        """(lowest, highest) value."""
        return self.first, self.first + self.extent - 1
