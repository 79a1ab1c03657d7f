"""Rewrites of loop nests: the right ones keep every product, the wrong ones are refused, with what went wrong."""

from __future__ import annotations

import pytest
from support.cut_maps import cut_maps
from support.nests import MMA, PROBLEM, proved, refused
from support.records import replace

from convc.compiler.index.maps import Proof
from convc.compiler.schedules.all import CHAIN, STATIONARY
from convc.explain.derivation import derive
from convc.explain.nests import Move, Nest, plain
from convc.explain.products import same_products
from convc.explain.reuse_rewrites import (
    accumulate,
    hoist,
    mask_lanes,
    shift_instead_of_load,
    stage,
    swap_operands,
)
from convc.explain.rewrites import flatten, interchange, split_taps, tile

REDUCED = ("p", "tile", "tile_n", "r", "block", "s", "lane", "column", "e")


@pytest.fixture(scope="module")
def maps():
    return cut_maps(PROBLEM, merged=False, border="mask", lanes=16)


@pytest.fixture(scope="module")
def nests(maps) -> dict[str, Nest]:
    """The nest of every algorithm on the way to `shift`, and `stationary`."""
    found = {"stationary": derive(maps, STATIONARY, MMA).algorithms[-1].nest}
    definition, reload, slide, shift = (each.nest for each in derive(maps, CHAIN, MMA).algorithms)
    return found | {"definition": definition, "reload": reload, "slide": slide, "shift": shift}


# ---- loops -----------------------------------------------------------------------------------------------------------


def test_plain_loops_run_in_any_order():
    nest = plain(PROBLEM)
    for order in ("pnqkcrs", "srckqpn", "crsnpqk"):
        assert proved(interchange(nest, order)).names == tuple(order)


def test_a_sum_that_is_stored_and_goes_on_is_refused(nests):
    order = ("p", "tile", "r", "tile_n", "block", "s", "lane", "column", "e")
    said = refused(interchange(nests["reload"], order))
    assert "r = 0" in said
    assert "out[0, 0, 0, 0] lacks x[0, 0, 0, 0] * w[0, 0, 1, 0]" in said


def test_an_accumulator_for_two_tiles_is_refused(nests):
    order = ("p", "tile_n", "tile", "r", "block", "s", "lane", "column", "e")
    said = refused(interchange(nests["reload"], order))
    assert "the accumulate inside tile_n depends on tile, which is not known there" in said


def test_a_load_before_its_loop_is_refused(nests):
    order = ("p", "tile", "tile_n", "r", "s", "block", "lane", "column", "e")
    assert "the load inside s depends on block" in refused(interchange(nests["reload"], order))


def test_rows_that_move_need_their_own_copy(nests):
    """Loading again for every tap is a waste in `slide`, and wrong in `shift`: the new rows have not moved."""
    order = ("p", "tile", "tile_n", "r", "block", "tap", "buffer", "lane", "column", "e")
    proved(interchange(nests["slide"], order))
    said = refused(interchange(nests["shift"], order))
    assert "tap = 1" in said
    assert "out[0, 0, 0, 0] lacks x[0, 0, 0, 0] * w[0, 0, 1, 0]" in said


@pytest.mark.parametrize(
    ("period", "said"), [(9, ""), (11, ""), (8, "at n = 0, q = 8: it is left out"), (7, "n = 0, q = 7: it is left")]
)
def test_a_period_shorter_than_a_row_is_refused(period, said):
    step = flatten(interchange(plain(PROBLEM), "pnqkcrs").nest, ("n", "q"), "t", (period,))
    if said:
        assert said in refused(step)
    else:
        assert ("t", 9 + period) in [(axis.name, axis.extent) for axis in proved(step).loops]


@pytest.mark.parametrize(
    ("size", "tiles", "said"),
    [(4, None, ""), (4, 2, ""), (6, None, ""), (4, 3, ""), (5, 1, "at k = 5: it is left out"), (2, 2, "at k = 4")],
)
def test_tiles_that_do_not_cover_are_refused(size, tiles, said):
    step = tile(plain(PROBLEM), "k", ("tile_n", "column"), size, tiles=tiles)
    if said:
        assert said in refused(step)
    else:
        proved(step)


def test_loops_that_are_not_there_are_errors(nests):
    nest = plain(PROBLEM)
    with pytest.raises(ValueError, match="no loop 'lane'; its loops are n, p, q, k, c, r, s"):
        tile(nest, "lane", ("a", "b"), 4)
    with pytest.raises(ValueError, match="an order of n, p, q, k, c, r, s was expected, got n, p"):
        interchange(nest, "np")
    with pytest.raises(ValueError, match="interchange them first"):
        flatten(nest, ("n", "q"), "t", (9,))
    with pytest.raises(ValueError, match="a statement inside tile_n stands between"):
        flatten(nests["reload"], ("tile_n", "r"), "t", (3,))
    with pytest.raises(ValueError, match="stage them first"):
        shift_instead_of_load(nest, cut_maps(PROBLEM, merged=False, border="mask", lanes=16))


# ---- reuse -----------------------------------------------------------------------------------------------------------


def test_an_accumulator_inside_its_sum_is_refused(nests):
    tiled = replace(nests["reload"], body=(), read=None)
    said = refused(accumulate(tiled, "r"))
    assert "at r = 1: its sum goes on after it was stored" in said


def test_a_tile_that_depends_on_its_own_filter_column_is_refused(nests):
    tiled = replace(nests["reload"], body=(), read=None)
    assert "the load inside block depends on s, which is not known there" in refused(stage(tiled, "block"))


def test_a_hoist_without_masks_is_refused(nests, maps):
    split = proved(split_taps(nests["reload"], 1))
    said = refused(hoist(split, maps))
    assert "without a mask lane 9 would add pixel (n=0, h=0, w=8) where (n=1, h=0, w=-1) is padding" in said
    proved(hoist(proved(mask_lanes(split, maps)), maps))


def test_without_the_claims_running_finds_the_foreign_pixel(nests, maps, monkeypatch):
    """The second check alone: the product that a missing mask adds is found by running both nests."""
    monkeypatch.setattr("convc.explain.reuse_rewrites.prove_reuse", lambda nest, maps: Proof("reuse", "not looked at"))
    said = refused(hoist(proved(split_taps(nests["reload"], 1)), maps))
    assert "out[0, 0, 8, 0] gets x[1, 0, 0, 0] * w[0, 0, 2, 0], where x[0, 0, 9, 0], padding, is needed" in said


def test_taps_split_by_another_cycle_are_refused(nests, maps):
    masked = mask_lanes(proved(split_taps(nests["reload"], 2)), maps)
    said = refused(hoist(proved(masked), maps))
    assert "at buffer = 0, tap = 1: filter column 1 belongs there, 1 lanes from the first" in said


def test_lanes_of_another_stream_are_refused(nests, maps):
    longer = flatten(interchange(plain(PROBLEM), "pnqkcrs").nest, ("n", "q"), "t", (10,)).nest
    for name, into, size in (("t", ("tile", "lane"), 16), ("k", ("tile_n", "column"), 4), ("c", ("block", "e"), 2)):
        longer = proved(tile(longer, name, into, size))
    staged = proved(stage(proved(accumulate(proved(interchange(longer, REDUCED)), "tile_n")), "s"))
    said = refused(mask_lanes(proved(split_taps(staged, 1)), maps))
    assert "lane of tile is place t = tile*16 + lane of the stream, with 9 per row" in said
    assert "lane = 9" in said


def test_rows_that_nobody_refreshes_are_refused(nests):
    shift = nests["shift"]
    still = replace(shift, body=tuple(replace(e, refreshed=False) if isinstance(e, Move) else e for e in shift.body))
    said = str(same_products(nests["slide"], still, "rows move"))
    assert "tap = 2, lane = 14" in said  # what lane 15 kept has moved on
    assert "out[1, 0, 5, 0] gets x[1, 0, 5, 0] * w[0, 0, 2, 0], where x[1, 0, 6, 0] is needed" in said


def test_swapping_twice_is_nothing(nests):
    slide, stationary = nests["slide"], nests["stationary"]
    assert [axis.extent for axis in stationary.loops if axis.name in ("lane", "column")] == [4, 16]
    again = proved(swap_operands(stationary))
    assert (again.space.results, again.read, again.swapped) == (slide.space.results, slide.read, False)
