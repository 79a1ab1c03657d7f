"""Index maps: functions from named integer axes to named integers, with the condition under which they speak.

A map such as ``(tile_m, lane) -> (n, p, q) where tile_m*128 + lane < M`` says which output pixel a lane of a
tile works on. Maps can be evaluated on numpy arrays, and answer questions about the values they take. An answer is
a `Proof` with the reason, or a `Counterexample` with the point that breaks the claim. Nothing is guessed: bounds come
from interval arithmetic (exact for affine expressions) and, where that is not tight enough, from isl, which decides
such questions exactly (`convc.compiler.index.presburger`).

A guard is a conjunction of ``a < b`` and ``a <= b``; outside of it a map says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from convc.compiler.index.algebra import equal, simplify, symbols_in
from convc.compiler.index.linear import Expr, Guard, Integer
from convc.compiler.index.lower import translate
from convc.compiler.index.presburger import find
from convc.compiler.index.symbols import Axis
from convc.ir import expr as intexpr
from convc.ir.expr import Const, Interval, IntExpr, Less


class Proof(msgspec.Struct, frozen=True, gc=False):
    """The claim holds; ``how`` is the reason in one line, ``theorem`` the name of the one that it is about."""

    claim: str
    how: str
    theorem: str = ""

    def __str__(self) -> str:
        return f"proved: {self.claim} [{self.reason}]"

    @property
    def reason(self) -> str:
        """Why it holds, and by which theorem."""
        return ", ".join(filter(None, (self.how, by_theorem(self.theorem))))


class Kept(Proof, frozen=True, gc=False):
    """A limit of the hardware is kept: nothing that follows from sizes, so that there is no theorem."""

    def __str__(self) -> str:
        return f"limit kept: {self.claim} [{self.how}]"


class Counterexample(msgspec.Struct, frozen=True):
    """The claim fails at this point (axis name, value), where it comes to ``value`` instead.

    Attributes:
        theorem: the name of the one that it is about.
    """

    claim: str
    point: tuple[tuple[str, int], ...]
    value: str
    theorem: str = ""

    def __str__(self) -> str:
        at = ", ".join(f"{name} = {value}" for name, value in self.point)
        return f"REFUTED: {self.claim} [{f'at {at}: ' if at else ''}{self.reason}]"

    @property
    def reason(self) -> str:
        """What it comes to, and which theorem needs it to be otherwise."""
        return ", ".join(filter(None, (self.value, by_theorem(self.theorem))))


def by_theorem(name: str) -> str:
    """Name a theorem as ``convc derive`` finds it; "" where there is none."""
    return f'theorem "{name}"' if name else ""


Outcome = Proof | Counterexample


def less(a: Expr | int, b: Expr | int) -> Guard:
    """The guard ``a < b``, kept as it is."""
    return Guard(_whole(a), _whole(b), strict=True)


def at_most(a: Expr | int, b: Expr | int) -> Guard:
    """The guard ``a <= b``, kept as it is."""
    return Guard(_whole(a), _whole(b), strict=False)


class IndexMap(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A function from axes to named integers.

    Attributes:
        name: for people.
        domain: the axes it runs over, outermost first.
        results: (name, expression in the symbols of the axes), in order.
        guard: conditions (`less`, `at_most`) that all hold wherever the map means anything.

    Raises:
        ValueError: where an expression uses a symbol that is no axis, or a name occurs twice.
    """

    name: str
    domain: tuple[Axis, ...]
    results: tuple[tuple[str, Expr], ...]
    guard: tuple[Guard, ...] = ()

    def __post_init__(self) -> None:
        for names in ([axis.name for axis in self.domain], [name for name, _ in self.results]):
            if len(set(names)) < len(names):
                raise ValueError(f"map {self.name!r} has a name twice: {', '.join(names)}")
        symbols = {axis.symbol for axis in self.domain}
        sides = (side for condition in self.guard for side in (condition.lhs, condition.rhs))
        for expr in (*(expr for _, expr in self.results), *sides):
            if not symbols_in(expr) <= symbols:
                foreign = ", ".join(sorted(map(str, symbols_in(expr) - symbols)))
                raise ValueError(f"map {self.name!r} uses {foreign}, which is no axis of its domain")

    @property
    def ranges(self) -> dict[str, Interval]:
        """(lowest, highest) of each axis."""
        return {axis.name: axis.range for axis in self.domain}

    def __getitem__(self, name: str) -> Expr:
        """The expression of one result; KeyError where there is none of that name."""
        return dict(self.results)[name]

    def simplified(self) -> IndexMap:
        """The same map, its expressions simplified for the extents of the axes (extent 1: a number)."""
        ranges = self.ranges
        single = {axis.symbol: Integer(axis.first) for axis in self.domain if axis.extent == 1}

        def smaller(expr: Expr) -> Expr:
            return simplify(expr.xreplace(single) if single else expr, ranges)

        return replace(
            self,
            results=tuple((name, smaller(expr)) for name, expr in self.results),
            guard=tuple(
                Guard(smaller(condition.lhs), smaller(condition.rhs), condition.strict) for condition in self.guard
            ),
        )

    @property
    def conditions(self) -> tuple[IntExpr, ...]:
        """The guard as integer expressions."""
        return tuple(map(translate, self.guard))

    def evaluate(self, points: Mapping[str, int | np.ndarray]) -> dict[str, int | np.ndarray]:
        """The results at points of the domain: ints, or integer arrays that broadcast together.

        The guard is not asked (see `holds`). A result that depends on no array is an int.
        """
        values = {name: _signed(value) for name, value in points.items()}
        return {name: intexpr.evaluate(translate(expr), values) for name, expr in self.results}

    def holds(self, points: Mapping[str, int | np.ndarray]) -> bool | np.ndarray:
        """Whether the guard holds at points of the domain."""
        values = {name: _signed(value) for name, value in points.items()}
        result: bool | np.ndarray = True
        for condition in self.conditions:
            result = result & intexpr.evaluate(condition, values)
        return result

    def bounds(self) -> dict[str, Interval]:
        """(lowest, highest) of each result over the axes' extents.

        Narrowed by a condition of the guard where its expression occurs in the result. Exact for affine results
        without a guard, sound always.
        """
        known = _known(self)
        return {name: intexpr.bounds(translate(expr), self.ranges, known) for name, expr in self.results}

    def prove_in(self, extents: Mapping[str, Interval], claim: str = "") -> Outcome:
        """Whether the results named in ``extents`` stay within (lowest, highest) where the guard holds."""
        limits = " and ".join(f"{name} in {low}..{high}" for name, (low, high) in extents.items())
        claim = claim or f"{self.name}: {limits}"
        known = _known(self)
        reasons: list[str] = []
        for name, (low, high) in extents.items():
            found = intexpr.bounds(translate(self[name]), self.ranges, known)
            if low <= found[0] and found[1] <= high:
                reasons.append(f"{name} in {found[0]}..{found[1]} by interval bounds")
                continue
            outcome = self._decide(name, (low, high), claim)
            if not isinstance(outcome, Proof):
                return outcome
            reasons.append(outcome.how)
        return Proof(claim, "; ".join(reasons))

    def _decide(self, name: str, limits: Interval, claim: str) -> Outcome:
        """Look for the least point at which a result leaves its limits, over the axes that matter."""
        result = translate(self[name])
        guard = self.conditions
        low, high = limits
        used = result.variables().union(*(condition.variables() for condition in guard))
        ranges = {axis.name: axis.range for axis in self.domain if axis.name in used}
        point = find(ranges, guard, (Less(result, Const(low)), Less(Const(high), result)))
        if point is None:
            return Proof(claim, f"{name} stays in {low}..{high} for all {', '.join(ranges) or 'points'}")
        return Counterexample(claim, tuple(point.items()), f"{name} = {intexpr.evaluate(result, point)}")


def prove_equal(claim: str, a: Expr, b: Expr, domain: tuple[Axis, ...]) -> Outcome:
    """Whether two expressions are the same number at every point of the domain."""
    if equal(a, b):
        return Proof(claim, "equal expressions")
    difference = IndexMap(name="difference", domain=domain, results=(("difference", a - b),))
    return difference.prove_in({"difference": (0, 0)}, claim)


class GuardReport(msgspec.Struct, frozen=True, kw_only=True):
    """A map with the conditions that remain, and (condition, reason) for each one that was dropped."""

    map: IndexMap
    dropped: tuple[tuple[str, str], ...]


def simplify_guards(index_map: IndexMap) -> GuardReport:
    """Drop every condition that the extents of the axes make true.

    This is how a store loses its guard where the tiles of M end with M.
    """
    kept: list[Guard] = []
    dropped: list[tuple[str, str]] = []
    for condition in index_map.guard:
        left = intexpr.bounds(translate(condition.lhs), index_map.ranges)
        right = intexpr.bounds(translate(condition.rhs), index_map.ranges)
        strict = condition.strict
        if left[1] < right[0] or (not strict and left[1] == right[0]):
            reasons = [] if isinstance(condition.lhs, Integer) else [f"the left side is at most {left[1]}"]
            reasons += [] if isinstance(condition.rhs, Integer) else [f"the right side is at least {right[0]}"]
            dropped.append((guard_text(condition), " and ".join(reasons) or "constants"))
        else:
            kept.append(condition)
    return GuardReport(map=replace(index_map, guard=tuple(kept)), dropped=tuple(dropped))


def guard_text(condition: Guard) -> str:
    """A condition for people."""
    relation = "<" if condition.strict else "<="
    return f"{translate(condition.lhs)} {relation} {translate(condition.rhs)}"


def _known(index_map: IndexMap) -> dict[IntExpr, Interval]:
    """Intervals of whole expressions that the guard gives: ``a < 5`` and ``0 <= a`` put a within 0..4."""
    known: dict[IntExpr, Interval] = {}
    ranges = index_map.ranges
    for condition in index_map.guard:
        strict = condition.strict
        for expr, other, upper in (
            (condition.lhs, condition.rhs, True),
            (condition.rhs, condition.lhs, False),
        ):
            if isinstance(expr, Integer) or not isinstance(other, Integer):
                continue
            node = translate(expr)
            limit = int(other)
            low, high = known.get(node) or intexpr.bounds(node, ranges)
            known[node] = (low, min(high, limit - strict)) if upper else (max(low, limit + strict), high)
    return known


def _whole(value: Expr | int) -> Expr:
    return Integer(value) if isinstance(value, int) else value


def _signed(value: int | np.ndarray) -> int | np.ndarray:
    return value if isinstance(value, int) else np.asarray(value, dtype=np.int64)
