"""The output pixels of a warp: 32 in a row, so that one tensor copy can carry their results away."""

from __future__ import annotations

import sympy

from convc.compiler.index.conv import ConvMaps
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import IndexMap, Outcome, Proof, prove_equal
from convc.compiler.index.symbols import Axis
from convc.ir.arch import SM_100A

WARP_ROWS = SM_100A.limits.tmem_part_lanes


def first_row(maps: ConvMaps) -> IndexMap:
    """(tile_m, warp) -> m: the output pixel of a warp's first row."""
    tile_m, _ = maps.row.domain
    warp = Axis("warp", maps.tiles.block_m // WARP_ROWS)
    m = _at_lane(maps, warp.symbol * WARP_ROWS)
    return IndexMap(name="first_row", domain=(tile_m, warp), results=(("m", m),))


def prove_rows(maps: ConvMaps) -> Outcome:
    """Whether the rows of a warp are neighbours in the output, and its columns are."""
    claim = f"the {WARP_ROWS} rows of a warp are consecutive output pixels, at m*{maps.tiles.k_pitch} + k"
    first = first_row(maps)
    tile_m, warp = first.domain
    row = Axis("row", WARP_ROWS)
    m = _at_lane(maps, warp.symbol * WARP_ROWS + row.symbol)
    rows = prove_equal(claim, m, first["m"] + row.symbol, (tile_m, warp, row))
    if not isinstance(rows, Proof):
        return rows
    offset = maps.row["m"] * maps.tiles.k_pitch + maps.column["k"]
    places = prove_equal(claim, maps.store["offset"], offset, maps.store.domain)
    return Proof(claim, f"m = {translate(first['m'])} + row") if isinstance(places, Proof) else places


def prove_tile(maps: ConvMaps) -> Outcome:
    """Whether the rows of a tile are neighbours in the output."""
    claim = f"the {maps.tiles.block_m} rows of a tile are consecutive output pixels"
    tile_m, _ = maps.row.domain
    row = Axis("row", maps.tiles.block_m)
    first = _at_lane(maps, sympy.Integer(0))
    return prove_equal(claim, _at_lane(maps, row.symbol), first + row.symbol, (tile_m, row))


def _at_lane(maps: ConvMaps, lane: sympy.Expr) -> sympy.Expr:
    """The output pixel of a lane."""
    return maps.row["m"].xreplace({axis.symbol: lane for axis in maps.row.domain if axis.name == "lane"})
