"""The pixels of an operand tile that the CTAs of a cluster bring in parts."""

from __future__ import annotations

from convc.compiler.index.conv import ConvMaps, conv_maps


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
