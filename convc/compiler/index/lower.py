"""Where sympy ends: an index expression becomes an integer expression.

The translation is one to one, node for node, and it is also how expressions are evaluated and bounded
everywhere in this room: there is one evaluator and one interval arithmetic, those of `convc.ir.expr`. What
comes out is independent of sympy's internal order (terms of a sum are sorted, largest coefficient first), so
that generated text is reproducible.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import sympy
from sympy.core.relational import Relational

from convc.compiler.index.symbols import FloorDiv, Mod, linear_terms
from convc.ir import expr as intexpr
from convc.ir.expr import Const, Interval, IntExpr, Var


@lru_cache(maxsize=4096)
def translate(expr: sympy.Expr | Relational) -> IntExpr:
    """The integer expression of an index expression, or the condition of a guard (``<`` and ``<=``).

    ValueError where the expression holds anything but integers, symbols, ``+``, ``*``, `FloorDiv` and `Mod`.
    """
    if isinstance(expr, Relational):
        return _condition(expr)
    if expr.is_Integer:
        return Const(int(expr))
    if isinstance(expr, sympy.Symbol):
        return Var(expr.name)
    if isinstance(expr, FloorDiv):
        return intexpr.FloorDiv(translate(expr.args[0]), translate(expr.args[1]))
    if isinstance(expr, Mod):
        return intexpr.Mod(translate(expr.args[0]), translate(expr.args[1]))
    if expr.is_Add or expr.is_Mul:
        constant, terms = linear_terms(expr)
        if expr.is_Mul and not constant and len(terms) == 1:
            coefficient, rest = terms[0]
            factors = sorted(rest.args, key=sympy.default_sort_key) if rest.is_Mul else [rest]
            return intexpr.mul(*map(translate, factors), coefficient)
        parts = [(coefficient, translate(rest)) for coefficient, rest in terms]
        parts.sort(key=lambda part: (-part[0], str(part[1])))
        return intexpr.add(*(intexpr.mul(node, coefficient) for coefficient, node in parts), constant)
    raise ValueError(f"{expr} ({type(expr).__name__}) is not part of the index algebra")


def _condition(guard: Relational) -> IntExpr:
    """A guard as a condition: a <= b is a - 1 < b on integers."""
    if isinstance(guard, sympy.StrictLessThan):
        return intexpr.Less(translate(guard.lhs), translate(guard.rhs))
    if isinstance(guard, sympy.LessThan):
        return intexpr.Less(translate(guard.lhs) - 1, translate(guard.rhs))
    raise ValueError(f"{guard} ({type(guard).__name__}) is not part of the index algebra")


def lower(expr: sympy.Expr, ranges: Mapping[str, Interval]) -> IntExpr:
    """The integer expression of a finished index expression.

    Args:
        ranges: (lowest, highest) of each variable that the user of the expression will supply.

    Raises:
        ValueError: where the expression reads a variable without a range, or is not an index expression.
    """
    lowered = translate(expr)
    missing = sorted(lowered.variables() - ranges.keys())
    if missing:
        raise ValueError(f"{expr} reads {', '.join(missing)}, which nobody supplies (there are: {', '.join(ranges)})")
    return lowered
