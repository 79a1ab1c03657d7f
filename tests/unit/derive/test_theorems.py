"""Theorems hold at random points within their conditions; what is not so is refused, with numbers."""

from __future__ import annotations

import random

import pytest
from support.examples import PARTS

from convc.derive import symbols as z
from convc.derive.algebra import expanded, normal
from convc.derive.changes import changes
from convc.derive.columns import layouts
from convc.derive.forms import forms
from convc.derive.hosted import hosted
from convc.derive.results import facts
from convc.derive.solve import solved
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Refused, at_most, below, facts_of, proved, value


def theorems():
    found = {}
    for form in forms():
        for theorem in (*form.nest.theorems, *form.theorems):
            found.setdefault((theorem.name, theorem.says), theorem)
    for change in changes():
        for theorem in change.step.theorems:
            found.setdefault((theorem.name, theorem.says), theorem)
    for fact in (*facts(), *layouts(), *hosted()):
        for theorem in fact.theorems:
            found.setdefault((theorem.name, theorem.says), theorem)
    for theorem in (theorem for form in forms() for number in solved(form.nest) for theorem in number.theorems):
        found.setdefault((theorem.name, theorem.says), theorem)
    return list(found.values())


THEOREMS = theorems()
POINTS = 300


def point(drawn, symbols, largest):
    return {x.name: drawn.randint(1 if x.is_positive else 0, largest) for x in symbols}


def symbols_of(*statements):
    return sorted(set().union(*(side.free_symbols for each in statements for side in sides(each))), key=str)


def sides(statement):
    return (statement.low, statement.high) if hasattr(statement, "low") else (statement.left, statement.right)


def test_there_are_many_theorems():
    assert len(THEOREMS) > 60
    assert len({theorem.name for theorem in THEOREMS}) > 40


def drawn_within(drawn, theorem, largest):
    """A point that meets the conditions of a theorem, by way of its facts; None where a symbol becomes too small."""
    facts = theorem.facts
    read = set(symbols_of(*theorem.says, *theorem.given)).union(*(expr.free_symbols for expr in facts.values()))
    at = point(drawn, sorted(read - set(facts), key=str), largest)
    at |= {symbol.name: value(expr, at) for symbol, expr in facts.items()}
    fits = all(at[symbol.name] >= (1 if symbol.is_positive else 0) for symbol in facts)
    return at if fits else None


@pytest.mark.one_of(2)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("number", range(len(THEOREMS)))
def test_a_theorem_holds_wherever_its_conditions_do(number, part):
    """Points are tried until enough of them meet the conditions."""
    theorem = THEOREMS[number]
    drawn = random.Random(number)
    met = 0
    for attempt in range(POINTS):
        if met == POINTS // part:
            break
        at = drawn_within(drawn, theorem, 2 + attempt % 9)
        if at is not None:
            met += 1
            assert all(each.holds(at) for each in theorem.given), (theorem.name, at)
            assert all(each.holds(at) for each in theorem.says), (theorem.name, at)
    assert met >= 10, f"{theorem.name}: conditions that are hardly ever met"


x, y = z.axis("x"), z.axis("y")
j = z.tap * z.d
BROKEN = {
    "stride for dilation": ([(z.u_w * (z.q + z.d) + z.d_w * z.s, z.u_w * z.q + z.d_w * (z.s + z.d))], []),
    "a step too many": ([(z.u_w * (z.q + z.d + 1) + z.d_w * z.s, z.u_w * z.q + z.d_w * (z.s + z.u))], []),
    "a digit without its range": ([(FloorDiv(y * z.T + x, z.T), y)], []),
    "a period one too short": ([(Mod(y * z.T + x, z.T), x)], [at_most(x, z.T)]),
    "a quotient of a sum in two": ([(FloorDiv(x + y, z.T), FloorDiv(x, z.T) + FloorDiv(y, z.T))], []),
    "a remainder past its end": ([(Mod(y * z.T + x + 1, z.T), x + 1)], [below(x, z.T)]),
    "tap with rows and columns exchanged": ([(FloorDiv(z.s * z.S + z.r, z.S), z.r)], [below(z.s, z.S)]),
    "rows of K and not of its pitch": ([(FloorDiv(z.m * z.K + z.k, z.K_PITCH), z.m)], [below(z.k, z.K_PITCH)]),
    "a place before the row": ([(FloorDiv(z.q + j - z.lead, z.T), 0 * x)], [below(z.q + j - z.lead, z.T)]),
    "a bound the wrong way": ([below(z.q, z.lead)], [below(z.lead, z.q)]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_so_is_refused_with_a_point_where_it_fails(name):
    says, given = BROKEN[name]
    with pytest.raises(Refused, match=r"fails at \w+ = \d+.* is false"):
        proved(name, says, given)


def test_what_is_so_and_not_shown_is_refused_too():
    """The algebra shows less than there is to show: it has no rule for this one, and says what is left."""
    with pytest.raises(Refused, match=r"not shown: .* what is left is"):
        proved("one of two neighbours is even", [(2 * FloorDiv(x * (x + 1), 2), x * (x + 1))])


def test_a_proof_is_written_in_a_few_lines():
    theorem = proved("digits", [(FloorDiv(y * z.T + x, z.T), y), (Mod(y * z.T + x, z.T), x)], [below(x, z.T)])
    assert theorem.proof() == [
        "put T = i0 + x + 1",
        "(T*y + x) // T and y are both y",
        "(T*y + x) % T and x are both x",
    ]


def random_expression(drawn, depth=3):
    if depth == 0 or drawn.random() < 0.2:
        return drawn.choice([x, y, z.q, z.lead, drawn.randint(-4, 4) * x])
    one, two = random_expression(drawn, depth - 1), random_expression(drawn, depth - 1)
    divisor = drawn.choice([z.T, z.Y, z.T * z.Y, 2 * z.T, 3 + 0 * z.T])
    return drawn.choice(
        [one + two, one - two, z.g * one, FloorDiv(one, divisor), Mod(one, divisor), 3 * one + z.T * two]
    )


@pytest.mark.parametrize("part", PARTS)
def test_the_normal_form_is_the_same_number(part):
    drawn = random.Random(11)
    for _ in range(400 // part):
        expr = random_expression(drawn)
        shown, spelt = normal(expr), expanded(expr)
        for _ in range(10):
            at = point(drawn, expr.free_symbols | shown.free_symbols, 7)
            assert value(shown, at) == value(expr, at) == value(spelt, at), (expr, shown, at)


@pytest.mark.parametrize("part", PARTS)
def test_the_normal_form_under_conditions_is_the_same_number_where_they_hold(part):
    drawn = random.Random(12)
    given = [below(x, z.T), at_most(z.lead, y)]
    facts = facts_of(given)
    for _ in range(400 // part):
        expr = random_expression(drawn)
        shown = normal(expr, facts)
        for _ in range(30):
            at = point(drawn, {x, y, z.q, z.lead, z.T, z.Y, z.g}, 7)
            if all(each.holds(at) for each in given):
                assert value(shown, at) == value(expr, at), (expr, shown, at)
