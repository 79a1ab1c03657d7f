"""Gradients derived from the definition: each nest has its products, and what is broken lacks one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convc.api.deriving import GRADIENTS, derive_gradient
from convc.derive import gradients
from convc.derive import symbols as z
from convc.derive.gradients import dgrad, differentiated, exchanged, gathered, summed, turned, wgrad
from convc.derive.nests import definition
from convc.derive.rewrites import accumulate, stage
from convc.derive.run import broken, difference
from convc.derive.theorem import Refused

STEPPED = {
    "N": 1,
    "C": 2,
    "K": 4,
    "R": 2,
    "S": 3,
    "P": 3,
    "Q": 3,
    "H": 8,
    "W": 6,
    "u_h": 3,
    "d_h": 2,
    "g": 2,
    "u": 1,
    "d": 1,
    "pad_h": 1,
    "pad_w": 2,
    "K_g": 2,
    "C_PITCH": 2,
    "ROWS": 3,
    "COLUMNS": 3,
    "BK": 4,
    "BLOCKS": 3,
    "SPAN": 4,
    "SPANS_C": 1,
    "SPANS_M": 4,
    "TILES_M": 2,
    "BN": 2,
    "TILES_N": 2,
    "GROUP_TILES": 1,
}
PLAIN = {**STEPPED, "u_h": 1, "g": 1, "P": 8, "Q": 8, "H": 8, "W": 6, "ROWS": 8, "COLUMNS": 6}


@pytest.mark.parametrize("chain", [dgrad, wgrad])
def test_a_gradient_has_the_products_of_the_definition(chain):
    for title, nest in chain():
        sizes = PLAIN if "stride 1" in title else STEPPED
        assert list(broken(nest, sizes)) == [], title
        assert difference(nest, sizes) == "", title


def test_turned_filters_need_stride_1():
    *_, (_, nest) = dgrad()
    assert [said.split(":")[0] for said in broken(nest, STEPPED)] == ["it needs the stride is 1"] * 2
    assert "is added" in difference(nest, {**PLAIN, "u_h": 2})


def test_rows_of_summed_pixels_need_tiles_that_reach_them():
    sizes = {**STEPPED, "SPAN": 1, "SPANS_C": 2, "TILES_M": 3}  # spans of a column of the filter lie in two tiles
    assert difference(summed(), sizes) == ""
    assert [said.split(":")[0] for said in broken(summed(), {**sizes, "TILES_M": 2})] == [
        "it needs TILES_M tiles of SPANS_M reach the last unit"
    ]
    assert "is missing" in difference(summed(), {**sizes, "TILES_M": 2})
    assert "is missing" in difference(summed(), {**sizes, "BLOCKS": 2})


def test_a_pixel_that_no_loop_reaches_is_missed():
    nest = gathered(differentiated(definition(), "x"))
    assert "is missing" in difference(nest, {**STEPPED, "ROWS": 2})
    assert "is added" in difference(replace(nest, guard=nest.guard[1:]), STEPPED)


REFUSED = {
    "outputs that are kept": (lambda: differentiated(accumulate(definition(), z.k), "x"), "are kept already"),
    "gathering what is not scattered": (lambda: gathered(definition()), "of the gradient of x"),
    "turning before gathering": (lambda: turned(differentiated(definition(), "x")), "not gathered yet"),
    "exchanging outputs": (lambda: exchanged(definition()), "of the gradient of w"),
    "staging what is scattered": (lambda: stage(differentiated(definition(), "w"), z.c), "has no loop lane"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_right_is_refused(name):
    rewrite, why = REFUSED[name]
    with pytest.raises(Refused, match=why):
        rewrite()


def test_each_gradient_can_be_printed():
    assert set(gradients.GRADIENTS) == set(GRADIENTS)
    said = "\n".join(derive_gradient("wgrad").lines)
    assert "w_grad[k, r, s, c] += x[n, d_h*r + p*u_h - pad_h" in said
    assert "the pixel of tap (p, q) of output (r, s) is that of tap (r, s) of output (p, q)" in said
    said = derive_gradient("dgrad")
    assert any(line.startswith("-- dgrad with stride 1: Algorithm 1") for line in said.lines)
    assert r"\section*{dgrad: gathered by phases" in said.latex
