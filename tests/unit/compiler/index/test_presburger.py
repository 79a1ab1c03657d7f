"""Questions about integer points: the solver's answers against trying every point."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.compiler.index import presburger
from convc.compiler.index.presburger import find
from convc.errors import PlanError
from convc.ir.expr import And, Const, Less, Mul, Var, evaluate, floor_div, mod

X, Y = Var("x"), Var("y")


@st.composite
def expressions(draw, depth=3):
    """An index expression in x and y, as maps have them."""
    if depth == 0:
        return draw(st.sampled_from([X, Y, X + Y, X * 5 + Y]))
    inner = draw(expressions(depth=depth - 1))
    match draw(st.integers(0, 4)):
        case 0:
            return inner * draw(st.integers(-4, 9)) + draw(st.integers(-6, 6))
        case 1:
            return inner + draw(expressions(depth=depth - 1))
        case 2:
            return floor_div(inner, draw(st.integers(1, 9)))
        case _:
            return mod(inner, draw(st.integers(1, 9)))


@st.composite
def boxes(draw):
    """Ranges of x and y, a few hundred points at most."""
    low = draw(st.integers(-3, 3)), draw(st.integers(-3, 3))
    return {name: (first, first + draw(st.integers(0, 14))) for name, first in zip("xy", low, strict=True)}


def points(ranges, conditions=()):
    """Every point at which the conditions hold, least first."""
    axes = [range(low, high + 1) for low, high in ranges.values()]
    for values in itertools.product(*axes):
        point = dict(zip(ranges, values, strict=True))
        if all(evaluate(condition, point) for condition in conditions):
            yield point


@given(boxes(), expressions(), expressions(), st.integers(-20, 60))
@settings(max_examples=some(300), deadline=None)
def test_find_is_the_first_point_that_a_search_meets(ranges, a, b, limit):
    conditions = (Less(a, b), Less(b, Const(limit)))
    assert find(ranges, conditions) == next(points(ranges, conditions), None)
    either = (Less(b, a), Less(Const(limit), a))
    expected = next((p for p in points(ranges, conditions[1:]) if any(evaluate(e, p) for e in either)), None)
    assert find(ranges, conditions[1:], either) == expected


def test_a_box_of_one_point_and_numbers_beyond_64_bits():
    assert find({}, (Less(Const(1), Const(2)),)) == {}
    assert find({}, (Less(Const(2), Const(1)),)) is None
    assert find({"x": (0, 9)}, (Less(Const(7 * 2**80), X * 2**80),)) == {"x": 8}


def test_extents_cost_nothing():
    ranges = {"x": (0, 10**9), "y": (0, 10**9)}
    assert find(ranges, (), (Less(((X * 40000 + Y % 40000) // 40000), X),)) is None
    assert find(ranges, (And((Less(Const(10**9 - 1), X), Less(Const(0), Y % 2))),)) == {"x": 10**9, "y": 1}


@pytest.mark.parametrize(
    "expr", [Mul((X, Y)), floor_div(X, Y), mod(X, Y), Var("z"), Less(X, Y)], ids=["x*y", "x // y", "x % y", "z", "<"]
)
def test_what_is_not_quasi_affine_is_refused(expr):
    with pytest.raises(ValueError, match="is not quasi-affine in x, y"):
        find({"x": (0, 3), "y": (1, 3)}, (Less(expr, Const(1)),))
    with pytest.raises(ValueError, match="x is not a condition"):
        find({"x": (0, 3)}, (X,))


def test_a_question_that_takes_too_long_is_an_error(monkeypatch):
    monkeypatch.setattr(presburger, "OPERATIONS", 50)
    with pytest.raises(PlanError, match="takes isl more than 50 steps to decide"):
        find({"x": (0, 10**6)}, (Less(X // 7 * 3 % 11, X // 5 % 13),))
