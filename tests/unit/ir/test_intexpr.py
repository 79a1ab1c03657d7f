"""Integer expressions against plain Python: value, text, bounds, JSON."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.ir import expr as intexpr
from convc.ir.expr import (
    Add,
    And,
    Const,
    FloorDiv,
    Less,
    Mod,
    Mul,
    Select,
    Var,
    add,
    bounds,
    evaluate,
    floor_div,
    from_json,
    mod,
    mul,
    nonnegative,
    substitute,
    to_json,
)

NAMES = ("x", "y", "z")
constants = st.integers(-300, 300).map(Const)
divisors = st.integers(1, 70).map(Const)


def _grow(inner):
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    condition = st.builds(Less, inner, inner)
    conditions = condition | st.lists(condition, min_size=1, max_size=3).map(lambda args: And(tuple(args)))
    return (
        several.map(Add)
        | several.map(Mul)
        | st.builds(FloorDiv, inner, divisors)
        | st.builds(Mod, inner, divisors)
        | st.builds(Select, conditions, inner, inner)
    )


expressions = st.recursive(constants | st.sampled_from(NAMES).map(Var), _grow, max_leaves=8)
points = st.fixed_dictionaries({name: st.integers(-200, 200) for name in NAMES})


def _python(expr, env):
    """The value by a second evaluator: Python's own, from the text."""
    return eval(str(expr), {"__builtins__": {}}, dict(env))


@given(expressions, points)
def test_the_text_is_python_with_the_same_value(expr, env):
    assert evaluate(expr, env) == _python(expr, env)


@given(expressions, st.lists(points, min_size=1, max_size=5))
@settings(max_examples=some(60))
def test_arrays_give_what_ints_give(expr, envs):
    arrays = {name: np.array([env[name] for env in envs], dtype=object) for name in NAMES}
    expected = [evaluate(expr, env) for env in envs]
    assert np.broadcast_to(evaluate(expr, arrays), len(envs)).tolist() == expected


def test_numpy_int64_divides_downwards():
    x = np.arange(-20, 21)
    assert evaluate(FloorDiv(Var("x"), Const(7)), {"x": x}).tolist() == [value // 7 for value in range(-20, 21)]
    assert evaluate(Mod(Var("x"), Const(7)), {"x": x}).tolist() == [value % 7 for value in range(-20, 21)]


@given(expressions, points, st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES}))
def test_bounds_hold_every_value(expr, first, widths):
    ranges = {name: (first[name], first[name] + widths[name]) for name in NAMES}
    low, high = bounds(expr, ranges)
    corners = [{n: first[n] + (widths[n] if bits >> i & 1 else 0) for i, n in enumerate(NAMES)} for bits in range(8)]
    middle = {name: first[name] + widths[name] // 2 for name in NAMES}
    for env in (*corners, middle):
        assert low <= evaluate(expr, env) <= high


@given(st.lists(st.integers(-9, 9), min_size=3, max_size=3), st.integers(-50, 50), points)
def test_bounds_of_affine_expressions_are_reached(coefficients, constant, first):
    terms = [Mul((Var(name), Const(c))) for name, c in zip(NAMES, coefficients, strict=True)]
    expr = Add((*terms, Const(constant)))
    ranges = {name: (low, low + 3) for name, low in first.items()}
    lowest = {n: ranges[n][c < 0] for n, c in zip(NAMES, coefficients, strict=True)}
    highest = {n: ranges[n][c > 0] for n, c in zip(NAMES, coefficients, strict=True)}
    assert bounds(expr, ranges) == (evaluate(expr, lowest), evaluate(expr, highest))


def test_bounds_take_what_a_guard_knows():
    m = Add((Mul((Var("x"), Const(128))), Var("y")))
    ranges = {"x": (0, 3), "y": (0, 127)}
    assert bounds(FloorDiv(m, Const(49)), ranges) == (0, 10)
    assert bounds(FloorDiv(m, Const(49)), ranges, {m: (0, 391)}) == (0, 7)


def test_bounds_of_a_remainder_are_tight_within_one_period():
    assert bounds(Mod(Var("x"), Const(7)), {"x": (8, 10)}) == (1, 3)
    assert bounds(Mod(Var("x"), Const(7)), {"x": (0, 3)}) == (0, 3)
    assert bounds(Mod(Var("x"), Const(7)), {"x": (5, 8)}) == (0, 6)


def test_bounds_with_a_divisor_that_varies():
    ranges = {"x": (-9, 8), "y": (1, 3), "z": (4, 9)}
    assert bounds(FloorDiv(Var("x"), Var("y")), ranges) == (-9, 8)
    assert bounds(FloorDiv(Var("z"), Var("y")), ranges) == (1, 9)
    assert bounds(Mod(Var("x"), Var("y")), ranges) == (0, 2)


def test_bounds_refuse_a_divisor_that_may_be_zero():
    with pytest.raises(ValueError, match=r"the divisor in x // y may be 0; divisors are positive"):
        bounds(FloorDiv(Var("x"), Var("y")), {"x": (0, 5), "y": (0, 3)})


def test_nonnegative_says_where_unsigned_division_is_right():
    assert nonnegative(Var("x") * 8 + 3, {"x": (0, 9)})
    assert not nonnegative(Var("x") * 8 - 1, {"x": (0, 9)})
    assert nonnegative((Var("x") - 5) % 7, {"x": (0, 9)})


def test_json_is_operator_and_operands():
    expr = Select(Less(Var("x"), Const(3)), Var("x") // 2 + 1, Var("x") % 5)
    assert to_json(expr) == ["select", ["<", "x", 3], ["+", ["//", "x", 2], 1], ["%", "x", 5]]


@given(expressions)
def test_json_is_read_back(expr):
    assert from_json(to_json(expr)) == expr


@pytest.mark.parametrize(
    ("data", "message"),
    [([], "expected a number"), (["^", 1, 2], r"or a list of one of \+, \*"), ([["+"], 1], "expected a number"),
     (["//", 1], "// does not take 1 operand"), (1.5, "expected a number"), (["and", 1], "condition"),
     ("a b", "a variable's name is an identifier")],
)  # fmt: skip
def test_json_that_is_no_expression_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        from_json(data)


@given(expressions, expressions)
def test_a_substituted_variable_has_the_value_of_its_expression(expr, other):
    env = {"x": 7, "y": -3, "z": 2}
    replaced = substitute(expr, {"x": other})
    assert evaluate(replaced, env) == evaluate(expr, {**env, "x": evaluate(other, env)})


def test_building_folds_constants():
    x = Var("x")
    assert add(x, 3, add(Const(4), x)) == Add((x, x, Const(7)))
    assert add(3, -3) == Const(0)
    assert mul(x, 0) == Const(0)
    assert mul(2, x, mul(x, 3)) == Mul((x, x, Const(6)))
    assert mul(x, 1) == x
    assert floor_div(-1, 7) == Const(-1)
    assert floor_div(x, 1) == x
    assert mod(-1, 7) == Const(6)
    assert mod(x, 1) == Const(0)
    assert (x * 4 - 3) // 5 % 6 == Mod(FloorDiv(Add((Mul((x, Const(4))), Const(-3))), Const(5)), Const(6))
    with pytest.raises(ValueError, match="a divisor is positive, got -2"):
        floor_div(x, -2)


def test_text_is_readable():
    m = Var("tile_m") * 128 + Var("lane")
    assert str(m // 49) == "(tile_m*128 + lane) // 49"
    assert str(m // 7 % 7 * 2 - 3) == "(((tile_m*128 + lane) // 7) % 7)*2 - 3"
    assert str(Select(And((Less(m, Const(9)), Less(Const(-1), m))), m, Const(0))) == (
        "tile_m*128 + lane if tile_m*128 + lane < 9 and -1 < tile_m*128 + lane else 0"
    )
    assert (m // 49).variables() == {"tile_m", "lane"}


def test_nodes_check_what_they_are_made_of():
    with pytest.raises(ValueError, match="Const takes an int, got bool"):
        Const(True)
    with pytest.raises(ValueError, match="a variable's name is an identifier, got 'a b'"):
        Var("a b")


def test_the_room_needs_the_standard_library_alone():
    for path in Path(intexpr.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
        imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        outside = {name for name in imported if not name.startswith("convc.ir.expr.")}
        assert {name.split(".")[0] for name in outside} <= sys.stdlib_module_names
