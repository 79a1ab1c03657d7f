"""Index maps: functions from named integer axes to named integers, with the condition under which they speak.

A map such as ``(tile_m, lane) -> (n, p, q) where tile_m*128 + lane < M`` says which output pixel a lane of a
tile works on. Maps can be evaluated on numpy arrays, and answer questions about the values they take. An answer is
a `Proof` with the reason, or a `Counterexample` with the point that breaks the claim. Nothing is guessed: bounds come
from interval arithmetic (exact for affine expressions) and, where that is not tight enough, from isl, which decides
such questions exactly (`convc.compiler.index.presburger`).

A guard is a conjunction of ``a < b`` and ``a <= b``; outside of it a map says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from convc.compiler.index.presburger import find
from convc.ir import expr as intexpr
from convc.ir.expr import Const, Interval, IntExpr, Less


class Axis(msgspec.Struct, frozen=True, gc=False):
    """A named run of integers ``0, 1, ...``.

    Attributes:
        name: an identifier.
        extent: how many integers, at least 1.

    Raises:
        ValueError: the extent is not positive.
    """

    name: str
    extent: int

    def __post_init__(self) -> None:
        if self.extent < 1:
            raise ValueError(f"axis {self.name} needs an extent of at least 1, got {self.extent}")

    @property
    def range(self) -> Interval:
        """(lowest, highest) value."""
        return 0, self.extent - 1


class Guard(msgspec.Struct, frozen=True, gc=False):
    """A condition: ``low < high`` where it is strict, else ``low <= high``."""

    low: IntExpr
    high: IntExpr
    strict: bool

    @property
    def condition(self) -> Less:
        """The condition as an expression."""
        return Less(self.low if self.strict else self.low - 1, self.high)  # a <= b is a - 1 < b

    def __str__(self) -> str:
        return f"{self.low} {'<' if self.strict else '<='} {self.high}"


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


class IndexMap(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A function from axes to named integers.

    Attributes:
        name: for people.
        domain: the axes it runs over, outermost first.
        results: (name, expression in the variables that the axes are), in order.
        guard: conditions that all hold wherever the map means anything.
        dropped: (condition, reason) of each that the extents of the axes make true.

    Raises:
        ValueError: where an expression reads a variable that is no axis, or a name occurs twice.
    """

    name: str
    domain: tuple[Axis, ...]
    results: tuple[tuple[str, IntExpr], ...]
    guard: tuple[Guard, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for names in ([axis.name for axis in self.domain], [name for name, _ in self.results]):
            if len(set(names)) < len(names):
                raise ValueError(f"map {self.name!r} has a name twice: {', '.join(names)}")
        read: set[str] = set()
        for expr in (*(expr for _, expr in self.results), *self.conditions):
            read |= expr.variables()
        foreign = read - {axis.name for axis in self.domain}
        if foreign:
            raise ValueError(f"map {self.name!r} uses {', '.join(sorted(foreign))}, which is no axis of its domain")

    @property
    def ranges(self) -> dict[str, Interval]:
        """(lowest, highest) of each axis."""
        return {axis.name: axis.range for axis in self.domain}

    def __getitem__(self, name: str) -> IntExpr:
        """The expression of one result; KeyError where there is none of that name."""
        return dict(self.results)[name]

    @property
    def conditions(self) -> tuple[Less, ...]:
        """The guard as expressions."""
        return tuple(each.condition for each in self.guard)

    def lines(self) -> list[str]:
        """The map for people: name, axes with extents, results, and the conditions under which it holds."""
        axes = ", ".join(f"{axis.name} < {axis.extent}" for axis in self.domain)
        lines = [f"{self.name}({axes}) -> {', '.join(name for name, _ in self.results)}"]
        lines += [f"    {name} = {expr}" for name, expr in self.results]
        return lines + [f"    where {each}" for each in self.guard]

    def evaluate(self, points: Mapping[str, int | np.ndarray]) -> dict[str, int | np.ndarray]:
        """The results at points of the domain: ints, or integer arrays that broadcast together.

        The guard is not asked (see `holds`). A result that depends on no array is an int.
        """
        values = {name: _signed(value) for name, value in points.items()}
        return {name: intexpr.evaluate(expr, values) for name, expr in self.results}

    def holds(self, points: Mapping[str, int | np.ndarray]) -> bool | np.ndarray:
        """Whether the guard holds at points of the domain."""
        values = {name: _signed(value) for name, value in points.items()}
        result: bool | np.ndarray = True
        for condition in self.conditions:
            result = result & intexpr.evaluate(condition, values)
        return result

    def prove_in(self, extents: Mapping[str, Interval], claim: str = "") -> Outcome:
        """Whether the results named in ``extents`` stay within (lowest, highest) where the guard holds."""
        limits = " and ".join(f"{name} in {low}..{high}" for name, (low, high) in extents.items())
        claim = claim or f"{self.name}: {limits}"
        known = _known(self)
        reasons: list[str] = []
        for name, (low, high) in extents.items():
            found = intexpr.bounds(self[name], self.ranges, known)
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
        result = self[name]
        guard = self.conditions
        low, high = limits
        used = result.variables().union(*(condition.variables() for condition in guard))
        ranges = {axis.name: axis.range for axis in self.domain if axis.name in used}
        point = find(ranges, guard, (Less(result, Const(low)), Less(Const(high), result)))
        if point is None:
            return Proof(claim, f"{name} stays in {low}..{high} for all {', '.join(ranges) or 'points'}")
        return Counterexample(claim, tuple(point.items()), f"{name} = {intexpr.evaluate(result, point)}")


def needed_guards(
    guard: Iterable[Guard], ranges: Mapping[str, Interval]
) -> tuple[tuple[Guard, ...], tuple[tuple[str, str], ...]]:
    """The conditions that the ranges of variables do not make true, and (condition, reason) for each other one.

    This is how a store loses its guard where the tiles of M end with M.
    """
    kept: list[Guard] = []
    dropped: list[tuple[str, str]] = []
    for condition in guard:
        _, most = intexpr.bounds(condition.low, ranges)
        least, _ = intexpr.bounds(condition.high, ranges)
        if most < least or (not condition.strict and most == least):
            reasons = [] if isinstance(condition.low, Const) else [f"the left side is at most {most}"]
            reasons += [] if isinstance(condition.high, Const) else [f"the right side is at least {least}"]
            dropped.append((str(condition), " and ".join(reasons) or "constants"))
        else:
            kept.append(condition)
    return tuple(kept), tuple(dropped)


def _known(index_map: IndexMap) -> dict[IntExpr, Interval]:
    """Intervals of whole expressions that the guard gives: ``a < 5`` and ``0 <= a`` put a within 0..4."""
    known: dict[IntExpr, Interval] = {}
    for condition in index_map.guard:
        for expr, other, upper in ((condition.low, condition.high, True), (condition.high, condition.low, False)):
            if isinstance(expr, Const) or not isinstance(other, Const):
                continue
            limit = other.value
            low, high = known.get(expr) or intexpr.bounds(expr, index_map.ranges)
            strict = condition.strict
            known[expr] = (low, min(high, limit - strict)) if upper else (max(low, limit + strict), high)
    return known


def _signed(value: int | np.ndarray) -> int | np.ndarray:
    return value if isinstance(value, int) else np.asarray(value, dtype=np.int64)
