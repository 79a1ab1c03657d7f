"""The filter rows of a CTA pair: each CTA brings half of what a tile needs, and no row is brought twice."""

from __future__ import annotations

from convc.compiler.index.conv import ConvMaps
from convc.compiler.index.maps import IndexMap, Outcome, prove_equal
from convc.compiler.index.symbols import Axis


def first_filter(maps: ConvMaps, ctas: int) -> IndexMap:
    """(tile_n, rank) -> k: the output channel of the first filter row that a CTA brings."""
    tile_n, column = maps.column.domain
    rank = Axis("rank", ctas)
    first = maps.column["k"].xreplace({column.symbol: rank.symbol * (maps.tiles.block_n // ctas)})
    return IndexMap(name="first_filter", domain=(tile_n, rank), results=(("k", first),))


def prove_halves(maps: ConvMaps, ctas: int) -> Outcome:
    """Whether the rows that the CTAs of a group bring, one after the other, are the columns of the tile."""
    each = maps.tiles.block_n // ctas
    claim = f"row i of CTA r of {ctas} is column {each}*r + i of the tile"
    tile_n, column = maps.column.domain
    rank = Axis("rank", ctas)
    row = Axis("row", each)
    place = rank.symbol * each + row.symbol
    brought = first_filter(maps, ctas)["k"] + row.symbol
    return prove_equal(claim, brought, maps.column["k"].xreplace({column.symbol: place}), (tile_n, rank, row))
