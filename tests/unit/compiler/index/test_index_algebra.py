"""FloorDiv, Mod and every rewrite on them, against plain Python integers (negative ones too)."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some
from sympy import Integer

import convc.compiler.index
from convc.compiler.index.algebra import bounds, digits, equal, normal_form, simplify
from convc.compiler.index.lower import lower, translate
from convc.compiler.index.symbols import Axis, FloorDiv, Mod
from convc.ir.expr import evaluate

AXES = {"x": Axis("x", 40), "y": Axis("y", 7), "z": Axis("z", 31, first=-15)}
SYMBOLS = {name: axis.symbol for name, axis in AXES.items()}
RANGES = {name: axis.range for name, axis in AXES.items()}

# A recipe is built twice: as a sympy expression, and as a number by Python's own integers.
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
    assert expr.subs({SYMBOLS[name]: value for name, value in env.items()}) == expected


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
    expr = _symbolic(recipe)
    own = np.broadcast_to(evaluate(lower(expr, RANGES), env), 20)
    function = sympy.lambdify(
        list(SYMBOLS.values()), expr, modules=[{"FloorDiv": np.floor_divide, "Mod": np.remainder}, "numpy"]
    )
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


def test_no_file_of_the_room_uses_sympys_floor_or_parses_text():
    banned = {"floor", "ceiling", "sympify", "parse_expr", "lambdify", "simplify"}
    for path in Path(convc.compiler.index.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sympy":
                assert node.attr not in banned | {"Mod"}, f"{path.name}:{node.lineno}: sympy.{node.attr}"
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "sympy":
                assert not banned & {alias.name for alias in node.names}, f"{path.name}:{node.lineno}"


def test_divisors_are_positive_constants():
    for divisor in (0, -3, y):
        for function in (FloorDiv, Mod):
            with pytest.raises(ValueError, match="a divisor is a positive constant, got"):
                function(x, divisor)


def test_fractions_are_refused():
    with pytest.raises(ValueError, match="has the coefficient 1/2; index expressions have whole ones"):
        FloorDiv(x / 2 + y, 3)


@pytest.mark.parametrize("name", ["", "1x", "a b", "__import__('os')", "x;y", "é"])
def test_axis_names_are_identifiers(name):
    with pytest.raises(ValueError, match="an axis name is an identifier"):
        Axis(name, 3)


def test_axes_have_values():
    with pytest.raises(ValueError, match="axis x needs an extent of at least 1, got 0"):
        Axis("x", 0)
    assert Axis("w", 5, first=-2).range == (-2, 2)
    assert Axis("w", 5).symbol.is_nonnegative
    assert Axis("w", 5, first=-2).symbol.is_nonnegative is None


def test_digits_recognise_counting():
    ranges = {"x": (0, 39), "y": (0, 6), "z": (0, 0)}
    a, b, c = (Axis(name, 9).symbol for name in "xyz")
    assert digits(7 * a + b, ranges) == ((1, "y", 7), (7, "x", 40))
    assert digits(7 * a + b + 5 * c, ranges) == ((1, "y", 7), (7, "x", 40))  # z is always 0
    assert digits(8 * a + b, ranges) is None  # gaps
    assert digits(6 * a + b, ranges) is None  # some values twice
    assert digits(7 * a + b + 1, ranges) is None  # does not start at 0
    assert digits(Mod(a, 7), ranges) is None
    assert digits(b, {"y": (1, 6)}) is None


def test_lowering_is_one_to_one_and_ordered():
    expr = lower(Mod(FloorDiv(x + 128 * y - 3, 56), 7) * 2 - 1, RANGES)
    assert str(expr) == "(((y*128 + x - 3) // 56) % 7)*2 - 1"
    assert str(lower(x * y * 3, RANGES)) == "x*y*3"
    with pytest.raises(ValueError, match=r"reads y, which nobody supplies \(there are: x\)"):
        lower(x + y, {"x": (0, 5)})
    with pytest.raises(ValueError, match=r"floor\(x/2\).* is not part of the index algebra"):
        translate(sympy.floor(x / 2))
    with pytest.raises(ValueError, match="is not part of the index algebra"):
        translate(x**2)
