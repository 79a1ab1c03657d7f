"""Index maps as text: what ``inspect`` prints."""

from __future__ import annotations

from convc.compiler.index.conv import conv_maps
from convc.compiler.index.maps import IndexMap, at_most
from convc.compiler.index.show import loop_nest, map_lines
from convc.compiler.index.symbols import Axis
from convc.ir.problem import ConvProblem


def _maps():
    problem = ConvProblem(
        in_channels=20, out_channels=24, in_extent=(9, 10), kernel=(3, 3), stride=(2, 2), pad_lo=(1, 1), pad_hi=(1, 1)
    )
    return conv_maps(problem, block_m=16, block_n=16, channels_per_step=16, c_pitch=24, k_pitch=24)


def test_a_map_is_a_few_lines():
    w = Axis("w", 9, first=-1)
    index_map = IndexMap(name="inside", domain=(w,), results=(("w", w.symbol),), guard=(at_most(0, w.symbol),))
    assert map_lines(index_map) == ["inside(-1 <= w < 8) -> w", "    w = w", "    where 0 <= w"]


def test_a_map_is_shown_with_its_conditions():
    maps = _maps()
    assert map_lines(maps.row) == [
        "row(tile_m < 2, lane < 16) -> m",
        "    m = tile_m*16 + lane",
        "    where tile_m*16 + lane < 25",
    ]
    assert map_lines(maps.store) == [
        "store(tile_m < 2, lane < 16, tile_n < 2, column < 16) -> offset",
        "    offset = tile_m*384 + lane*24 + tile_n*16 + column",
        "    where tile_n*16 + column < 24",
        "    where tile_m*16 + lane < 25",
    ]


def test_the_loop_nest():
    assert loop_nest(_maps()) == [
        "for tile_m in 0..1:               # grid x: 16 output pixels each, M = 25",
        "  for tile_n in 0..1:             # grid y: 16 output channels each, K = 24",
        "    for r in 0..2:                # filter rows",
        "      for s in 0..2:              # filter columns",
        "        for block in 0..1:        # 16 channels each, C = 20, pitch 24",
        "          for lane in 0..15:      # tensor core: rows",
        "            for column in 0..15:  # tensor core: columns",
        "              for e in 0..15:     # tensor core: sum",
        "                acc[lane, column] += A[operand_a(tile_m, lane, r, s, block, e)]"
        " * B[operand_b(tile_n, column, r, s, block, e)]",
        "    out[store(tile_m, lane, tile_n, column)] = acc[lane, column] + bias[column(tile_n, column)]",
    ]


def test_tiles_that_are_no_grid_are_walked_over():
    assert "# tiles along M: 16 output pixels each" in loop_nest(_maps(), own_ctas=False)[0]
