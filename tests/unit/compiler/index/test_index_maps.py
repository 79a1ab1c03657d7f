"""Index maps: composition, bounds, claims and guards, against plain enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from support.records import replace

from convc.compiler.index.maps import (
    Counterexample,
    IndexMap,
    Proof,
    at_most,
    less,
    prove_equal,
    simplify_guards,
)
from convc.compiler.index.symbols import Axis, FloorDiv, Mod


def _pixels(tiles, block, rows, columns, images):
    """The two maps that most others are made of: which row a lane has, and which pixel a row is."""
    tile, lane, m = Axis("tile", tiles), Axis("lane", block), Axis("m", images * rows * columns)
    number = tile.symbol * block + lane.symbol
    row = IndexMap(name="row", domain=(tile, lane), results=(("m", number),), guard=(less(number, m.extent),))
    digits = IndexMap(
        name="digits",
        domain=(m,),
        results=(
            ("n", FloorDiv(m.symbol, rows * columns)),
            ("p", Mod(FloorDiv(m.symbol, columns), rows)),
            ("q", Mod(m.symbol, columns)),
        ),
    )
    return row, digits


extents = st.integers(1, 6)


def test_maps_use_their_own_axes_alone():
    with pytest.raises(ValueError, match="map 'm' uses y, which is no axis of its domain"):
        IndexMap(name="m", domain=(Axis("x", 3),), results=(("a", Axis("y", 3).symbol),))


def test_evaluation_on_arrays_is_signed():
    x = Axis("x", 300)
    back = IndexMap(name="back", domain=(x,), results=(("v", FloorDiv(x.symbol - 4, 3)), ("one", x.symbol * 0 + 1)))
    values = back.evaluate({"x": np.array([0, 1, 255], dtype=np.uint8)})
    assert values["v"].tolist() == [-2, -1, 83]
    assert values["one"] == 1


def test_strict_and_lax_guards_narrow_from_both_sides():
    x = Axis("x", 10)
    for guard, expected in (
        (less(2, x.symbol), (3, 9)),
        (at_most(2, x.symbol), (2, 9)),
        (less(x.symbol, 7), (0, 6)),
        (at_most(x.symbol, 7), (0, 7)),
    ):
        index_map = IndexMap(name="m", domain=(x,), results=(("x", x.symbol),), guard=(guard,))
        assert index_map.bounds() == {"x": expected}


def test_what_bounds_cannot_show_is_decided():
    x, y = Axis("x", 50), Axis("y", 1000)
    tangled = IndexMap(name="tangled", domain=(x, y), results=(("v", x.symbol - 3 * FloorDiv(x.symbol, 3)),))
    assert tangled.bounds()["v"] == (-48, 49)
    assert tangled.prove_in({"v": (0, 2)}) == Proof("tangled: v in 0..2", "v stays in 0..2 for all x")
    assert tangled.prove_in({"v": (0, 1)}) == Counterexample("tangled: v in 0..1", (("x", 2),), "v = 2")


def test_a_guard_on_other_axes_counts_only_where_it_must():
    x, y = Axis("x", 40), Axis("y", 40)
    tangled = x.symbol - 3 * FloorDiv(x.symbol, 3)
    guarded = IndexMap(name="guarded", domain=(x, y), results=(("v", tangled),), guard=(less(x.symbol + y.symbol, 2),))
    assert guarded.prove_in({"v": (0, 1)}).how == "v stays in 0..1 for all x, y"
    assert isinstance(replace(guarded, guard=()).prove_in({"v": (0, 1)}), Counterexample)


def test_an_axis_of_any_length_is_decided():
    x = Axis("x", 10**12)
    tangled = IndexMap(name="tangled", domain=(x,), results=(("v", x.symbol - 3 * FloorDiv(x.symbol, 3)),))
    assert isinstance(tangled.prove_in({"v": (0, 2)}), Proof)
    late = replace(tangled, guard=(less(10**11, x.symbol),))
    assert late.prove_in({"v": (0, 1)}) == Counterexample("tangled: v in 0..1", (("x", 10**11 + 1),), "v = 2")


def test_equality_is_proved_or_refuted():
    x = Axis("x", 10)
    digits = 3 * FloorDiv(x.symbol, 3) + Mod(x.symbol, 3)
    assert prove_equal("same", digits, x.symbol, (x,)) == Proof("same", "equal expressions")
    assert prove_equal("same", Mod(x.symbol, 16), x.symbol, (x,)).how == "difference stays in 0..0 for all x"
    assert prove_equal("same", Mod(x.symbol, 8), x.symbol, (x,)) == Counterexample(
        "same", (("x", 8),), "difference = -8"
    )


def test_guards_that_always_hold_are_dropped_with_the_reason():
    row, _ = _pixels(tiles=7, block=112, rows=28, columns=28, images=1)
    report = simplify_guards(row)
    assert report.map.guard == ()
    assert report.dropped == (("tile*112 + lane < 784", "the left side is at most 783"),)
    row, _ = _pixels(tiles=7, block=113, rows=28, columns=28, images=1)
    report = simplify_guards(row)
    assert report.map.guard == row.guard
    assert report.dropped == ()


def test_lower_guards_are_dropped_at_their_limit():
    x = Axis("x", 5, first=-1)
    guards = (at_most(-1, x.symbol), at_most(0, x.symbol), at_most(x.symbol, 3), less(x.symbol, 3))
    report = simplify_guards(IndexMap(name="m", domain=(x,), results=(("x", x.symbol),), guard=guards))
    assert report.map.guard == (guards[1], guards[3])
    assert report.dropped == (
        ("-1 <= x", "the right side is at least -1"),
        ("x <= 3", "the left side is at most 3"),
    )
