"""Statements that hold for all sizes: equations and bounds, under conditions from which alone their facts are made."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sympy import Add, Expr, Integer, Mul, Pow, Symbol

from convc.derive.algebra import expanded, normal, not_negative, same
from convc.derive.symbols import AXES, FloorDiv, Mod, whole

TRIES = 4000
"""Points at which a statement that is not shown is tried out."""


@dataclass(frozen=True, slots=True)
class Equal:
    """Two expressions are the same number."""

    left: Expr
    right: Expr

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"

    def shown(self, facts: Mapping[Symbol, Expr]) -> bool:
        """Whether it is shown, where these facts are put in."""
        return same(self.left, self.right, facts)

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it is so for these numbers."""
        return value(self.left, values) == value(self.right, values)


@dataclass(frozen=True, slots=True)
class Bound:
    """One number is below another (strict), or not above it.

    Attributes:
        words: what it is called in the schedule, where a problem can break it.
    """

    low: Expr
    high: Expr
    strict: bool = False
    words: str = ""

    @property
    def room(self) -> Expr:
        """The number that the bound says is not negative."""
        return self.high - self.low - int(self.strict)

    def __str__(self) -> str:
        return f"{self.low} {'<' if self.strict else '<='} {self.high}"

    def shown(self, facts: Mapping[Symbol, Expr]) -> bool:
        """Whether it is shown, where these facts are put in."""
        axes = {symbol: expr for symbol, expr in facts.items() if symbol.name in AXES}  # no divisor has one
        return not_negative(normal(self.room.xreplace(axes), facts), facts)

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it is so for these numbers."""
        return value(self.room, values) >= 0


@dataclass(frozen=True, slots=True)
class Either:
    """One of several bounds holds.

    Attributes:
        words: what it is called in the schedule.
    """

    bounds: tuple[Bound, ...]
    words: str = ""

    def __str__(self) -> str:
        return " or ".join(map(str, self.bounds))

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it is so for these numbers."""
        return any(each.holds(values) for each in self.bounds)


Statement = Equal | Bound
Condition = Bound | Either
"""What a problem has to meet."""


def at_most(low: Expr | int, high: Expr | int, words: str = "") -> Bound:
    """``low <= high``."""
    return Bound(whole(low), whole(high), words=words)


def below(low: Expr | int, high: Expr | int, words: str = "") -> Bound:
    """``low < high``."""
    return Bound(whole(low), whole(high), strict=True, words=words)


class Refused(Exception):
    """A rewrite that is not right: its name, what does not hold, and where, if a point was found."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


@dataclass(frozen=True, slots=True)
class Theorem:
    """Statements that hold for all whole numbers under `given`; made by `proved` alone.

    Attributes:
        name: what it says, in words.
        says: the statements.
        given: conditions on sizes and axes.
    """

    name: str
    says: tuple[Statement, ...]
    given: tuple[Bound, ...] = ()

    @property
    def facts(self) -> dict[Symbol, Expr]:
        """The conditions as substitutions."""
        return facts_of(self.given)

    def proof(self) -> list[str]:
        """The steps, a line each: what the conditions make of symbols, and what both sides come to."""
        facts = self.facts
        axes = {symbol: expr for symbol, expr in facts.items() if symbol.name in AXES}
        lines = [f"put {symbol} = {expr}" for symbol, expr in facts.items()]
        for each in self.says:
            if isinstance(each, Bound):
                left = normal(normal(each.room.xreplace(axes), facts).xreplace(facts), facts)
                lines.append(f"{each.high} less {each.low} is {left} more than needed, no term of which is negative")
            elif each.left != each.right:
                lines.append(f"{each.left} and {each.right} are both {normal(each.right, facts)}")
        return lines or ["both sides are the same expression"]


def proved(name: str, says: Iterable[Statement | tuple[Expr, Expr]], given: Iterable[Bound] = ()) -> Theorem:
    """A theorem.

    Args:
        name: what it says, in words.
        says: statements; a pair is an equation.
        given: conditions.

    Raises:
        Refused: a statement is not shown; with a point at which it fails, where one is found.
    """
    statements = tuple(Equal(whole(each[0]), whole(each[1])) if isinstance(each, tuple) else each for each in says)
    return _proved(name, statements, tuple(given))


@functools.lru_cache(maxsize=1024)
def _proved(name: str, says: tuple[Statement, ...], given: tuple[Bound, ...]) -> Theorem:
    """The theorem; forms have most of theirs in common."""
    theorem = Theorem(name, says, given)
    facts = theorem.facts
    for statement in says:
        if not statement.shown(facts):
            raise Refused(name, _why_not(statement, given, facts))
    return theorem


def facts_of(given: Iterable[Bound]) -> dict[Symbol, Expr]:
    """Substitutions that make conditions true, one of each: low <= high is high = low + slack, for some slack >= 0.

    Whatever meets the conditions is what the substitutions give for some slacks, so what is shown of these is shown of
    all of it. That a symbol in whose place others are put was not negative is forgotten, which loses proofs only.
    """
    facts: dict[Symbol, Expr] = {}
    for number, condition in enumerate(given):
        room = expanded(condition.room.xreplace(facts))
        slack = Symbol(f"i{number}", integer=True, nonnegative=True)
        symbol, sign = _solved_for(room, condition.high.free_symbols)
        if symbol is None:
            continue  # no fact is made of it
        found = expanded(symbol - sign * (room - slack))
        facts = {name: expanded(expr.xreplace({symbol: found})) for name, expr in facts.items()}
        facts[symbol] = found
    return facts


def _solved_for(room: Expr, upper: set[Symbol]) -> tuple[Symbol | None, int]:
    """The symbol to put others in place of, and its sign: a size of the upper side if there is one."""
    terms = Add.make_args(room)
    found: list[tuple[bool, bool, str, Symbol, int]] = []
    for term in terms:
        sign = -1 if term.could_extract_minus_sign() else 1
        symbol = sign * term
        if isinstance(symbol, Symbol) and all(symbol not in each.free_symbols for each in terms if each != term):
            found.append((sign < 0 or symbol not in upper, symbol.name in AXES, symbol.name, symbol, sign))
    best = min(found, default=None, key=lambda each: each[:3])
    return (None, 1) if best is None else best[3:]


def value(expr: Expr, values: Mapping[str, int]) -> int:
    """An expression as a number."""
    match expr:
        case Integer():
            return int(expr)
        case Symbol():
            return values[expr.name]
        case FloorDiv():
            return value(expr.dividend, values) // value(expr.divisor, values)
        case Mod():
            return value(expr.dividend, values) % value(expr.divisor, values)
        case Pow():
            return value(expr.base, values) ** value(expr.exp, values)
        case Add() | Mul():
            result, *others = (value(each, values) for each in expr.args)
            for other in others:
                result = result + other if isinstance(expr, Add) else result * other
            return result
        case _:
            raise TypeError(f"{expr!r} is no index expression")


def _why_not(statement: Statement, given: tuple[Bound, ...], facts: Mapping[Symbol, Expr]) -> str:
    """Why a statement is not taken: a point where it fails, or what is left of it."""
    point = counterexample(statement, given)
    if point is None:
        left = statement.room if isinstance(statement, Bound) else statement.left - statement.right
        return f"not shown: {statement}; what is left is {normal(left, facts)}"
    at = ", ".join(f"{name} = {number}" for name, number in point.items())
    one, two = (value(side, point) for side in _sides(statement))
    bound = "<" if isinstance(statement, Bound) and statement.strict else "<="
    relation = "=" if isinstance(statement, Equal) else bound
    return f"{statement} fails at {at}: {one} {relation} {two} is false"


def counterexample(statement: Statement, given: Iterable[Bound] = ()) -> dict[str, int] | None:
    """A point that meets the conditions and breaks the statement, with small numbers; None where none is found."""
    given = tuple(given)
    sides = [side for each in (statement, *given) for side in _sides(each)]
    symbols = sorted(set[Symbol]().union(*(side.free_symbols for side in sides)), key=str)
    drawn = random.Random(0)
    for attempt in range(TRIES):
        largest = 2 + attempt * 6 // TRIES
        point = {x.name: drawn.randint(1 if x.is_positive else 0, largest) for x in symbols}
        if all(each.holds(point) for each in given) and not statement.holds(point):
            return point
    return None


def _sides(statement: Statement) -> tuple[Expr, Expr]:
    if isinstance(statement, Bound):
        return statement.low, statement.high
    return statement.left, statement.right
