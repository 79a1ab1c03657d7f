"""Facts that copies rest on: shown for all sizes, refused where they are not so, and so for drawn numbers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from convc.compiler.index.changes import Fact
from convc.compiler.index.conditions import met
from convc.compiler.index.maps import Counterexample, Proof
from convc.derive import columns
from convc.derive import symbols as z
from convc.derive.forms import reload, stream_tiles
from convc.derive.results import FIRST, ROW, facts, following, pixel_number
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Refused, below, proved

PLACE = stream_tiles("merged", "contiguous").space["q"].dividend
WINDOW = stream_tiles("merged", "overlapping").space["q"].dividend
M = pixel_number(reload())
STREAM_M = pixel_number(stream_tiles("merged", "contiguous"))

REFUSED = {
    "pixels of a stream with longer rows": lambda: proved("m", [(STREAM_M, PLACE)]),
    "pixels of a stream with rows of T alone": lambda: proved("m", [(STREAM_M.xreplace({z.T: z.Q}), PLACE)]),
    "rows of windows that overlap": lambda: following("rows", WINDOW, z.warp * z.WARP, {}),
    "lanes of a window up to its end": lambda: proved(
        "lanes",
        [(WINDOW.xreplace({z.lane: z.window * z.WINDOW + ROW}), z.window * z.USEFUL + ROW)],
        [below(ROW, z.WINDOW)],
    ),
    "a copy that counts rows of another length": lambda: proved(
        "digits", [(Mod(FloorDiv(FIRST, z.T) * z.ACROSS + Mod(FIRST, z.T) + ROW, z.ACROSS), Mod(FIRST + ROW, z.T))]
    ),
    "a box without a row for every image": lambda: proved(
        "digits", [(Mod(FloorDiv((z.p * z.BOX + z.n) * z.T, z.T), z.BOX), z.n)]
    ),
    "rows of a warp two pixels apart": lambda: proved(
        "rows", [(M.xreplace({z.lane: 2 * ROW}), M.xreplace({z.lane: 0 * ROW}) + ROW)]
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_copies_may_not_rest_on_is_refused(name):
    with pytest.raises(Refused, match=r"fails at .* is false|not shown"):
        REFUSED[name]()


def test_every_fact_has_a_theorem():
    found = list(facts())
    assert all(fact.theorems for fact in found)
    assert len({fact.name for fact in found}) == len(found) == 6


def walked(first, row, columns, rows):
    """Digits of a copy that starts at some and goes on by so many places."""
    x, y, outer = first
    number = (outer * rows + y) * columns + x + row
    return number % columns, number // columns % rows, number // columns // rows


@pytest.mark.parametrize("seed", range(20))
def test_a_residual_that_is_walked_is_that_of_the_lanes_wherever_the_conditions_hold(seed):
    """With drawn boxes, right ones and wrong ones: every box that the conditions let through is right."""
    drawn = random.Random(seed)
    taken = refused = 0
    for _ in range(40):
        t, y, images, rows, tiles = (drawn.randint(1, 5) for _ in range(5))
        lanes = drawn.choice((4, 8))
        across, box = t + drawn.choice((0, 0, 1)), drawn.choice((y, images, drawn.randint(1, 12)))
        sizes = {"T": t, "Y": y, "N": images, "TILES": tiles, "WINDOWS": 1, "USEFUL": lanes, "BM": lanes}
        sizes |= {"ACROSS": across, "BOX": box}
        merged = drawn.random() < 0.5
        fact = Fact("residual of a merged stream" if merged else "residual of a stream a row", sizes)
        place = np.arange(tiles * lanes).reshape(tiles, lanes)
        start, row = place[:, :1], np.arange(lanes)[None]
        if merged:
            found = walked((start % t, start // t % y, start // t // y), row, across, box)
            wanted = (place % t, place // t % y, place // t // y)
        else:
            found = walked((start % t, start // t, rows), row, across, box)
            wanted = (place % t, place // t, np.full(place.shape, rows))
        right = all(np.array_equal(one, two) for one, two in zip(found, wanted, strict=True))
        if isinstance(met(fact), Proof):
            taken += 1
            assert right, sizes
        else:
            refused += 1
    assert taken
    assert refused


def test_numbers_that_break_a_fact_are_named():
    broken = met(Fact("rows of a warp", {"BM": 128, "WARP": 24, "WARPS": 5}))
    assert isinstance(broken, Counterexample)
    assert "the rows of a warp are consecutive output pixels" in str(broken)
    assert "warps make up the lanes of a tile: 120 < 128" in str(broken)


COLUMNS = {
    "rows that overlap with a dilation": lambda: proved(
        "element",
        [(columns.MAPPED.xreplace({columns.STEP_Q: z.u_w * z.C}), columns.MAPPED.xreplace({columns.STEP_Q: z.C}))],
    ),
    "channels outside of columns": lambda: proved(
        "run", [(FloorDiv(z.c * z.S + z.s, z.C), z.s)], [below(z.c, z.C), below(z.s, z.S)]
    ),
    "a run that is as long as its filter is wide": lambda: proved(
        "run", [below(columns.ELEMENT, z.S * z.C)], [below(z.s, z.S)]
    ),
    "the last pixel of a row without room for the filter": lambda: proved(
        "inside",
        [below(z.u_w * z.q + z.s, columns.WIDTH)],
        [below(z.q, z.Q), below(z.s, z.S), below(z.Q, columns.WIDTH)],
    ),
    "rows of the host that overlap": lambda: proved(
        "apart", [(FloorDiv(z.q * columns.PITCH + z.e, columns.PITCH), z.q)], [below(z.e, columns.PITCH + 1)]
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_what_joined_columns_may_not_rest_on_is_refused(name):
    with pytest.raises(Refused, match=r"fails at .* is false|not shown"):
        COLUMNS[name]()
