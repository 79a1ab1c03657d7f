"""The index maps of a kernel that loads a tile of its own for every filter tap.

The schedule takes its coordinates from them, and ``inspect`` shows them: they are derived here alone, so that what is
shown is what the kernel computes.
"""

from __future__ import annotations

from convc.compiler.index.changes import Fact
from convc.compiler.index.conv import ConvMaps, conv_maps, instance_of
from convc.compiler.index.formulas import further
from convc.compiler.index.maps import IndexMap
from convc.compiler.plan.tiling import Tiling
from convc.layout.device_layout import DeviceLayout


def tap_maps(layout: DeviceLayout, tiling: Tiling, channels: int, tiles_m: int) -> ConvMaps:
    """Derive the maps of a tiling; nothing is proved yet.

    Args:
        layout: the problem and its buffers.
        tiling: the tiles of a CTA.
        channels: of a step of the K loop.
        tiles_m: tiles along M of the launch; clusters may have more than there are pixels for.
    """
    return conv_maps(
        layout.problem,
        block_m=tiling.block_m,
        block_n=tiling.block_n,
        channels_per_step=channels,
        c_pitch=layout.c_pitch,
        k_pitch=layout.k_pitch,
        m_tiles=tiles_m,
    )


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


def first_filter(maps: ConvMaps, ctas: int) -> IndexMap:
    """(tile_n, rank) -> k: the output channel of the first filter row that a CTA brings."""
    own = further(instance_of(maps.problem, maps.tiles), {"PIECE": maps.tiles.block_n // ctas}, rank=ctas)
    return own.map("first_filter")


def warp_rows(maps: ConvMaps, rows: int) -> Fact:
    """That the rows of a warp are consecutive output pixels."""
    block_m = maps.tiles.block_m
    return Fact("rows of a warp", {"BM": block_m, "WARP": rows, "WARPS": block_m // rows})


def first_row(maps: ConvMaps, rows: int) -> IndexMap:
    """(tile_m, warp) -> m: the output pixel of the first of a warp's rows."""
    fact = warp_rows(maps, rows)
    own = further(instance_of(maps.problem, maps.tiles), fact.sizes, warp=fact.sizes["WARPS"])
    return own.map("first_row")


def start_of(maps: ConvMaps, tiling: Tiling) -> IndexMap:
    """The map to the start of a CTA's copies of activations: of its tile, or of the part of it that it brings."""
    pieces = tiling.multicast[1]
    return (maps if pieces == 1 else pieces_of(maps, pieces)).start


def filter_start_of(maps: ConvMaps, tiling: Tiling) -> IndexMap | None:
    """The map to the first filter row that a CTA brings, as one of those that bring a tile; None: it brings all."""
    together = tiling.ctas if tiling.ctas > 1 else tiling.multicast[0]
    return first_filter(maps, together) if together > 1 else None


def cluster_maps(maps: ConvMaps, tiling: Tiling, warp_rows: int | None) -> tuple[IndexMap, ...]:
    """The maps that a kernel has besides those of its tiles: of the parts that CTAs bring, of rows that a warp stores.

    Args:
        maps, tiling: of the kernel.
        warp_rows: rows that a warp stores through tensor copies; None where results leave from registers.
    """
    parts = (start_of(maps, tiling),) if tiling.multicast[1] > 1 else ()
    filters = filter_start_of(maps, tiling)
    rows = () if warp_rows is None else (first_row(maps, warp_rows),)
    return (*parts, *(() if filters is None else (filters,)), *rows)
