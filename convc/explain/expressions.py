"""Index expressions as loop nests are made of them."""

from __future__ import annotations

from collections.abc import Mapping

from convc.compiler.index.linear import Expr, Guard, Symbol
from convc.compiler.index.symbols import FloorDiv, Mod


def quotient(x: Expr, divisor: int) -> Expr:
    """Divide by a positive constant, rounding down."""
    return FloorDiv(x, divisor)


def remainder(x: Expr, divisor: int) -> Expr:
    """Give what `quotient` leaves: 0..divisor-1, for negative numbers too."""
    return Mod(x, divisor)


def replaced(expr: Expr, put: Mapping[Symbol, Expr]) -> Expr:
    """Put expressions in place of symbols, all at once."""
    return expr.xreplace(put)


def replaced_in_guard(condition: Guard, put: Mapping[Symbol, Expr]) -> Guard:
    """Put expressions in place of symbols on both sides of a condition."""
    return condition.xreplace(put)


def symbols_of(expr: Expr | Guard) -> frozenset[Symbol]:
    """The symbols that an expression or a condition reads."""
    return expr.free_symbols
