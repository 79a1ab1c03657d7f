"""Orders of tiles, derived for all grids: what is no permutation is refused, and the loops make the same sums."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.derived_loops import changed_computes
from support.records import replace
from sympy import S
from unit.derive.test_loops import drawn_form

from convc.compiler.index.order_names import HILBERT, ORDERS
from convc.compiler.index.tile_order import order_of
from convc.derive import symbols as z
from convc.derive.forms import reload, stream_tiles
from convc.derive.nests import definition
from convc.derive.orders import INSIDE_GRID, M_, Units, boustrophedon, columns, grouped, orders, rows, theorems
from convc.derive.reindex import reindexed
from convc.derive.rewrites import interchange
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Refused, below

RIGHT = Units(
    m=M_,
    n=z.tile_n,
    given=INSIDE_GRID,
    number=z.tile_n * z.UNITS + M_,
    place_m=Mod(z.unit, z.UNITS),
    place_n=FloorDiv(z.unit, z.UNITS),
)
BROKEN = {
    "a row too many": ({"place_m": Mod(z.unit, z.UNITS + 1)}, "fails at|not shown"),
    "numbers along N with places along M": ({"number": M_ * z.TILES_N + z.tile_n}, "fails at"),
    "no range of the row": ({"given": (below(z.tile_n, z.TILES_N),)}, "fails at"),
    "numbers from 1 on": ({"number": z.tile_n * z.UNITS + M_ + 1}, "fails at"),
    "numbers that go past the last": ({"number": z.tile_n * z.UNITS + M_ + z.UNITS, "place_n": z.tile_n}, "fails at"),
    "rows and columns exchanged": ({"m": z.tile_n, "n": M_}, "fails at"),
    "a case that the numbers are not of": ({"key": z.unit, "limit": z.UNITS}, "fails at"),
    "a case that is never taken": ({"key": z.unit, "limit": S.Zero}, "fails at"),
}


def test_the_units_of_the_order_along_m_are_proved():
    assert len(list(theorems("rows", (RIGHT,)))) == 1


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_permutation_is_refused(name):
    edit, why = BROKEN[name]
    with pytest.raises(Refused, match=why):
        list(theorems("rows", (replace(RIGHT, **edit),)))


def test_cases_that_overlap_are_refused():
    """Numbers of a later case are none of an earlier one: the kernel takes the first whose key is small enough."""
    with pytest.raises(Refused, match="fails at"):
        list(theorems("twice", (replace(RIGHT, key=z.unit, limit=z.UNITS * z.TILES_N), RIGHT)))


@pytest.mark.parametrize(
    ("nest", "why"),
    [
        (lambda: definition(), "no loop tile_m"),
        (lambda: interchange(definition(), (z.p, z.n, z.q, z.k, z.c, z.r, z.s)), "no loop tile_m"),
        (lambda: reindexed(reload(), rows()), "no loop tile_m"),
    ],
)
def test_tiles_that_are_not_there_or_were_counted_before_are_refused(nest, why):
    with pytest.raises(Refused, match=why):
        reindexed(nest(), columns())


def test_an_order_that_leaves_out_what_a_loop_was_is_refused():
    change = rows()
    with pytest.raises(Refused, match="nothing says what tile_n is"):
        reindexed(reload(), replace(change, lets=change.lets[:1]))
    with pytest.raises(Refused, match="a sum stands inside of tile_n"):
        reindexed(reload(), replace(change, inside={}))


@pytest.mark.parametrize("change", list(orders()), ids=lambda each: each.name)
@pytest.mark.parametrize("nest", [reload(), stream_tiles("outer", "contiguous"), stream_tiles("merged", "overlapping")])
def test_tiles_of_any_schedule_may_be_counted_in_any_order(nest, change):
    made = reindexed(nest, change)
    assert made.axes[0] == made.accumulate == z.tile
    assert made.space == nest.space
    assert made.steps[-1] is change.step
    assert {z.tile_m, z.tile_n} <= made.known(z.tile)


def test_both_kinds_of_groups_and_columns_have_their_case():
    assert [len(let.cases) for let in grouped().lets] == [2, 2]
    assert [len(let.cases) for let in boustrophedon().lets] == [2, 1]


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("seed", range(4))
def test_the_loops_with_numbers_make_the_sums_of_the_definition(name, seed):
    problem, instance, _ = drawn_form(seed)
    drawn = random.Random(seed)
    sizes = instance.sizes
    tiles = (sizes["TILES"] if "merged" in instance.form else sizes["TILES_M"], sizes["TILES_N"])
    order = order_of(name, tiles, groups=drawn.randint(1, tiles[0]))
    packed = {"table[unit]": np.array([m + (n << 16) for m, n in order.table], np.int64)} if name == HILBERT else None
    assert changed_computes(problem, instance, order.change, looked_up=packed), instance.form
    wrong = replace(order.change, sizes={**order.change.sizes, "UNITS": order.change.sizes["UNITS"] + 1})
    if name in ("rows", "boustrophedon") and tiles[1] > 1:
        assert not changed_computes(problem, instance, wrong, looked_up=packed), instance.form
