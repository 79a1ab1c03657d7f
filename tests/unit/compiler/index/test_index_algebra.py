"""FloorDiv, Mod and every rewrite on them, against plain Python integers (negative ones too)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.compiler.index.algebra import bounds, equal, normal_form, simplify
from convc.compiler.index.linear import Integer, expression
from convc.compiler.index.lower import lower, translate
from convc.compiler.index.maps import at_most
from convc.compiler.index.symbols import Axis, FloorDiv, Mod
from convc.ir.expr import evaluate

AXES = {"x": Axis("x", 40), "y": Axis("y", 7), "z": Axis("z", 31, first=-15)}
SYMBOLS = {name: axis.symbol for name, axis in AXES.items()}
RANGES = {name: axis.range for name, axis in AXES.items()}

# A recipe is built three times: as an expression, as one of sympy's, and as a number by Python's own integers.
leaves = st.integers(-60, 60) | st.sampled_from(sorted(AXES))
divisors = st.sampled_from([1, 2, 3, 4, 6, 7, 8, 12, 16, 49, 56, 64, 112])


def _grow(inner):
    return (
        st.tuples(st.just("+"), inner, inner)
        | st.tuples(st.just("*"), inner, st.sampled_from([-7, -1, 2, 3, 8, 16, 49, 64]))
        | st.tuples(st.just("//"), inner, divisors)
        | st.tuples(st.just("%"), inner, divisors)
    )


recipes = st.recursive(leaves, _grow, max_leaves=9)
within = st.fixed_dictionaries({name: st.integers(*axis.range) for name, axis in AXES.items()})
anywhere = st.fixed_dictionaries({name: st.integers(-10_000, 10_000) for name in AXES})


def _symbolic(recipe):
    match recipe:
        case int():
            return Integer(recipe)
        case str():
            return SYMBOLS[recipe]
        case ("+", a, b):
            return _symbolic(a) + _symbolic(b)
        case ("*", a, factor):
            return _symbolic(a) * factor
        case ("//", a, divisor):
            return FloorDiv(_symbolic(a), Integer(divisor))
        case ("%", a, divisor):
            return Mod(_symbolic(a), Integer(divisor))


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
    expected = _number(recipe, env)
    expr = _symbolic(recipe)
    assert evaluate(translate(expr), env) == expected
    assert evaluate(translate(normal_form(expr)), env) == expected
    assert expr.xreplace({SYMBOLS[name]: Integer(value) for name, value in env.items()}) == expected


linear = st.recursive(leaves, lambda inner: _grow(inner).filter(lambda made: made[0] in "+*"), max_leaves=12)


@given(linear)
@settings(max_examples=some(200))
def test_sums_are_those_of_sympy(recipe):
    """Constant and coefficients, exactly: so two sums are equal records where sympy finds no difference."""
    found = sympy.Poly(_in_sympy(recipe), *map(sympy.Symbol, SYMBOLS)).as_dict()
    terms = {symbol: int(found.pop(tuple(name == other for other in SYMBOLS), 0)) for name, symbol in SYMBOLS.items()}
    constant = int(found.pop((0, 0, 0), 0))
    assert not found
    assert _symbolic(recipe) == expression(constant, terms)


@given(recipes, recipes, st.sampled_from([1, -1, 3]))
@settings(max_examples=some(100))
def test_what_sympy_shows_to_be_equal_is_equal(left, right, factor):
    """Without a word about what the two functions mean: sums of the same quotients, however they were made."""
    one = ("+", ("*", left, factor), ("+", right, ("*", left, 7)))
    two = ("+", ("*", left, factor + 7), right)
    assert sympy.expand(_in_sympy(one) - _in_sympy(two)) == 0
    assert _symbolic(one) == _symbolic(two)
    assert hash(_symbolic(one)) == hash(_symbolic(two))
    assert equal(_symbolic(one), _symbolic(two))
    assert _symbolic(one) - _symbolic(two) == 0


@pytest.mark.parametrize("outer", [FloorDiv, Mod])
@pytest.mark.parametrize("inner", [FloorDiv, Mod])
def test_rules_on_two_levels_hold_for_every_pair_of_divisors(outer, inner):
    values = np.arange(-60, 61)
    number = {FloorDiv: np.floor_divide, Mod: np.remainder}
    for a in range(1, 13):
        for b in range(1, 13):
            for expr, plain in ((x, values), (6 * x + 4, 6 * values + 4)):
                found = evaluate(translate(outer(inner(expr, a), b)), {"x": values})
                expected = number[outer](number[inner](plain, a), b)
                assert np.array_equal(np.broadcast_to(found, 121), expected), (expr, a, b)


def test_radix_rules_hold_for_every_coefficient():
    shifted = Axis("s", 5, first=8)
    ranges = {**RANGES, "s": shifted.range}
    env = {"x": np.arange(40)[:, None, None], "y": np.arange(7)[:, None], "s": np.arange(8, 13)}
    for factor in range(1, 10):
        for divisor in range(1, 28):
            for expr in (factor * x + y, factor * x + shifted.symbol, factor * x + y - 3):
                for function, number in ((FloorDiv, np.floor_divide), (Mod, np.remainder)):
                    found = evaluate(translate(simplify(function(expr, divisor), ranges)), env)
                    expected = number(evaluate(translate(expr), env), divisor)
                    assert np.array_equal(*np.broadcast_arrays(found, expected)), (function, expr, divisor)
    assert simplify(Mod(shifted.symbol, 7), {"s": (8, 12)}) == shifted.symbol - 7


@given(recipes, within)
@settings(max_examples=some(200))
def test_rules_with_ranges_hold_inside_the_ranges(recipe, env):
    expr = _symbolic(recipe)
    expected = _number(recipe, env)
    low, high = bounds(expr, RANGES)
    assert low <= expected <= high
    assert evaluate(translate(simplify(expr, RANGES)), env) == expected


@given(recipes, recipes, anywhere)
@settings(max_examples=some(60))
def test_equal_is_never_wrong(left, right, env):
    a, b = _symbolic(left), _symbolic(right)
    if equal(a, b):
        assert _number(left, env) == _number(right, env)


@given(recipes)
@settings(max_examples=some(60))
def test_lowering_agrees_with_sympy_on_arrays(recipe):
    rng = np.random.default_rng(5)
    env = {name: rng.integers(axis.range[0], axis.range[1] + 1, 20) for name, axis in AXES.items()}
    own = np.broadcast_to(evaluate(lower(_symbolic(recipe), RANGES), env), 20)
    numpy = {"FloorDiv": np.floor_divide, "Mod": np.remainder}
    function = sympy.lambdify(list(map(sympy.Symbol, SYMBOLS)), _in_sympy(recipe), modules=[numpy, "numpy"])
    assert own.tolist() == np.broadcast_to(function(*(env[name] for name in SYMBOLS)), 20).tolist()


x, y, z = SYMBOLS.values()


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (FloorDiv(x, 1), x),
        (FloorDiv(0, 9), 0),
        (FloorDiv(-1, 7), -1),
        (FloorDiv(FloorDiv(x, 7), 8), FloorDiv(x, 56)),
        (FloorDiv(64 * x + 5, 64), x),
        (FloorDiv(128 * x + 3, 112), FloorDiv(8 * x, 7)),
        (FloorDiv(Mod(x, 7), 8), 0),
        (Mod(x, 1), 0),
        (Mod(-1, 7), 6),
        (Mod(64 * x + y, 64), Mod(y, 64)),
        (Mod(Mod(x, 56), 7), Mod(x, 7)),
        (Mod(Mod(x, 7), 56), Mod(x, 7)),
        (Mod(128 * x + 3, 112), 16 * Mod(8 * x, 7) + 3),
    ],
)
def test_rules_by_example(expr, expected):
    assert expr == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (FloorDiv(y, 7), 0),
        (Mod(y, 7), y),
        (Mod(y + 14, 7), y),
        (FloorDiv(7 * x + y, 7), x),
        (Mod(7 * x + y, 14), 7 * Mod(x, 2) + y),
        (FloorDiv(7 * x + y, 21), FloorDiv(x, 3)),
        (3 * FloorDiv(x + y, 3) + Mod(x + y, 3), x + y),
        ((FloorDiv(x, 35) * 5 + Mod(FloorDiv(x, 7), 5)) * 7 + Mod(x, 7), x),
    ],
)
def test_simplification_by_example(expr, expected):
    assert simplify(expr, RANGES) == expected


def test_equality_sees_through_digits_that_join_again():
    for rows in (1, 3, 7, 12, 56, 64):
        for columns in (1, 6, 7, 16, 64, 256, 512):
            m = 128 * x + y
            joined = (FloorDiv(m, rows * columns) * rows + Mod(FloorDiv(m, columns), rows)) * columns
            assert equal(joined + Mod(m, columns), m)
            assert not equal(joined + Mod(m, columns), m + 1)


def test_division_is_exact_where_floating_point_is_not():
    assert math.floor(49 * (1 / 49)) == 0  # what a division turned into a multiplication makes of 49 // 49
    m = Axis("m", 20_000)
    values = np.arange(20_000)
    for divisor in range(1, 257):
        quotient, rest = FloorDiv(m.symbol, divisor), Mod(m.symbol, divisor)
        assert np.array_equal(evaluate(translate(quotient), {"m": values}), values // divisor)
        assert np.array_equal(np.broadcast_to(evaluate(translate(rest), {"m": values}), 20_000), values % divisor)


def test_divisors_are_positive_constants():
    for divisor in (0, -3, y):
        for function in (FloorDiv, Mod):
            with pytest.raises(ValueError, match="a divisor is a positive constant, got"):
                function(x, divisor)


def test_products_of_symbols_are_refused():
    with pytest.raises(ValueError, match=r"\(x\)\*\(y \+ 1\) is no sum of whole numbers times symbols and quotients"):
        x * (y + 1)
    assert x * Integer(3) == Integer(3) * x == 3 * x
    with pytest.raises(TypeError):
        x / 2


def test_symbols_are_replaced_all_at_once():
    assert (x + 2 * y).xreplace({x: y, y: x}) == y + 2 * x
    assert FloorDiv(x + 5 * y, 3).free_symbols == {x, y}


def test_a_guard_that_always_holds_stays_a_guard():
    guard = at_most(0, y).xreplace({y: x})
    assert (guard.lhs, guard.rhs) == (0, x)


def test_an_expression_as_text():
    assert [str(each) for each in (-x, 2 * x - 1, x - 3 * y + 5, x - x, x - x - 4)] == [
        "-x",
        "2*x - 1",
        "x - 3*y + 5",
        "0",
        "-4",
    ]
    assert str(FloorDiv(x + 1, 3) + Mod(y, 5)) == "FloorDiv(x + 1, 3) + Mod(y, 5)"


def test_a_symbol_is_its_name_and_no_number():
    assert Axis("x", 5).symbol == Axis("x", 7, first=-2).symbol != Axis("y", 5).symbol
    with pytest.raises(TypeError, match="x is no number"):
        int(x)


@pytest.mark.parametrize("name", ["", "1x", "a b", "__import__('os')", "x;y", "é"])
def test_axis_names_are_identifiers(name):
    with pytest.raises(ValueError, match="an axis name is an identifier"):
        Axis(name, 3)


def test_axes_have_values():
    with pytest.raises(ValueError, match="axis x needs an extent of at least 1, got 0"):
        Axis("x", 0)
    assert Axis("w", 5, first=-2).range == (-2, 2)


def test_lowering_is_one_to_one_and_ordered():
    expr = lower(Mod(FloorDiv(x + 128 * y - 3, 56), 7) * 2 - 1, RANGES)
    assert str(expr) == "(((y*128 + x - 3) // 56) % 7)*2 - 1"
    with pytest.raises(ValueError, match=r"reads y, which nobody supplies \(there are: x\)"):
        lower(x + y, {"x": (0, 5)})
