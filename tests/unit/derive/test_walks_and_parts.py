"""Persistent CTAs and split-K CTAs, derived for all sizes: what makes other sums is refused."""

from __future__ import annotations

import math
import random

import pytest
from support.derived_loops import changed_computes
from support.records import replace
from unit.derive.test_loops import drawn_form

from convc.compiler.index.changes import Change
from convc.compiler.index.conditions import conditions
from convc.compiler.index.maps import Counterexample, Proof
from convc.compiler.index.tile_order import order_of
from convc.derive import symbols as z
from convc.derive.forms import reload, stream_tiles
from convc.derive.nests import definition
from convc.derive.orders import rows
from convc.derive.parts import BLOCKS, TAPS, by_blocks, by_steps, shares
from convc.derive.reindex import reindexed
from convc.derive.rewrites import accumulate, interchange
from convc.derive.symbols import FloorDiv, Mod
from convc.derive.theorem import Refused, below, proved
from convc.derive.walks import fetched, strided

STEP = z.turn * z.CTAS + z.cta
BROKEN = {
    "CTAs that begin with tile 1": ([(STEP.xreplace({z.turn: 0 * z.turn}) + 1, z.cta)], [below(z.cta, z.CTAS)]),
    "turns and CTAs exchanged": ([(FloorDiv(STEP, z.CTAS), z.cta)], [below(z.cta, z.CTAS)]),
    "more CTAs than there are": ([(Mod(STEP, z.CTAS), z.cta)], [below(z.cta, z.CTAS + 1)]),
    "a tile behind the last": ([(Mod(z.tile + z.CTAS, z.GRID), z.tile + z.CTAS)], [below(z.tile, z.GRID)]),
    "blocks as the slow digit of a step": (
        [(FloorDiv(z.block * z.R + z.r, z.BLOCKS), z.r)],
        [below(z.r, z.R), below(z.block, z.BLOCKS)],
    ),
    "columns of the next CTA": (
        [(FloorDiv(z.part * z.OWN + z.chunk * z.SOME, z.OWN), z.part)],
        [below(z.chunk, z.OWN)],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_counts_otherwise_is_refused_with_numbers(name):
    says, given = BROKEN[name]
    with pytest.raises(Refused, match=r"fails at \w+ = \d+.* is false"):
        proved(name, says, given)


REFUSED = {
    "a loop over tiles that have no number": (lambda: reindexed(reload(), strided()), "no loop tile;"),
    "tiles that are fetched twice": (
        lambda: reindexed(reindexed(reindexed(reload(), rows()), fetched()), strided()),
        "no loop tile;",
    ),
    "a split of steps with a load between": (
        lambda: reindexed(stream_tiles("outer", "contiguous"), by_steps((TAPS[0], TAPS[1], BLOCKS))),
        "no neighbours",
    ),
    "a split without sums": (
        lambda: reindexed(
            interchange(definition(), (z.n, z.p, z.q, z.k, z.r, z.s, z.c)),
            by_steps((TAPS[0], TAPS[1], (z.c, z.C, ""))),
        ),
        "accumulate first",
    ),
    "a split inside of which sums go on": (
        lambda: reindexed(
            accumulate(interchange(definition(), (z.k, z.n, z.p, z.q, z.r, z.s, z.c)), z.q),
            by_steps((TAPS[1], (z.c, z.C, ""))),
        ),
        "accumulate first",
    ),
    "a split twice": (
        lambda: reindexed(reindexed(reload(), by_steps((*TAPS, BLOCKS))), by_blocks((*TAPS, BLOCKS))),
        "no loop r;",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_does_not_fit_says_why(name):
    rewrite, why = REFUSED[name]
    with pytest.raises(Refused, match=why):
        rewrite()


def test_a_walk_keeps_what_stands_inside_of_a_tile():
    nest = reindexed(reindexed(reload(), rows()), strided())
    assert nest.axes[:2] == (z.cta, z.turn)
    assert nest.accumulate == z.turn
    assert [let.axis for let in nest.lets] == [z.tile, z.tile_m, z.tile_n]
    assert {let.inside for let in nest.lets} == {z.turn}


def test_sums_are_those_of_a_part():
    for change in list(shares())[:2]:
        nest = reindexed(reload(), change)
        assert nest.accumulate == nest.added == z.part
        assert nest.load is not None
        assert nest.load.inside == z.turn


def grid_of(instance):
    sizes = instance.sizes
    return (sizes["TILES"] if "merged" in instance.form else sizes["TILES_M"], sizes["TILES_N"])


def split_of(instance, parts, *, whole):
    sizes = instance.sizes
    reload = instance.form == "reload"
    units = sizes["BLOCKS"] * (1 if whole else sizes["R"] * (sizes["S"] if reload else 1))
    numbers = {"PARTS": parts, "TURNS": -(-units // parts), "OWN": sizes["BN"] // parts, "SOME": 1}
    numbers |= {"CHUNKS": numbers["OWN"], "RANKS": parts, "CLUSTERS": 1, "BM": 32, "WARPS": 1}
    return Change(
        f"split K by {'blocks' if whole else 'steps'} {'r, s, block' if reload else 'r, block'}", {**sizes, **numbers}
    )


@pytest.mark.parametrize("seed", range(12))
def test_loops_of_walking_ctas_make_the_sums_of_the_definition(seed):
    problem, instance, _ = drawn_form(seed)
    tiles = grid_of(instance)
    grid = math.prod(tiles)
    drawn = random.Random(seed)
    ctas = drawn.randint(1, grid)
    order = order_of(drawn.choice(("rows", "columns", "boustrophedon")), tiles).change
    walk = Change("walk", {**order.sizes, "GRID": grid, "CTAS": ctas, "TURNS": -(-grid // ctas)})
    assert all(isinstance(each, Proof) for each in conditions(walk))
    assert changed_computes(problem, instance, order, walk), instance.form
    for name, by in (("TURNS", -1), ("CTAS", -1), ("GRID", -1), ("GRID", 1)):
        wrong = replace(walk, sizes={**walk.sizes, name: walk.sizes[name] + by})
        if wrong.sizes[name] > 0 and not changed_computes(problem, instance, order, wrong):
            assert any(isinstance(each, Counterexample) for each in conditions(wrong)), (name, by)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("whole", [False, True])
def test_loops_of_ctas_that_share_a_tile_make_the_sums_of_the_definition(seed, whole):
    problem, instance, _ = drawn_form(seed)
    split = split_of(instance, 2, whole=whole)
    met = all(isinstance(each, Proof) for each in conditions(split))
    if instance.sizes["BN"] % 2 == 0 and (not whole or instance.sizes["BLOCKS"] % 2 == 0):
        assert met
        assert changed_computes(problem, instance, split), instance.form
    for name in ("TURNS", "PARTS"):
        wrong = replace(split, sizes={**split.sizes, name: split.sizes[name] - 1})
        if wrong.sizes[name] > 0 and not changed_computes(problem, instance, wrong):
            assert any(isinstance(each, Counterexample) for each in conditions(wrong)), name
