"""The pixels of an operand tile that the CTAs of a cluster bring in parts."""

from __future__ import annotations

from convc.compiler.index.conv import ConvMaps, conv_maps
from convc.compiler.index.maps import Outcome, prove_equal
from convc.compiler.index.symbols import Axis


def pieces_of(maps: ConvMaps, pieces: int) -> ConvMaps:
    """Derive the maps of tiles that are the parts of those of `maps`, one after the other along the pixels."""
    tiles = maps.tiles
    return conv_maps(
        maps.problem,
        block_m=tiles.block_m // pieces,
        block_n=tiles.block_n,
        channels_per_step=tiles.channels_per_step,
        c_pitch=tiles.c_pitch,
        k_pitch=tiles.k_pitch,
        m_tiles=tiles.m_tiles * pieces,
    )


def prove_pieces(maps: ConvMaps, parts: ConvMaps) -> Outcome:
    """Whether the pixels of the parts, one after the other, are those of the tile."""
    pieces = parts.tiles.m_tiles // maps.tiles.m_tiles
    each = parts.tiles.block_m
    claim = f"pixel i of part p of {pieces} is lane {each}*p + i of the tile"
    tile_m, lane = maps.row.domain
    part_m, part_lane = parts.row.domain
    part = Axis("part", pieces)
    row = Axis("row", each)
    number = {part_m.symbol: tile_m.symbol * pieces + part.symbol, part_lane.symbol: row.symbol}
    place = {lane.symbol: part.symbol * each + row.symbol}
    brought = parts.row["m"].xreplace(number)
    return prove_equal(claim, brought, maps.row["m"].xreplace(place), (tile_m, part, row))
