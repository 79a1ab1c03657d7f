"""Claims about index expressions, decided exactly.

Axes with extents, sums, products with constants, and division and remainder by constants: statements about these are
statements of Presburger arithmetic, which is decidable, and the library isl decides them (S. Verdoolaege, *isl: An
Integer Set Library for the Polyhedral Model*, ICMS 2010). It reasons about the extents as numbers, so that a claim
about an image of 40000x40000 pixels takes as long as one about 56x56. Every question here is one of three:

    find     the least point of a box at which conditions hold
    clash    two points that have the same results
    missed   a point whose results no other point has

"Least" is in the order of the axes, so that an answer does not depend on how isl found it. isl counts what it does;
beyond `OPERATIONS` it gives up, and so does the question, with an error that names it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import islpy as isl

from convc.errors import PlanError
from convc.ir.expr import Add, And, Const, FloorDiv, Interval, IntExpr, Less, Mod, Mul, Var

OPERATIONS = 1_000_000
"""Steps that isl may take for one question (about a second); those about real kernels take less than a tenth."""

Ranges = Mapping[str, Interval]
Point = dict[str, int]

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


def differ(ranges: Ranges, conditions: Sequence[IntExpr], a: IntExpr, b: IntExpr) -> Point | None:
    """The least point at which all conditions hold and two expressions are different numbers; or None."""
    return find(ranges, conditions, (Less(a, b), Less(b, a)))


def clash(ranges: Ranges, conditions: Sequence[IntExpr], results: Sequence[IntExpr]) -> tuple[Point, Point] | None:
    """The least point whose results a lesser point has too, and the least such one; None where all results differ.

    Args:
        ranges, conditions: the points, as of `find`.
        results: expressions in the axes.

    Raises:
        ValueError, PlanError: as of `find`.
    """

    def answer() -> tuple[Point, Point] | None:
        box = _Box(isl.Context(), ranges)
        points = box.where(conditions)
        results_of = box.function(results).intersect_domain(points)
        if results_of.is_injective():
            return None
        same = results_of.apply_range(results_of.reverse())
        later = same.intersect(isl.Map.lex_gt(box.space))
        point = later.domain().lexmin()
        return box.read(point), box.read(point.apply(later).lexmin())

    return _bounded(answer)


def missed(
    wanted: Ranges,
    wanted_results: Sequence[IntExpr],
    ranges: Ranges,
    conditions: Sequence[IntExpr],
    results: Sequence[IntExpr],
) -> Point | None:
    """The least point of the box ``wanted`` whose results no point of another box has; None where there is none.

    Args:
        wanted, wanted_results: the points in question, and expressions in their axes.
        ranges, conditions, results: the points that have results, as of `clash`.

    Raises:
        ValueError, PlanError: as of `find`.
    """

    def answer() -> Point | None:
        ctx = isl.Context()
        box = _Box(ctx, wanted)
        other = _Box(ctx, ranges)
        found = other.function(results).intersect_domain(other.where(conditions)).range()
        sought = box.function(wanted_results).intersect_domain(box.points)
        return box.least(sought.subtract_range(found).domain())

    return _bounded(answer)


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
        for name, (low, high) in ranges.items():
            least = Const(low - 1)
            most = Const(high + 1)
            self.points = self.points.intersect(self.holds(And((Less(least, Var(name)), Less(Var(name), most)))))

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

    def function(self, results: Sequence[IntExpr]) -> isl.Map:
        """The results as a function of all points, inside and outside of the box."""
        whole = isl.Map.universe(isl.Space.alloc(self.ctx, 0, len(self.axes), 0))
        for result in results:
            whole = whole.flat_range_product(isl.Map.from_aff(self.value(result)))
        return whole

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
