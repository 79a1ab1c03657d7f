"""The output pixels of a warp: neighbours, so that one tensor copy can carry their results away."""

from __future__ import annotations

from convc.compiler.index.conv import ConvMaps
from convc.compiler.index.linear import Expr, Integer
from convc.compiler.index.lower import translate
from convc.compiler.index.maps import IndexMap, Outcome, Proof, prove_equal
from convc.compiler.index.symbols import Axis


def first_row(maps: ConvMaps, rows: int) -> IndexMap:
    """(tile_m, warp) -> m: the output pixel of the first of a warp's rows."""
    tile_m, _ = maps.row.domain
    warp = Axis("warp", maps.tiles.block_m // rows)
    m = _at_lane(maps, warp.symbol * rows)
    return IndexMap(name="first_row", domain=(tile_m, warp), results=(("m", m),))


def prove_rows(maps: ConvMaps, count: int) -> Outcome:
    """Whether the rows of a warp are neighbours in the output, and its columns are."""
    claim = f"the {count} rows of a warp are consecutive output pixels, at m*{maps.tiles.k_pitch} + k"
    first = first_row(maps, count)
    tile_m, warp = first.domain
    row = Axis("row", count)
    m = _at_lane(maps, warp.symbol * count + row.symbol)
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
    first = _at_lane(maps, Integer(0))
    return prove_equal(claim, _at_lane(maps, row.symbol), first + row.symbol, (tile_m, row))


def _at_lane(maps: ConvMaps, lane: Expr) -> Expr:
    """The output pixel of a lane."""
    return maps.row["m"].xreplace({axis.symbol: lane for axis in maps.row.domain if axis.name == "lane"})
