"""Index maps as text: what ``inspect`` prints."""

from __future__ import annotations

from convc.compiler.index.conv import conv_maps
from convc.compiler.index.maps import IndexMap, at_most
from convc.compiler.index.show import map_lines
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
