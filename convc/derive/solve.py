"""The numbers that a schedule chooses, solved for: each is the limit of what its nest asks for, and no more.

A condition of a nest is linear in the number that is looked for: a*x + b >= 0, where a is a product of sizes and b has
no x. So the least x is -(b // a), at which the condition has b mod a to spare, which is not negative; one less, and it
lacks a - b mod a. Where a nest asks for one of several conditions the easiest counts, and of all that it asks for the
hardest (`convc.derived.solved` puts numbers in).

The conditions are those of the rewrites, which make them of the nest's reads (`convc.derive.streams`), and a few that
the nest says itself: the last column of a buffer, the rows that lanes multiply, the outputs that need no padding.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sympy import Add, Expr, S, Symbol

from convc.derive import streams
from convc.derive import symbols as z
from convc.derive.algebra import expanded, normal
from convc.derive.nests import Nest
from convc.derive.streams import FIRST_Q, LAST, LAST_Q, reads
from convc.derive.symbols import FloorDiv, Mod, axis
from convc.derive.theorem import Bound, Condition, Either, Refused, Theorem, at_most, below, proved

GREATEST = (LAST, LAST_Q, z.USEFUL, z.lead)
ORDER = (z.BUFFERS, z.TAPS, LAST, z.HALO, FIRST_Q, LAST_Q, z.WINDOWS, z.USEFUL, z.lead, z.Y, z.T, z.TILES, z.TILES_M)
"""The numbers that are chosen; what a condition asks for is solved for the last of those that it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A bound that is solved for a number.

    Attributes:
        least: whether it says how small the number may be, or else how large.
        value: the smallest or largest that meets the bound.
        theorem: that it does, and that the next one does not.
    """

    least: bool
    value: Expr
    theorem: Theorem


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A condition solved for a number: one of some limits; None: a bound without the number, which holds or not."""

    condition: Condition
    limits: tuple[Limit | None, ...]

    @property
    def least(self) -> bool:
        """Whether it says how small the number may be."""
        return any(each is not None and each.least for each in self.limits)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The bounds, one of which has to hold."""
        return bounds_of(self.condition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """A number that a schedule chooses.

    Attributes:
        symbol: which.
        greatest: whether the largest that is legal is taken, and not the smallest.
        demands: what the nest asks for.
        needed: theorems that a kernel is wrong if one of them is broken.
    """

    symbol: Symbol
    greatest: bool
    demands: tuple[Demand, ...]
    needed: tuple[Theorem, ...]

    @property
    def theorems(self) -> tuple[Theorem, ...]:
        """Of its limits, and that they are needed."""
        limits = (limit.theorem for demand in self.demands for limit in demand.limits if limit is not None)
        return (*dict.fromkeys(limits), *self.needed)


def bounds_of(condition: Condition) -> tuple[Bound, ...]:
    """The bounds of a condition, one of which has to hold."""
    return condition.bounds if isinstance(condition, Either) else (condition,)


@functools.cache
def limit(bound: Bound, symbol: Symbol) -> Limit | None:
    """A bound solved for a number; None where it does not read it. `Refused` where it is no multiple of the number."""
    room = expanded(bound.room)
    rest = room.xreplace({symbol: S.Zero})
    slope = Add(*(term / symbol for term in Add.make_args(expanded(room - rest))))
    if slope == 0:
        return None
    least = slope.as_coeff_Mul()[0] > 0
    by = slope if least else -slope
    if isinstance(slope, Add) or slope.has(symbol) or not by.is_positive:
        raise Refused(f"solve {bound} for {symbol}", f"it is not {symbol} times a product of sizes")
    value = normal(-FloorDiv(rest, by) if least else FloorDiv(rest, by))
    further = axis("i")
    sign = 1 if least else -1
    meets, breaks = (room.xreplace({symbol: value + sign * by_}) for by_ in (further, -1 - further))
    spare = Mod(rest, by)
    says = [(meets, spare + by * further), (breaks, spare - by - by * further)]
    words = f"{symbol} {'>=' if least else '<='} {value}"
    return Limit(least=least, value=value, theorem=proved(f"{bound} is {words}", says))


def solved(nest: Nest) -> tuple[Solved, ...]:
    """Every number that is chosen for a nest whose loads serve several columns of the filter; of another none."""
    if nest.move is None and (nest.read is None or not nest.read.has(z.tap)):
        return ()
    asked: dict[Symbol, list[Condition]] = {symbol: [] for symbol in ORDER}
    for condition in (*nest.conditions, *_said(nest)):
        read = set[Symbol]().union(*((each.low.free_symbols | each.high.free_symbols) for each in bounds_of(condition)))
        last = next((symbol for symbol in reversed(ORDER) if symbol in read), None)
        if last is not None:
            asked[last].append(condition)
    why = _needed(nest, asked)
    return tuple(_solved(symbol, conditions, why.get(symbol, ())) for symbol, conditions in asked.items() if conditions)


def _solved(symbol: Symbol, conditions: Iterable[Condition], needed: tuple[Theorem, ...]) -> Solved:
    greatest = symbol in GREATEST
    demands = tuple(_demand(condition, symbol) for condition in conditions)
    if all(each.least == greatest for each in demands):
        raise Refused(f"solve for {symbol}", f"nothing says how {'large' if greatest else 'small'} it may be")
    return Solved(symbol=symbol, greatest=greatest, demands=demands, needed=needed)


def _demand(condition: Condition, symbol: Symbol) -> Demand:
    found = Demand(condition=condition, limits=tuple(limit(bound, symbol) for bound in bounds_of(condition)))
    if len({each.least for each in found.limits if each is not None}) > 1:
        raise Refused(f"solve {condition} for {symbol}", "it is small enough or large enough")
    return found


def _said(nest: Nest) -> tuple[Bound, ...]:
    """What a nest says besides the conditions of its rewrites, of LAST, HALO, FIRST_Q and LAST_Q."""
    turn = reads(nest, "solve").turn
    columns = next((each for each in nest.guard if each.low == nest.space["s"]), None)
    if columns is None:
        raise Refused("solve", "no guard says where the columns of the filter end")
    need = _needed_pixel(nest)
    return (
        below(columns.low.xreplace({z.tap: LAST}), columns.high, "the last column of a buffer"),
        at_most(turn.xreplace({z.tap: LAST}), z.HALO, "every row that a lane multiplies is loaded"),
        at_most(0, need.xreplace({z.q: FIRST_Q}), "no column in front of it needs a pixel"),
        below(need.xreplace({z.q: LAST_Q}), z.W, "no column behind it needs a pixel"),
        below(LAST_Q, z.Q, "it is an output column"),
    )


def _needed_pixel(nest: Nest) -> Expr:
    """The pixel along W that output column q needs, at column s of the filter."""
    return nest.pixel()["w"].xreplace({nest.space["q"]: z.q, nest.space["s"]: z.s})


def _needed(nest: Nest, asked: Mapping[Symbol, Iterable[Condition]]) -> dict[Symbol, tuple[Theorem, ...]]:
    """Why each number must be no smaller, or no larger."""
    found = reads(nest, "solve")
    last, halo, first_q, last_q, _ = _said(nest)
    left = [each for each in asked[z.lead] if isinstance(each, Either)]
    right, *following = (each for each in asked[z.T] if isinstance(each, Either))
    why = {
        z.BUFFERS: streams.buffers_needed(),
        LAST: streams.last_needed(nest, last),
        z.HALO: streams.halo_needed(nest, found, halo),
        LAST_Q: streams.inside_needed(_needed_pixel(nest), first_q, last_q),
        z.USEFUL: streams.useful_needed(),
        z.lead: (theorem for each in left for theorem in streams.lead_needed(found, each)),
        z.Y: streams.image_rows_needed(),
        z.T: streams.period_needed(found, right, following[0] if following else None),
    }
    for outer in (z.TAPS, z.WINDOWS, z.TILES, z.TILES_M):
        cuts = [each for each in asked[outer] if isinstance(each, Bound) and each.high.has(outer)]
        why[outer] = iter([theorem for cut in cuts for theorem in streams.reach_needed(cut, outer)])
    return {symbol: tuple(theorems) for symbol, theorems in why.items()}
