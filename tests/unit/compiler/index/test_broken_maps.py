"""Every claim can be refuted: maps broken on purpose, against counting and following what they say point by point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cut_maps import cut_maps
from support.examples import some
from support.records import replace

from convc.compiler.index import claims, reuse_claims
from convc.compiler.index.conv import conv_maps
from convc.compiler.index.maps import Counterexample, Proof, less
from convc.compiler.index.row_walk import BORDERS
from convc.compiler.index.symbols import FloorDiv, Mod
from convc.errors import PlanError, ProblemError
from convc.ir.problem import ConvProblem


def grid(index_map):
    """Every point of a map's domain, as flat arrays, and the shape of the domain."""
    shape = tuple(axis.extent for axis in index_map.domain)
    flat = np.indices(shape).reshape(len(shape), -1)
    return {axis.name: axis.first + values for axis, values in zip(index_map.domain, flat, strict=True)}, shape


def at(points, index):
    return {name: int(values[index]) for name, values in points.items()}


def changed(index_map, **results):
    """A map with some results replaced."""
    return replace(index_map, results=tuple((name, results.get(name, expr)) for name, expr in index_map.results))


# ---- maps of the plain loop ------------------------------------------------------------------------------------------


def counted_store(maps):
    """Whether each element that holds a result is written once, no other twice and none outside, by counting."""
    points, _ = grid(maps.store)
    size = points["lane"].shape
    rows, pitch = maps.problem.gemm_m, maps.tiles.k_pitch
    offset = np.broadcast_to(maps.store.evaluate(points)["offset"], size)
    written = offset[np.broadcast_to(maps.store.holds(points), size)]
    if ((written < 0) | (written >= rows * pitch)).any():
        return False
    writes = np.bincount(written, minlength=rows * pitch).reshape(rows, pitch)
    return bool((writes <= 1).all() and (writes[:, : maps.problem.out_channels] == 1).all())


@settings(max_examples=some(150), deadline=None)
@given(
    extent=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    channels=st.integers(1, 9),
    pitch=st.integers(0, 3),
    blocks=st.tuples(st.integers(1, 9), st.integers(1, 5)),
    broken=st.tuples(st.integers(0, 3), st.integers(-1, 1)),
    data=st.data(),
)
def test_stores_are_decided_as_counting_them_does(extent, channels, pitch, blocks, broken, data):
    problem = ConvProblem(in_channels=8, out_channels=channels, in_extent=extent, kernel=(1, 1))
    maps = conv_maps(
        problem,
        block_m=blocks[0],
        block_n=blocks[1],
        channels_per_step=8,
        c_pitch=8,
        k_pitch=channels + pitch,
    )
    m, k = maps.row["m"], maps.column["k"]
    by_row, by_column, shift, swap = (broken[1] * (broken[0] == which) for which in range(4))
    offset = m * (maps.tiles.k_pitch + by_row) + k + by_column * Mod(k, 2) + shift * FloorDiv(m, 3)
    offset += swap * (1 - 2 * Mod(m, 2)) * maps.tiles.k_pitch
    guards = data.draw(st.sampled_from([maps.store.guard, maps.store.guard[:1], (*maps.store.guard, less(k, 2))]))
    maps = replace(maps, store=replace(changed(maps.store, offset=offset), guard=guards))
    outcome = claims.prove_store(maps)
    assert isinstance(outcome, Proof) == counted_store(maps), outcome


@settings(max_examples=some(100), deadline=None)
@given(
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    blocks=st.integers(1, 3),
    factors=st.tuples(*[st.integers(0, 5)] * 3),
    wrap=st.integers(1, 50),
)
def test_steps_are_decided_as_listing_them_does(kernel, blocks, factors, wrap):
    problem = ConvProblem(in_channels=8, out_channels=8, in_extent=(9, 9), kernel=kernel)
    maps = conv_maps(problem, block_m=16, block_n=8, channels_per_step=4, c_pitch=4 * blocks + 4, k_pitch=8)
    symbols = [axis.symbol for axis in maps.step.domain]
    number = Mod(sum(factor * symbol for factor, symbol in zip(factors, symbols, strict=True)), wrap)
    broken = replace(maps, step=changed(maps.step, k_step=number))
    points, shape = grid(broken.step)
    found = np.broadcast_to(broken.step.evaluate(points)["k_step"], points["r"].shape)
    once = sorted(found.tolist()) == list(range(int(np.prod(shape))))
    assert isinstance(claims.prove_steps(broken), Proof) == once


PLAIN = ConvProblem(
    batch=2, in_channels=12, out_channels=20, in_extent=(6, 7), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)
BROKEN = {
    "start": {"w": 1, "h": 1, "n": 1},
    "window": {"w": 1, "h": 1, "n": 1},
    "step": {"off_w": 1, "off_h": 1, "c": 8, "tap": 1, "k_step": 1},
    "pack": {"c": 8},
    "operand_a": {"n": 2, "h": 1, "w": 1, "c": 8},
    "operand_b": {"k": 20, "tap": 1, "c": 1},
    "store": {"offset": 1},
}


@pytest.mark.parametrize(("name", "result"), [(name, result) for name in BROKEN for result in BROKEN[name]])
def test_a_map_of_the_plain_loop_that_is_off_is_refuted(name, result):
    maps = conv_maps(PLAIN, block_m=16, block_n=16, channels_per_step=8, c_pitch=16, k_pitch=24)
    assert all(isinstance(outcome, Proof) for outcome in claims.prove(maps))
    index_map = getattr(maps, name)
    off = changed(index_map, **{result: index_map[result] + BROKEN[name][result]})
    assert any(isinstance(outcome, Counterexample) for outcome in claims.prove(replace(maps, **{name: off})))


# ---- maps of shared activations --------------------------------------------------------------------------------------


@st.composite
def cuts(draw):
    """Maps of a small problem, cut in some way; None where the way is not one for it."""
    extent = (draw(st.integers(1, 8)), draw(st.integers(1, 9)))
    try:
        problem = ConvProblem(
            batch=draw(st.integers(1, 3)),
            in_channels=8,
            out_channels=8,
            in_extent=extent,
            kernel=(draw(st.integers(1, 3)), draw(st.integers(1, 5))),
            stride=(1, draw(st.integers(1, 2))),
            pad_lo=(1, draw(st.integers(0, 2))),
            pad_hi=(1, draw(st.integers(0, 2))),
        )
        geometry = {
            "merged": draw(st.booleans()),
            "border": draw(st.sampled_from(BORDERS)),
            "windowed": draw(st.booleans()),
        }
        return cut_maps(problem, lanes=64, **geometry)
    except (ProblemError, PlanError):
        return None


def counted_pixels(maps):
    """Whether each output pixel is that of one lane, with its number, by listing the lanes."""
    points, _ = grid(maps.pixel)
    size = points["lane"].shape
    held = np.broadcast_to(maps.pixel.holds(points), size)
    values = {name: np.broadcast_to(found, size)[held] for name, found in maps.pixel.evaluate(points).items()}
    out_h, out_w = maps.problem.out_extent
    right = values["m"] == (values["n"] * out_h + values["p"]) * out_w + values["q"]
    for name, extent in (("n", maps.problem.batch), ("p", out_h), ("q", out_w)):
        right = right & (values[name] >= 0) & (values[name] < extent)
    return bool(right.all()) and sorted(values["m"].tolist()) == list(range(maps.problem.gemm_m))


@settings(max_examples=some(150), deadline=None)
@given(cuts(), st.sampled_from(["n", "p", "q", "m", ""]), st.integers(-1, 1), st.booleans())
def test_pixels_are_decided_as_listing_the_lanes_does(maps, name, shift, unguarded):
    if maps is None:
        return
    pixel = changed(maps.pixel, **{name: maps.pixel[name] + shift}) if name else maps.pixel
    if unguarded:
        pixel = replace(pixel, guard=pixel.guard[1:])
    broken = replace(maps, pixel=pixel)
    if isinstance(reuse_claims.prove_tiles(broken), Proof):
        assert counted_pixels(broken)
    else:
        assert broken != maps
    assert isinstance(reuse_claims.prove_tiles(maps), Proof)
    assert counted_pixels(maps)


OFF = {
    "start": {"w": 1, "row": 1},
    "pixel": {"n": 1, "p": 1, "q": 1, "m": 1},
    "needed": {"w": 1},
    "held": {"row": 1, "w": 1},
    "column": {"need": 1, "held": 1, "passed": 1},
    "line": {"need": 1, "held": 1},
}


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(("name", "result"), [(name, result) for name in OFF for result in OFF[name]])
def test_a_map_of_shared_activations_that_is_off_is_refuted(name, result, merged, windowed):
    maps = cut_maps(PLAIN, merged=merged, border="mask", windowed=windowed)
    assert all(isinstance(outcome, Proof) for outcome in reuse_claims.prove(maps))
    if name == "line" and not maps.stream.masked:
        return  # no mask looks at it
    index_map = getattr(maps, name)
    broken = replace(maps, **{name: changed(index_map, **{result: index_map[result] + OFF[name][result]})})
    assert any(isinstance(outcome, Counterexample) for outcome in reuse_claims.prove(broken))


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(("s", "q"), [(0, 0), (2, 6)])
def test_a_lane_that_holds_a_pixel_where_it_needs_padding_is_refuted(s, q, merged):
    maps = cut_maps(PLAIN, merged=merged, border="zero")
    tap = next(tap for buffer in maps.walk.buffers for tap in buffer.taps if tap.s == s)
    assert isinstance(reuse_claims.prove_border(maps, tap), Proof)
    held = changed(maps.held, w=maps.held["w"] + 1)
    outcome = reuse_claims.prove_border(replace(maps, held=held), tap)
    assert isinstance(outcome, Counterexample)
    assert outcome.claim.endswith("and the lane holds padding")
    assert outcome.point == (("q", q),)


def test_a_map_that_is_off_at_one_lane_of_many_is_refuted_there():
    wide = replace(PLAIN, in_extent=(40000, 40000))
    maps = cut_maps(wide, merged=True, border="mask")
    tile, lane = (axis.symbol for axis in maps.pixel.domain)
    last = FloorDiv(tile * 128 + lane, 2 * 40000 * 40000 - 5)
    outcome = reuse_claims.prove_tiles(replace(maps, pixel=changed(maps.pixel, m=maps.pixel["m"] + last)))
    assert outcome.point == (("tile_m", 24999999), ("lane", 123))
