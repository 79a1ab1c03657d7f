"""Running a nest: every form is the convolution, and what is broken says which product is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convc.derive import symbols as z
from convc.derive.forms import shared, shared_form
from convc.derive.nests import definition
from convc.derive.reuse import shift
from convc.derive.run import difference
from convc.explain.example import example_instance

READINGS = ("read further on", "operands exchanged", "rows moved")
SIZES = {**example_instance().sizes, "C": 2, "K": 2, "K_g": 2, "BN": 2, "TILES_N": 1, "GROUP_TILES": 1, "BK": 1, "P": 2}
SLIDE = shared("outer", "mask", "contiguous", exchanged=False)


@pytest.mark.parametrize("reading", READINGS)
def test_every_algorithm_is_the_convolution(reading):
    for title, nest in shared_form(reading, "outer", "mask").algorithms:
        assert difference(nest, SIZES) == "", title


BROKEN = {
    "a period that is too short": (SLIDE, {"T": 8}, "y[0, 0, 7, 0] += x[0, 0, 8, 0] * w[0, 0, 2, 0] is missing"),
    "a halo that is too short": (SLIDE, {"HALO": 1}, "y[1, 0, 6, 0] += x[1, 0, 7, 0] * w[0, 0, 2, 0] is missing"),
    "no masks": (
        replace(SLIDE, masks=()),
        {},
        "y[0, 0, 8, 0] += x[1, 0, 0, 0] * w[0, 0, 2, 0] is added and should not be",
    ),
    "rows of the filter for columns": (
        replace(SLIDE, space={**SLIDE.space, "r": SLIDE.space["s"], "s": SLIDE.space["r"]}),
        {},
        "y[0, 0, 0, 0] += x[0, 0, 0, 0] * w[0, 0, 1, 0] is missing",
    ),
    "a load that is too late": (
        replace(SLIDE, load=replace(SLIDE.load, inside=z.tile_n)),
        {},
        "y[0, 0, 0, 0] += x[0, 0, 0, 0] * w[0, 0, 1, 1] is added and should not be",
    ),
    "rows that do not move": (
        replace(shift(SLIDE, overlapping=False), move=None),
        {},
        "y[0, 0, 0, 0] += x[0, 0, 0, 0] * w[0, 0, 1, 0] is missing",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_says_which_product(name):
    nest, sizes, said = BROKEN[name]
    assert difference(nest, {**SIZES, **sizes}) == said


def test_a_product_that_is_added_twice():
    twice = replace(definition(), space={**definition().space, "q": z.q - z.q})
    assert difference(twice, SIZES) == "y[0, 0, 0, 0] += x[0, 0, 0, 0] * w[0, 0, 1, 0] is added twice"


def test_large_numbers_are_refused():
    with pytest.raises(ValueError, match="the nest has 4536000000 iterations, and is run for up to 4194304"):
        difference(definition(), {**SIZES, "N": 1000000, "K": 2, "C": 2, "P": 7, "Q": 9, "R": 3, "S": 6})
