"""Every rule that makes expressions smaller, against plain Python integers (negative ones too)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.compiler.index.maps import Axis
from convc.compiler.index.smaller import smaller, tidy
from convc.ir.expr import Add, Const, FloorDiv, Less, Mod, Mul, Var, bounds, evaluate, floor_div, mod, subterms

RANGES = {"x": (0, 39), "y": (0, 6), "z": (-15, 15)}
VARIABLES = {name: Var(name) for name in RANGES}

# A recipe is built three times: as an expression that nobody has made smaller, as one of sympy's, and as a number.
leaves = st.integers(-60, 60) | st.sampled_from(sorted(RANGES))
divisors = st.sampled_from([1, 2, 3, 4, 6, 7, 8, 12, 16, 49, 56, 64, 112])


def _grow(inner):
    return (
        st.tuples(st.just("+"), inner, inner)
        | st.tuples(st.just("*"), inner, st.sampled_from([-7, -1, 2, 3, 8, 16, 49, 64]))
        | st.tuples(st.just("//"), inner, divisors)
        | st.tuples(st.just("%"), inner, divisors)
    )


recipes = st.recursive(leaves, _grow, max_leaves=9)
within = st.fixed_dictionaries({name: st.integers(*each) for name, each in RANGES.items()})
anywhere = st.fixed_dictionaries({name: st.integers(-10_000, 10_000) for name in RANGES})


def _symbolic(recipe):
    match recipe:
        case int():
            return Const(recipe)
        case str():
            return VARIABLES[recipe]
        case ("+", a, b):
            return Add((_symbolic(a), _symbolic(b)))
        case ("*", a, factor):
            return Mul((_symbolic(a), Const(factor)))
        case ("//", a, divisor):
            return FloorDiv(_symbolic(a), Const(divisor))
        case ("%", a, divisor):
            return Mod(_symbolic(a), Const(divisor))


def _in_sympy(recipe):
    """With functions that sympy knows nothing of."""
    match recipe:
        case int():
            return sympy.Integer(recipe)
        case str():
            return sympy.Symbol(recipe)
        case ("+", a, b):
            return _in_sympy(a) + _in_sympy(b)
        case ("*", a, factor):
            return _in_sympy(a) * factor
        case (sign, a, divisor):
            return sympy.Function({"//": "FloorDiv", "%": "Mod"}[sign])(sympy.expand(_in_sympy(a)), divisor)


def _number(recipe, env):
    match recipe:
        case int():
            return recipe
        case str():
            return env[recipe]
        case ("+", a, b):
            return _number(a, env) + _number(b, env)
        case ("*", a, factor):
            return _number(a, env) * factor
        case ("//", a, divisor):
            return _number(a, env) // divisor
        case ("%", a, divisor):
            return _number(a, env) % divisor


@given(recipes, anywhere)
@settings(max_examples=some(200))
def test_rules_without_ranges_hold_for_all_integers(recipe, env):
    found = tidy(_symbolic(recipe))
    assert evaluate(found, env) == _number(recipe, env)
    assert tidy(found) == found


@given(recipes, within)
@settings(max_examples=some(200))
def test_rules_with_ranges_hold_inside_the_ranges(recipe, env):
    expected = _number(recipe, env)
    found = smaller(_symbolic(recipe), RANGES)
    low, high = bounds(found, RANGES)
    assert low <= expected <= high
    assert evaluate(found, env) == expected


linear = st.recursive(leaves, lambda inner: _grow(inner).filter(lambda made: made[0] in "+*"), max_leaves=12)


@given(linear)
@settings(max_examples=some(200))
def test_sums_are_those_of_sympy(recipe):
    """Constant and coefficients, exactly."""
    found = sympy.Poly(_in_sympy(recipe), *map(sympy.Symbol, VARIABLES)).as_dict()
    wanted = {name: int(found.pop(tuple(name == other for other in VARIABLES), 0)) for name in VARIABLES}
    constant = int(found.pop((0, 0, 0), 0))
    assert not found
    expr = tidy(_symbolic(recipe))
    terms = expr.args if isinstance(expr, Add) else (expr,)
    assert {type(term) for term in terms} <= {Const, Var, Mul}
    assert len(terms) == max(1, sum(map(bool, (constant, *wanted.values()))))
    at_zero = dict.fromkeys(VARIABLES, 0)
    assert evaluate(expr, at_zero) == constant
    assert {name: evaluate(expr, {**at_zero, name: 1}) - constant for name in VARIABLES} == wanted


@given(recipes, recipes, st.sampled_from([1, -1, 3]))
@settings(max_examples=some(100))
def test_what_sympy_shows_to_be_equal_is_one_expression(left, right, factor):
    """Without a word about what the two functions mean: sums of the same quotients, however they were made."""
    one = ("+", ("*", left, factor), ("+", right, ("*", left, 7)))
    two = ("+", ("*", left, factor + 7), right)
    assert sympy.expand(_in_sympy(one) - _in_sympy(two)) == 0
    assert tidy(_symbolic(one)) == tidy(_symbolic(two))


@pytest.mark.parametrize("outer", [FloorDiv, Mod])
@pytest.mark.parametrize("inner", [FloorDiv, Mod])
def test_rules_on_two_levels_hold_for_every_pair_of_divisors(outer, inner):
    values = np.arange(-60, 61)
    number = {FloorDiv: np.floor_divide, Mod: np.remainder}
    for a in range(1, 13):
        for b in range(1, 13):
            for expr, plain in ((x, values), (x * 6 + 4, 6 * values + 4)):
                found = evaluate(tidy(outer(inner(expr, Const(a)), Const(b))), {"x": values})
                expected = number[outer](number[inner](plain, a), b)
                assert np.array_equal(np.broadcast_to(found, 121), expected), (expr, a, b)


def test_radix_rules_hold_for_every_coefficient():
    ranges = {**RANGES, "s": (8, 12)}
    s = Var("s")
    env = {"x": np.arange(40)[:, None, None], "y": np.arange(7)[:, None], "s": np.arange(8, 13)}
    for factor in range(1, 10):
        for divisor in range(1, 28):
            for expr in (x * factor + y, x * factor + s, x * factor + y - 3):
                for function, number in ((FloorDiv, np.floor_divide), (Mod, np.remainder)):
                    found = evaluate(smaller(function(expr, Const(divisor)), ranges), env)
                    expected = number(evaluate(expr, env), divisor)
                    assert np.array_equal(*np.broadcast_arrays(found, expected)), (function, expr, divisor)
    assert smaller(s % 7, {"s": (8, 12)}) == s - 7


x, y, z = VARIABLES.values()


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (FloorDiv(x, Const(1)), x),
        (FloorDiv(Const(0), Const(9)), Const(0)),
        (FloorDiv(Const(-1), Const(7)), Const(-1)),
        (x // 7 // 8, x // 56),
        ((x * 64 + 5) // 64, x),
        ((x * 128 + 3) // 112, (x * 8) // 7),
        (x % 7 // 8, Const(0)),
        (Mod(x, Const(1)), Const(0)),
        (Mod(Const(-1), Const(7)), Const(6)),
        ((x * 64 + y) % 64, y % 64),
        (x % 56 % 7, x % 7),
        (x % 7 % 56, x % 7),
        ((x * 128 + 3) % 112, (x * 8 % 7) * 16 + 3),
    ],
)
def test_rules_by_example(expr, expected):
    assert tidy(expr) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (y // 7, Const(0)),
        (y % 7, y),
        ((y + 14) % 7, y),
        ((x * 7 + y) // 7, x),
        ((x * 7 + y) % 14, (x % 2) * 7 + y),
        ((x * 7 + y) // 21, x // 3),
        (((x + y) // 3) * 3 + (x + y) % 3, x + y),
        (((x // 35) * 5 + x // 7 % 5) * 7 + x % 7, x),
    ],
)
def test_what_is_smaller_by_example(expr, expected):
    assert smaller(expr, RANGES) == expected


def test_digits_that_join_again_are_their_number():
    for rows in (1, 3, 7, 12, 56, 64):
        for columns in (1, 6, 7, 16, 64, 256, 512):
            m = x * 128 + y
            digits = Add((Mul((floor_div(m, rows * columns), Const(rows))), mod(floor_div(m, columns), rows)))
            joined = Mul((digits, Const(columns))) + mod(m, columns)
            assert smaller(joined, RANGES) == m


def test_division_is_exact_where_floating_point_is_not():
    assert math.floor(49 * (1 / 49)) == 0  # what a division turned into a multiplication makes of 49 // 49
    values = np.arange(20_000)
    for divisor in range(1, 257):
        quotient, rest = (tidy(made(Var("m"), Const(divisor))) for made in (FloorDiv, Mod))
        assert np.array_equal(evaluate(quotient, {"m": values}), values // divisor)
        assert np.array_equal(np.broadcast_to(evaluate(rest, {"m": values}), 20_000), values % divisor)


@pytest.mark.parametrize("expr", [x * y, FloorDiv(x, y), Mod(x + 1, y), Less(x, y)])
def test_what_is_no_such_sum_is_refused(expr):
    with pytest.raises(ValueError, match="is no sum of whole numbers times variables and quotients"):
        smaller(expr + 1, RANGES)


def test_terms_have_one_order():
    assert str(tidy((((x + y * 128) - 3) // 56 % 7) * 2 - 1)) == "(((y*128 + x - 3) // 56) % 7)*2 - 1"
    assert str(tidy(Const(5) + z + x * -3 + y)) == "y + z - x*3 + 5"


def test_nothing_to_divide_is_left_alone():
    assert [
        node for node in subterms(smaller((x * 7 + y) // 7 + y % 7, RANGES)) if isinstance(node, FloorDiv | Mod)
    ] == []


def test_axes_have_values():
    with pytest.raises(ValueError, match="axis x needs an extent of at least 1, got 0"):
        Axis("x", 0)
    assert Axis("w", 5).range == (0, 4)
