"""The filter rows of a CTA pair: each CTA brings half of what a tile needs, and no row is brought twice."""

from __future__ import annotations

from convc.compiler.index.conv import ConvMaps
from convc.compiler.index.maps import IndexMap
from convc.compiler.index.symbols import Axis


def first_filter(maps: ConvMaps, ctas: int) -> IndexMap:
    """(tile_n, rank) -> k: the output channel of the first filter row that a CTA brings."""
    tile_n, column = maps.column.domain
    rank = Axis("rank", ctas)
    first = maps.column["k"].xreplace({column.symbol: rank.symbol * (maps.tiles.block_n // ctas)})
    return IndexMap(name="first_filter", domain=(tile_n, rank), results=(("k", first),))
