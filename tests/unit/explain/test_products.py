"""Running a loop nest: it computes the convolution, and a nest that does not is told from one that does."""

from __future__ import annotations

import numpy as np
import pytest
from support.nests import PROBLEM, computed
from support.records import replace

from convc.compiler.index.linear import Integer
from convc.compiler.index.maps import Counterexample, IndexMap, Proof, less
from convc.compiler.index.symbols import Axis
from convc.explain.nests import Accumulate, Load, Nest, Read, plain
from convc.explain.products import products, same_products
from convc.ir.problem import ConvProblem
from convc.verification import reference

UNEVEN = ConvProblem(
    batch=2,
    in_channels=3,
    out_channels=2,
    in_extent=(6, 7),
    kernel=(2, 3),
    stride=(2, 1),
    dilation=(1, 2),
    pad_lo=(1, 0),
    pad_hi=(0, 3),
)


def told(one: Nest, two: Nest) -> str:
    outcome = same_products(one, two, "the same")
    assert isinstance(outcome, Counterexample)
    return str(outcome)


@pytest.mark.parametrize("problem", [PROBLEM, UNEVEN])
def test_the_definition_is_the_convolution(problem):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, problem.x_shape).astype(np.float64)
    w = rng.integers(-3, 4, problem.w_shape).astype(np.float64)
    np.testing.assert_array_equal(computed(plain(problem), x, w), reference.conv_problem(problem, x, w))


def test_products_with_padding_do_not_count():
    found = products(plain(PROBLEM))
    assert found.out.size == PROBLEM.macs * 25 // 27  # of 9 columns and 3 taps, two need padding
    assert found.term.min() >= 0
    assert isinstance(same_products(plain(PROBLEM), plain(PROBLEM), "the same"), Proof)


def changed(nest: Nest, **results) -> Nest:
    """The nest with other expressions for some of n, p, q, k, c, r, s."""
    old = dict(nest.space.results)
    return replace(nest, space=replace(nest.space, results=tuple((old | results).items())))


def test_a_product_with_another_pixel():
    nest = plain(PROBLEM)
    q = nest.loop("q").symbol
    said = told(nest, changed(nest, q=q * Integer(0)))
    assert said == (
        "REFUTED: the same [at n = 0, p = 0, q = 1, k = 0, c = 0, r = 0, s = 1: "
        "out[0, 0, 0, 0] gets x[0, 0, 0, 0] * w[0, 0, 1, 0] twice]"
    )


def test_a_product_that_is_missing():
    nest = plain(PROBLEM)
    c = nest.loop("c").symbol
    fewer = replace(nest, space=replace(nest.space, guard=(less(c, 3),)))
    assert "c = 3" in told(nest, fewer)
    assert "out[0, 0, 0, 0] lacks x[0, 0, 0, 3] * w[0, 0, 1, 3]" in told(nest, fewer)


def staged(nest: Nest, rows: int, first: int) -> Nest:
    """The plain nest with channels as tile, and a tile of rows of pixels loaded for each filter column."""
    names = {"q": "lane", "c": "e"}
    axes = {axis.name: Axis(names.get(axis.name, axis.name), axis.extent) for axis in nest.loops}
    order = [axes[name] for name in "npkrsqc"]
    space = IndexMap(name="space", domain=tuple(order), results=tuple((name, axes[name].symbol) for name in "npqkcrs"))
    tiled = replace(nest, space=space)
    row, read = Axis("row", rows), tiled.activation()
    put = {axes["q"].symbol: row.symbol + first}
    load = IndexMap(
        name="load",
        domain=(*order[:5], row, axes["c"]),
        results=tuple((name, expr.xreplace(put)) for name, expr in read.results),
        guard=tuple(each.xreplace(put) for each in read.guard),
    )
    return replace(tiled, body=(Accumulate("k"), Load("s", row, load, "")), read=Read(row=axes["q"].symbol))


def test_a_tile_is_loaded_and_read():
    nest = plain(PROBLEM)
    assert isinstance(same_products(nest, staged(nest, 9, 0), "the same"), Proof)
    said = "out[0, 0, 0, 0] gets x[0, 0, 0, 0] * w[0, 0, 0, 0], where x[0, 0, -1, 0], padding, is needed"
    assert said in told(nest, staged(nest, 9, 1))
    assert "out[0, 0, 8, 0] gets an element that nobody loaded" in told(nest, staged(nest, 8, 0))


def test_a_sum_is_stored_where_it_ends():
    nest = staged(plain(PROBLEM), 9, 0)
    early = replace(nest, body=(Accumulate("r"), nest.body[1]))
    said = told(nest, early)
    assert "r = 0" in said
    assert "lacks" in said
