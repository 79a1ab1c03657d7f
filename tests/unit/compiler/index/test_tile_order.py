"""Orders of tiles: permutations of every grid, by proof and by counting; what is none is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import replace

from convc.compiler.index.maps import Counterexample, Proof
from convc.compiler.index.order_names import BOUSTROPHEDON, COLUMNS, GROUPED, HILBERT, ORDERS, ROWS
from convc.compiler.index.tile_order import order_of


@settings(max_examples=60, derandomize=True, database=None, deadline=None)
@given(st.sampled_from(ORDERS), st.integers(1, 40), st.integers(1, 40), st.integers(1, 2), st.data())
def test_every_tile_is_visited_once(name, units, columns, together, data):
    order = order_of(name, (units * together, columns), together=together, groups=data.draw(st.integers(1, units)))
    m, n = order.places.at(np.arange(units * together * columns))
    assert sorted(zip(m, n, strict=True)) == [(i, j) for i in range(units * together) for j in range(columns)]
    assert isinstance(order.prove(), Proof), str(order.prove())
    assert (m % together == np.arange(m.size) % together).all()
    units_m = m // together
    pairs = np.stack([units_m, n]).reshape(2, -1, together)
    assert (pairs == pairs[:, :, :1]).all()


@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (5, 8), (12, 20), (1, 7), (7, 1), (9, 4)])
def test_a_curve_goes_from_neighbour_to_neighbour(rows, columns):
    m, n = order_of(HILBERT, (rows, columns)).places.at(np.arange(rows * columns))
    steps = np.abs(np.diff(m)) + np.abs(np.diff(n))
    assert steps.max(initial=1) <= 2  # a diagonal one, where extents are odd
    assert np.count_nonzero(steps == 2) <= 1


def test_orders_are_what_they_are_called():
    def numbers(name, tiles, groups=1):
        m, n = order_of(name, tiles, groups=groups).places.at(np.arange(tiles[0] * tiles[1]))
        return list(zip(m.tolist(), n.tolist(), strict=True))

    assert numbers(ROWS, (2, 2)) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert numbers(COLUMNS, (2, 2)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert numbers(BOUSTROPHEDON, (2, 2)) == [(0, 0), (1, 0), (1, 1), (0, 1)]
    grouped = numbers(GROUPED, (3, 2), groups=2)
    assert grouped == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    assert numbers(HILBERT, (2, 2)) == [(0, 0), (0, 1), (1, 1), (1, 0)]


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        (ROWS, {"UNITS": 6}, "units make up the tiles along M"),
        (COLUMNS, {"TOGETHER": 2}, "units make up the tiles along M"),
        (GROUPED, {"HIGH": 2}, "the groups make up the rows of the grid"),
        (GROUPED, {"FEW": 3}, "the groups make up the rows of the grid"),
        (BOUSTROPHEDON, {"TILES_M": 8}, "units make up the tiles along M"),
        (HILBERT, {"ENTRY": 4}, "an entry has room for a unit"),
    ],
)
def test_numbers_that_make_no_permutation_are_found(name, sizes, words):
    order = order_of(name, (7, 5), groups=3)
    wrong = replace(order, change=replace(order.change, sizes={**order.change.sizes, **sizes})).prove()
    assert isinstance(wrong, Counterexample)
    assert "visits each of 7 x 5 tiles once" in str(wrong)
    assert words in str(wrong)


def test_tables_that_repeat_tiles_or_leave_some_out_are_found():
    curve = order_of(HILBERT, (4, 3))
    assert "has come before" in str(replace(curve, table=(*curve.table[:-1], curve.table[0])).prove())
    assert "the table has 11 of 12 units" in str(replace(curve, table=curve.table[:-1]).prove())
