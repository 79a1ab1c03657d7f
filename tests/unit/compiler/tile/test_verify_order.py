"""A kernel whose tiles are made in an order, with one thing wrong, is found out."""

from __future__ import annotations

import pytest
from support.records import replace
from unit.compiler.tile.test_verify_program import at, rewrite, without

from convc.compiler.index.order_names import COLUMNS, HILBERT
from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.compiler.schedules.program import build
from convc.compiler.tile.verify import contradictions
from convc.host_layout.device_layout import device_layout
from convc.ir.expr import Const, Var
from convc.ir.problem import ConvProblem

PROBLEM = ConvProblem(name="p", in_channels=64, out_channels=80, in_extent=(20, 20), kernel=(1, 1), bias=True)


def made(order, **more):
    options = ScheduleOptions(schedule="reload", rasterization_order=order, **more)
    return build(plan(device_layout(PROBLEM), options=options, block_n=16))


ALONE = made(COLUMNS)
WALKED = made(COLUMNS, persistent="on", ctas=3)
LOOKED_UP = made(HILBERT)
CTA = Var("cta")


@pytest.mark.parametrize("program", [ALONE, WALKED, LOOKED_UP], ids=["alone", "walked", "looked up"])
def test_what_is_built_is_sound(program):
    assert contradictions(program) == ()
    assert program.ordered == (4, 5)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (at("load.tile_n", expr=Const(0)), "tile (0, 0) has 5 numbers, and another one has none"),
        (at("load.tile_m", expr=CTA % 4), "find other places for a tile: tile_m differs"),
        (at("load.tile_m", expr=CTA // 4), "load.tile_m is 0 .. 4, and said to be below 4"),
        (at("load.tile_m", expr=CTA // 4, below=None), "find other places for a tile: tile_m differs"),
    ],
)
def test_every_mistake_is_named(edit, sentence):
    assert any(sentence in found for found in contradictions(rewrite(ALONE, edit)))


def test_a_place_outside_and_a_place_that_nobody_finds_are_named():
    def both(program, **change):
        for role in ("load", "epilogue"):
            program = rewrite(program, at(f"{role}.tile_m", **change))
        return program

    outside = both(ALONE, expr=CTA // 5 + 1, below=None)
    assert "a number leads to tile (4, 0) of 4 x 5" in contradictions(outside)
    nobody = rewrite(rewrite(ALONE, without("load.tile_m")), without("epilogue.tile_m"))
    assert any("reads tile_m, which nothing sets before" in sentence for sentence in contradictions(nobody))
    twice = both(WALKED, expr=Var("tile") % 4)
    assert contradictions(twice) == ()  # as 4 and 5 have no common divisor, that is an order too
    twice = both(WALKED, expr=Var("tile") // 10)
    assert "tile (0, 0) has 2 numbers, and another one has none" in contradictions(twice)


def test_a_grid_of_other_tiles_and_a_short_table_are_named():
    launch = replace(ALONE.launch, grid=(10, 2, 1))
    found = contradictions(replace(ALONE, launch=launch))
    assert any("20 tiles are made in an order, each by its own CTA, and the grid is 10 x 2" in each for each in found)
    short = replace(LOOKED_UP, table=LOOKED_UP.table[:-1])
    assert any("looks up entry 19 of 19" in each for each in contradictions(short))
    again = replace(LOOKED_UP, table=(*LOOKED_UP.table[:-1], LOOKED_UP.table[0]))
    assert any("has 2 numbers, and another one has none" in each for each in contradictions(again))
