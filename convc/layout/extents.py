"""Extents and strides: whole numbers, or polynomials of sympy in symbols that are positive whole numbers.

sympy is imported when there is a symbol. A question about symbols has three answers: yes, no, and None where it
depends on their values.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, TypeAlias

from convc.errors import InputError

if TYPE_CHECKING:
    from sympy import Expr

Extent: TypeAlias = "int | Expr"

MOST_TERMS = 1 << 10
"""Terms of a difference that are looked at; of one with more it is not known which side is larger."""


def extent(value: object) -> Extent:
    """A number or an expression in the form in which equal ones look equal.

    Raises:
        InputError: it is no whole number, or sympy does not know it for one.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, bool) and hasattr(value, "__index__"):  # numbers of numpy, and sympy's own
        return operator.index(value)  # pyright: ignore[reportArgumentType]
    if not hasattr(value, "free_symbols"):
        raise InputError(f"expected a whole number or an expression of sympy, got {value!r}")
    return _expression(value)


def _expression(value: Any) -> Extent:
    import sympy

    whole = sympy.expand(sympy.cancel(value))
    if not whole.is_integer:
        raise InputError(
            f"expected an expression that is a whole number, got {value}",
            hint="symbols are sympy.Symbol(name, integer=True, positive=True)",
        )
    return int(whole) if whole.is_number else whole


def symbol(name: str) -> Extent:
    """A positive whole number that is not known."""
    import sympy

    return sympy.Symbol(name, integer=True, positive=True)


def product(*values: Extent) -> Extent:
    """The product of some, 1 of none."""
    done: Any = 1
    for value in values:
        done *= value
    return _expanded(done)


def total(*values: Extent) -> Extent:
    """The sum of some, 0 of none."""
    return _expanded(sum(values))


def _expanded(value: Any) -> Extent:
    if isinstance(value, int):
        return value
    whole = value.expand()
    return int(whole) if whole.is_number else whole


def same(one: Extent, other: Extent) -> bool:
    """Whether both are known to be equal."""
    return one == other


def divides(part: Extent, whole: Extent) -> bool | None:
    """Whether ``whole`` is a multiple of ``part``, which is not 0; None: it depends on the symbols."""
    if isinstance(part, int) and isinstance(whole, int):
        return whole % part == 0
    import sympy

    return sympy.expand(sympy.cancel(sympy.Integer(1) * whole / part)).is_integer


def quotient(whole: Extent, part: Extent) -> Extent:
    """``whole / part``, where ``part`` divides it."""
    if isinstance(part, int) and isinstance(whole, int):
        return whole // part
    return extent(whole / part)


def at_most(small: Extent, large: Extent) -> bool | None:
    """Whether ``small <= large``; None: it depends on the symbols.

    Where all symbols of the difference have coefficients of one sign, it is smallest or largest where they are 1. Else
    it is written in what symbols are above 1, which is not negative: if no coefficient is, it is not.
    """
    if isinstance(small, int) and isinstance(large, int):
        return small <= large
    import sympy

    rest: Any = sympy.Integer(0) + large - small
    coefficients: Any = rest.as_coefficients_dict()
    signs = {each > 0 for term, each in coefficients.items() if term != 1}
    if len(signs) > 1:
        if sum(_terms(term) for term in coefficients) > MOST_TERMS:
            return None
        moved = sympy.expand(rest.subs({name: name + 1 for name in rest.free_symbols}, simultaneous=True))
        coefficients = moved.as_coefficients_dict()
        signs = {each > 0 for term, each in coefficients.items() if term != 1}
        if len(signs) > 1:
            return None
        least = coefficients[sympy.S.One]
    else:
        least = sum(coefficients.values())
    if signs <= {True} and least >= 0:
        return True
    return False if signs <= {False} and least < 0 else None


def _terms(term: Any) -> int:
    """Terms of a product of powers of symbols, once each symbol has become a sum of two."""
    return math.prod(int(power) + 1 for power in term.as_powers_dict().values() if power.is_Integer)


def shown(value: Extent) -> str:
    """A number or an expression as the notation has it: ``64*m*n+1``."""
    return str(value).replace(" ", "").replace("**", "^")
