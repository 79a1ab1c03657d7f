"""Claims about index expressions, decided exactly.

Axes with extents, sums, products with constants, and division and remainder by constants: statements about these are
statements of Presburger arithmetic, which is decidable, and the library isl decides them (S. Verdoolaege, *isl: An
Integer Set Library for the Polyhedral Model*, ICMS 2010). It reasons about the extents as numbers, so that a claim
about an image of 40000x40000 pixels takes as long as one about 56x56. Every question here is one of two:

    find     the least point of a box at which conditions hold
    apart    the first of some pairs of numbers that are not the same everywhere

"Least" is in the order of the axes, so that an answer does not depend on how isl found it. isl counts what it does;
beyond `OPERATIONS` it gives up, and so does the question, with an error that names it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import islpy as isl

from convc.errors import PlanError
from convc.ir.expr import Add, And, Const, FloorDiv, Interval, IntExpr, Less, Mod, Mul, Select, Var, bounds

OPERATIONS = 1_000_000
"""Steps that isl may take for one question (about a second); those about real kernels take less than a tenth."""

Ranges = Mapping[str, Interval]
Point = dict[str, int]

Piecewise = isl.Aff | isl.PwAff
"""An expression as a function: one formula for all points, or several of them, each for its own."""

T = TypeVar("T")


def find(ranges: Ranges, conditions: Sequence[IntExpr], either: Sequence[IntExpr] = ()) -> Point | None:
    """The least point at which all conditions hold, and at least one of ``either`` if there are any; or None.

    Args:
        ranges: (lowest, highest) of every axis, most significant first.

    Raises:
        ValueError: an expression is not linear in the axes and in quotients by constants, or reads another variable.
        PlanError: the question takes more than `OPERATIONS` steps.
    """

    def answer() -> Point | None:
        box = _Box(isl.Context(), ranges)
        found = box.where(conditions)
        if either:
            found = found.intersect(box.any_of(either))
        return box.least(found)

    return _bounded(answer)


def apart(ranges: Ranges, pairs: Sequence[tuple[IntExpr, IntExpr]]) -> tuple[int, Point] | None:
    """The first pair whose expressions are different numbers somewhere: its place, and the least such point; or None.

    Args:
        ranges: as of `find`.
        pairs: expressions; `convc.ir.expr.Select` may stand at the top of one, and in its branches.

    Raises:
        ValueError, PlanError: as of `find`.
    """

    def answer() -> tuple[int, Point] | None:
        box = _Box(isl.Context(), ranges)
        for number, (a, b) in enumerate(pairs):
            if not box.alike(a, b):
                found = box.points.intersect(_pieces(box.piecewise(a)).ne_set(_pieces(box.piecewise(b))))
                if not found.is_empty():
                    return number, box.read(found.lexmin())
        return None

    return _bounded(answer)


def _pieces(a: Piecewise) -> isl.PwAff:
    return isl.PwAff.from_aff(a) if isinstance(a, isl.Aff) else a


def _conditions(condition: IntExpr) -> tuple[Less, ...]:
    if isinstance(condition, Less):
        return (condition,)
    if not isinstance(condition, And):
        raise ValueError(f"{condition} is not a condition")
    return tuple(found for each in condition.args for found in _conditions(each))


def _bounded(answer: Callable[[], T]) -> T:
    """An answer, or PlanError where it takes too long."""
    try:
        return answer()
    except isl.Error as error:
        if "maximal number of operations" not in str(error):
            raise
        raise PlanError(f"a claim about the index maps takes isl more than {OPERATIONS} steps to decide") from None


class _Box:
    """A box of integer points, and the sets and functions on it."""

    def __init__(self, ctx: isl.Context, ranges: Ranges) -> None:
        ctx.set_max_operations(OPERATIONS)
        self.ctx = ctx
        self.ranges = ranges
        self.space = isl.Space.set_alloc(ctx, 0, len(ranges))
        self.axes: dict[str, isl.Aff] = {
            name: isl.Aff.var_on_domain(isl.LocalSpace.from_space(self.space), isl.dim_type.set, position)
            for position, name in enumerate(ranges)
        }
        self.points = isl.Set.universe(self.space)
        for position, (low, high) in enumerate(ranges.values()):
            self.points = self.points.lower_bound_val(isl.dim_type.set, position, self._number(low))
            self.points = self.points.upper_bound_val(isl.dim_type.set, position, self._number(high))

    def where(self, conditions: Sequence[IntExpr]) -> isl.Set:
        """The points at which all conditions hold."""
        found = self.points
        for condition in conditions:
            found = found.intersect(self.holds(condition))
        return found

    def any_of(self, conditions: Sequence[IntExpr]) -> isl.Set:
        """The points, inside and outside of the box, at which one of the conditions holds."""
        found = isl.Set.empty(self.space)
        for condition in conditions:
            found = found.union(self.holds(condition))
        return found

    def holds(self, condition: IntExpr) -> isl.Set:
        """The points, inside and outside of the box, at which a condition holds."""
        match condition:
            case Less(a, b):
                return self.value(a).lt_set(self.value(b))
            case And(args):
                found = isl.Set.universe(self.space)
                for arg in args:
                    found = found.intersect(self.holds(arg))
                return found
            case _:
                raise ValueError(f"{condition} is not a condition")

    def value(self, expr: IntExpr) -> isl.Aff:
        """An expression as a quasi-affine function."""
        match expr:
            case Const(value):
                return isl.Aff.val_on_domain_space(self.space, self._number(value))
            case Var(name) if name in self.axes:
                return self.axes[name]
            case Add(args):
                return functools.reduce(isl.Aff.add, map(self.value, args))
            case Mul((*factors, Const(value))) if len(factors) == 1:  # `convc.ir.expr.mul` puts the constant last
                return self.value(factors[0]).scale_val(self._number(value))
            case FloorDiv(a, Const(b)) if b > 0:
                return self.value(a).scale_down_val(self._number(b)).floor()
            case Mod(a, Const(b)) if b > 0:
                return self.value(a).mod_val(self._number(b))
            case _:
                raise ValueError(f"{expr} is not quasi-affine in {', '.join(self.axes)}")

    def alike(self, a: IntExpr, b: IntExpr) -> bool:
        """Whether two expressions are shown to be the same number, part by part.

        To compare them whole, with all conditions that they select by, is exact and takes a hundred times as long.
        """
        a, b = self._selected(a), self._selected(b)
        if a == b:
            return True
        if isinstance(a, Select) and isinstance(b, Select):
            return self._hold_alike(a.cond, b.cond) and self.alike(a.a, b.a) and self.alike(a.b, b.b)
        if isinstance(a, Select) or isinstance(b, Select):
            return False
        return self.points.intersect(self.value(a).ne_set(self.value(b))).is_empty()

    def _selected(self, expr: IntExpr) -> IntExpr:
        """An expression without conditions that the extents of the axes make true."""
        if not isinstance(expr, Select):
            return expr
        left = tuple(each for each in _conditions(expr.cond) if not self._always(each))
        return Select(And(left), expr.a, expr.b) if left else self._selected(expr.a)

    def _always(self, condition: Less) -> bool:
        return bounds(condition.a, self.ranges)[1] < bounds(condition.b, self.ranges)[0]

    def _hold_alike(self, a: IntExpr, b: IntExpr) -> bool:
        """Whether two conditions are shown to hold at the same points: comparison by comparison."""
        ones, others = (
            [each for each in _conditions(one) if each not in _conditions(two)] for one, two in ((a, b), (b, a))
        )
        if len(ones) == len(others):
            return all(self.alike(x.a, y.a) and self.alike(x.b, y.b) for x, y in zip(ones, others, strict=True))
        return self._implies(a, others) and self._implies(b, ones)

    def _implies(self, condition: IntExpr, others: Sequence[Less]) -> bool:
        """Whether some comparisons hold wherever a condition does."""
        held = self.where((condition,))
        return all(held.intersect(self.value(x.a).ge_set(self.value(x.b))).is_empty() for x in others)

    def piecewise(self, expr: IntExpr) -> Piecewise:
        """An expression that may select among others, as a function."""
        if not isinstance(expr, Select):
            return self.value(expr)
        held = self.holds(expr.cond).indicator_function()
        return held.cond(_pieces(self.piecewise(expr.a)), _pieces(self.piecewise(expr.b)))

    def least(self, points: isl.Set) -> Point | None:
        """The least of some points; None where there are none."""
        return None if points.is_empty() else self.read(points.lexmin())

    def read(self, point: isl.Set) -> Point:
        """The numbers of the one point of a set."""
        values = point.sample_point()
        return {
            name: values.get_coordinate_val(isl.dim_type.set, position).get_num_si()
            for position, name in enumerate(self.axes)
        }

    def _number(self, value: int) -> isl.Val:
        """A number of any size: isl takes those beyond 64 bits as digits."""
        if -(2**63) <= value < 2**63:
            return isl.Val.int_from_si(self.ctx, value)
        return isl.Val.read_from_str(self.ctx, str(value))
