"""Index maps: bounds, claims and guards."""

from __future__ import annotations

import numpy as np
import pytest
from support.records import replace

from convc.compiler.index.maps import Axis, Counterexample, Guard, IndexMap, Proof, needed_guards
from convc.ir.expr import Const, IntExpr, Less, Var

X = Var("x")
TANGLED = X - (X // 3) * 3
"""What interval bounds cannot show to lie in 0..2."""


def guard(low: IntExpr | int, high: IntExpr | int, *, strict: bool = True) -> Guard:
    """The condition that one is less than the other, or at most it."""
    one, other = (Const(each) if isinstance(each, int) else each for each in (low, high))
    return Guard(one, other, strict)


def mapped(name: str, axes: dict[str, int], guards: tuple[Guard, ...] = (), **results: IntExpr) -> IndexMap:
    domain = tuple(Axis(axis, extent) for axis, extent in axes.items())
    return IndexMap(name=name, domain=domain, results=tuple(results.items()), guard=guards)


def rows_of(block: int) -> IndexMap:
    """Which row of the product a lane works on, of seven tiles."""
    number = Var("tile") * block + Var("lane")
    return mapped("row", {"tile": 7, "lane": block}, (guard(number, 28 * 28),), m=number)


def test_maps_use_their_own_axes_alone():
    with pytest.raises(ValueError, match="map 'm' uses y, which is no axis of its domain"):
        mapped("m", {"x": 3}, a=Var("y"))
    with pytest.raises(ValueError, match="map 'm' uses y, which is no axis of its domain"):
        mapped("m", {"x": 3}, (guard(X, Var("y")),), a=X)
    with pytest.raises(ValueError, match="map 'm' has a name twice: x, x"):
        IndexMap(name="m", domain=(Axis("x", 3), Axis("x", 4)), results=())


def test_evaluation_on_arrays_is_signed():
    back = mapped("back", {"x": 300}, v=(X - 4) // 3, one=Const(1))
    values = back.evaluate({"x": np.array([0, 1, 255], dtype=np.uint8)})
    assert values["v"].tolist() == [-2, -1, 83]
    assert values["one"] == 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (guard(2, X), (3, 9)),
        (guard(2, X, strict=False), (2, 9)),
        (guard(X, 7), (0, 6)),
        (guard(X, 7, strict=False), (0, 7)),
    ],
)
def test_strict_and_lax_guards_narrow_from_both_sides(condition, expected):
    low, high = expected
    narrowed = mapped("m", {"x": 10}, (condition,), x=X)
    assert narrowed.prove_in({"x": expected}).how == f"x in {low}..{high} by interval bounds"
    assert narrowed.holds({"x": np.arange(10)}).nonzero()[0].tolist() == list(range(low, high + 1))
    for less in ((low + 1, high), (low, high - 1)):
        assert isinstance(narrowed.prove_in({"x": less}), Counterexample)


def test_what_bounds_cannot_show_is_decided():
    tangled = mapped("tangled", {"x": 50, "y": 1000}, v=TANGLED)
    assert tangled.prove_in({"v": (0, 2)}) == Proof("tangled: v in 0..2", "v stays in 0..2 for all x")
    assert tangled.prove_in({"v": (0, 1)}) == Counterexample("tangled: v in 0..1", (("x", 2),), "v = 2")


def test_a_guard_on_other_axes_counts_only_where_it_must():
    guarded = mapped("guarded", {"x": 40, "y": 40}, (guard(X + Var("y"), 2),), v=TANGLED)
    assert guarded.prove_in({"v": (0, 1)}).how == "v stays in 0..1 for all x, y"
    assert isinstance(replace(guarded, guard=()).prove_in({"v": (0, 1)}), Counterexample)


def test_an_axis_of_any_length_is_decided():
    tangled = mapped("tangled", {"x": 10**12}, v=TANGLED)
    assert isinstance(tangled.prove_in({"v": (0, 2)}), Proof)
    late = replace(tangled, guard=(guard(10**11, X),))
    assert late.prove_in({"v": (0, 1)}) == Counterexample("tangled: v in 0..1", (("x", 10**11 + 1),), "v = 2")


def test_guards_that_always_hold_are_dropped_with_the_reason():
    row = rows_of(112)
    left, dropped = needed_guards(row.guard, row.ranges)
    assert left == ()
    assert dropped == (("tile*112 + lane < 784", "the left side is at most 783"),)
    row = rows_of(113)
    assert needed_guards(row.guard, row.ranges) == (row.guard, ())


def test_guards_are_dropped_at_their_limit():
    guards = (guard(0, X, strict=False), guard(0, X), guard(X, 4, strict=False), guard(X, 4))
    left, dropped = needed_guards(guards, {"x": (0, 4)})
    assert left == (guards[1], guards[3])
    assert dropped == (("0 <= x", "the right side is at least 0"), ("x <= 4", "the left side is at most 4"))


def test_a_map_is_a_few_lines():
    guards = (guard(1, X, strict=False), guard(X, 7))
    assert guards[0].condition == Less(Const(0), X)
    assert mapped("inside", {"x": 9}, guards, w=X * 2).lines() == [
        "inside(x < 9) -> w",
        "    w = x*2",
        "    where 1 <= x",
        "    where x < 7",
    ]
