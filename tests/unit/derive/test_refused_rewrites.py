"""Rewrites that are not right are refused: out of order, with loops that are not there, with statements in the way."""

from __future__ import annotations

import pytest

from convc.derive import symbols as z
from convc.derive.forms import PIXELS, LoweredForm, matrix_tiles, reload, stream_tiles
from convc.derive.nests import Loop, definition
from convc.derive.reuse import hoist, mask, rows_masked, shift, zeroed
from convc.derive.rewrites import accumulate, flatten, interchange, one_group, split, stage, swap, tile
from convc.derive.theorem import Refused

COLUMNS = Loop(axis=z.tap, extent=z.TAPS)
BUFFERS = Loop(axis=z.buffer, extent=z.BUFFERS)


def by_buffers(rows="outer", lanes="contiguous"):
    return split(stream_tiles(rows, lanes), z.s, COLUMNS, BUFFERS, z.u)


REFUSED = {
    "a loop that is not there": (lambda: flatten(definition(), (z.n, z.t), z.m, (z.P,)), "has no loop t"),
    "no neighbours": (lambda: flatten(definition(), (z.n, z.q), z.m, (z.Q,)), "n, q are no neighbours"),
    "an order of other loops": (lambda: interchange(definition(), (z.n, z.p)), "the loops are n, p, q, k, c, r, s"),
    "a sum that goes on outside": (lambda: accumulate(definition(), z.c), "the sum runs over c too"),
    "a sum that loses a loop": (
        lambda: interchange(reload(), (z.tile_m, z.r, z.tile_n, z.s, z.block, z.lane, z.column, z.e)),
        "the sum inside tile_n enters or leaves r",
    ),
    "a load that loses a loop": (
        lambda: interchange(reload(), (z.tile_m, z.tile_n, z.r, z.block, z.s, z.lane, z.column, z.e)),
        "the load inside block enters or leaves s",
    ),
    "a load before its tap is known": (lambda: stage(stream_tiles("outer", "contiguous"), z.block), "depends on s"),
    "counting loops with a load between": (
        lambda: flatten(reload(), (z.block, z.lane), z.m, (z.BM,)),
        "a load stands inside of block",
    ),
    "one load for columns that are not split": (
        lambda: hoist(stream_tiles("outer", "contiguous"), "outer"),
        "is not split",
    ),
    "one load before there is any": (lambda: hoist(definition(), "outer"), "stage them first"),
    "one load without a stream": (lambda: hoist(reload(), "outer"), "is no place of a stream"),
    "masks before one load": (lambda: mask(by_buffers()), "hoist first"),
    "zeros before one load": (lambda: zeroed(by_buffers()), "hoist first"),
    "rows that move before one load": (lambda: shift(by_buffers(), overlapping=False), "a lane reads row lane;"),
    "rows that move twice": (
        lambda: shift(shift(hoist(by_buffers(), "outer"), overlapping=False), overlapping=False),
        "a lane reads row lane;",
    ),
    "a loop twice": (lambda: tile(definition(), z.k, Loop(axis=z.n, extent=z.N), PIXELS), "there is a loop n already"),
    "a loop that is a size": (
        lambda: tile(definition(), z.k, Loop(axis=z.Q, extent=z.N), PIXELS),
        "Q, lane are no axes",
    ),
    "a load inside of a loop that is not there": (lambda: stage(reload(), z.buffer), "has no loop buffer"),
    "a walk along rows of another stream": (
        lambda: hoist(by_buffers("merged"), "outer"),
        "a row of the stream is an output row of the image",
    ),
    "masks by rows that nobody needs": (
        lambda: rows_masked(mask(hoist(by_buffers(), "outer"))),
        "no lane finds a row of another image",
    ),
    "masks after the operands are exchanged": (
        lambda: mask(swap(hoist(by_buffers(), "outer"))),
        "the operands are exchanged",
    ),
    "operands that are not there": (lambda: swap(definition()), "stage them first"),
    "tiles of a masked loop": (
        lambda: tile(mask(hoist(by_buffers(), "outer")), z.r, Loop(axis=z.m, extent=z.R), Loop(axis=z.t, extent=z.R)),
        "lanes are masked by its loops",
    ),
    "groups before tiles": (lambda: one_group(definition()), "fails at"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rewrite_that_is_not_right_says_why(name):
    rewrite, why = REFUSED[name]
    with pytest.raises(Refused, match=why):
        rewrite()


def test_every_step_has_a_reason():
    nest = shift(mask(hoist(by_buffers("merged"), "merged")), overlapping=False)
    assert len(nest.steps) >= 10
    assert all(step.theorems or step.why for step in nest.steps)


def test_conditions_are_those_of_the_steps():
    words = [condition.words for condition in by_buffers("merged").conditions]
    assert words[0] == "period Y >= P"
    assert "period T >= Q" in words
    assert "TILES_N tiles of BN reach the last k" in words


def test_tiles_of_another_order_are_the_same_nest():
    """Tiles of channels do not depend on those of pixels."""
    nest = matrix_tiles(definition())
    one = tile(flatten(nest, (z.n, z.p, z.q), z.m, (z.P, z.Q)), z.m, Loop(axis=z.tile_m, extent=z.TILES_M), PIXELS)
    assert set(one.axes) == set(reload().axes)
    assert one.space == reload().space


def test_a_form_that_owes_something_is_none():
    nest = hoist(by_buffers("merged"), "merged")
    assert len(nest.owes) == 2
    assert mask(nest).owes == nest.owes[1:]
    assert rows_masked(mask(nest)).owes == ()
    with pytest.raises(Refused, match="it owes mask or zero"):
        LoweredForm(name="half done", algorithms=(("Algorithm 3", nest),), maps={}, theorems=())
