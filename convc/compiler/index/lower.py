"""Where the algebra ends: an index expression becomes an integer expression.

The translation is one to one, node for node, and it is also how expressions are evaluated and bounded
everywhere in this room: there is one evaluator and one interval arithmetic, those of `convc.ir.expr`. What
comes out does not depend on the order in which an expression was made (terms of a sum are sorted, largest coefficient
first), so that generated text is reproducible.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from convc.compiler.index.linear import Expr, Guard, Integer, Sum, Symbol
from convc.compiler.index.symbols import FloorDiv, Mod
from convc.ir import expr as intexpr
from convc.ir.expr import Const, Interval, IntExpr, Var


@lru_cache(maxsize=4096)
def translate(expr: Expr | Guard) -> IntExpr:
    """The integer expression of an index expression, or the condition of a guard (``<`` and ``<=``)."""
    match expr:
        case Guard():
            left = translate(expr.lhs)
            return intexpr.Less(left if expr.strict else left - 1, translate(expr.rhs))  # a <= b is a - 1 < b
        case Integer():
            return Const(expr.value)
        case Symbol():
            return Var(expr.name)
        case FloorDiv():
            return intexpr.FloorDiv(translate(expr.dividend), Const(expr.divisor))
        case Mod():
            return intexpr.Mod(translate(expr.dividend), Const(expr.divisor))
        case Sum():
            parts = [(coefficient, translate(atom)) for atom, coefficient in expr.terms.items()]
            parts.sort(key=lambda part: (-part[0], str(part[1])))
            return intexpr.add(*(intexpr.mul(node, coefficient) for coefficient, node in parts), expr.constant)
        case _:
            raise TypeError(f"{expr!r} is no index expression")


def lower(expr: Expr, ranges: Mapping[str, Interval]) -> IntExpr:
    """The integer expression of a finished index expression.

    Args:
        ranges: (lowest, highest) of each variable that the user of the expression will supply.

    Raises:
        ValueError: where the expression reads a variable without a range.
    """
    lowered = translate(expr)
    missing = sorted(lowered.variables() - ranges.keys())
    if missing:
        raise ValueError(f"{expr} reads {', '.join(missing)}, which nobody supplies (there are: {', '.join(ranges)})")
    return lowered
