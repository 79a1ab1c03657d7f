"""Index expressions with the types that they really have.

sympy declares that calling a function makes a class, and that a substitution gives any node of a tree. The calls that
the loop nests need are here once, with numbers where the algebra wants constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from sympy import Basic, Expr, Integer, Symbol
from sympy.core.relational import Relational

from convc.compiler.index.symbols import FloorDiv, Mod


def quotient(x: Expr, divisor: int) -> Expr:
    """Divide by a positive constant, rounding down."""
    return cast(Expr, FloorDiv(x, Integer(divisor)))  # for sympy's annotations, a function applied is a class


def remainder(x: Expr, divisor: int) -> Expr:
    """Give what `quotient` leaves: 0..divisor-1, for negative numbers too."""
    return cast(Expr, Mod(x, Integer(divisor)))  # for sympy, again a class


def replaced(expr: Expr, put: Mapping[Symbol, Expr]) -> Expr:
    """Put expressions in place of symbols, all at once."""
    return expr.xreplace(dict(put))


def replaced_in_guard(condition: Relational, put: Mapping[Symbol, Expr]) -> Relational:
    """Put expressions in place of symbols on both sides of a condition, which stays as it is otherwise.

    Without `evaluate=False` sympy would turn ``0 <= n`` into True where it knows that n is nonnegative.
    """
    left = replaced(condition.lhs, put)
    right = replaced(condition.rhs, put)
    return cast(Relational, condition.func(left, right, evaluate=False))  # declared for every kind of relation


def symbols_of(expr: Basic) -> set[Symbol]:
    """The symbols that an expression or a condition reads."""
    return {symbol for symbol in expr.free_symbols if isinstance(symbol, Symbol)}
