"""The index maps of a kernel that loads a tile of its own for every filter tap.

The schedule takes its coordinates from them, and ``inspect`` shows them: they are derived here alone, so that what is
shown is what the kernel computes.
"""

from __future__ import annotations

from collections.abc import Mapping

from convc.compiler.index.changes import Fact
from convc.compiler.index.conv import tiled
from convc.compiler.index.formulas import Instance, further
from convc.compiler.index.maps import IndexMap
from convc.compiler.plan.tiling import Tiling
from convc.host_layout.device_layout import DeviceLayout


def tap_maps(
    layout: DeviceLayout, tiling: Tiling, channels: int, tiles_m: int, numbers: Mapping[str, int] | None = None
) -> Instance:
    """Give the derivation with the numbers of a tiling; nothing is proved yet.

    Args:
        layout: the problem and its buffers.
        tiling: the tiles of a CTA.
        channels: of a step of the K loop.
        tiles_m: tiles along M of the launch; clusters may have more than there are pixels for.
        numbers: further ones.
    """
    return tiled(
        layout.problem,
        block_m=tiling.block_m,
        block_n=tiling.block_n,
        channels_per_step=channels,
        c_pitch=layout.c_pitch,
        k_pitch=layout.k_pitch,
        m_tiles=tiles_m,
        tiling=numbers,
    )


def first_filter(reload: Instance, ctas: int) -> IndexMap:
    """(tile_n, rank) -> k: the output channel of the first filter row that a CTA brings."""
    return further(reload, {"PIECE": reload.sizes["BN"] // ctas}, rank=ctas).map("first_filter")


def warp_rows(reload: Instance, rows: int) -> Fact:
    """That the rows of a warp are consecutive output pixels."""
    block_m = reload.sizes["BM"]
    return Fact("rows of a warp", {"BM": block_m, "WARP": rows, "WARPS": block_m // rows})


def first_row(reload: Instance, rows: int) -> IndexMap:
    """(tile_m, warp) -> m: the output pixel of the first of a warp's rows."""
    sizes = warp_rows(reload, rows).sizes
    return further(reload, sizes, warp=sizes["WARPS"]).map("first_row")


def start_of(reload: Instance, tiling: Tiling) -> IndexMap:
    """The map to the start of a CTA's copies of activations: of its tile, or of the part of it that it brings."""
    pieces = tiling.multicast[1]
    block_m = reload.sizes["BM"] // pieces
    tiles = reload.sizes["TILES_M"] * pieces
    parts = further(reload, {"BM": block_m, "TILES_M": tiles}, tile_m=tiles, lane=block_m)
    return (reload if pieces == 1 else parts).map("start")


def filter_start_of(reload: Instance, tiling: Tiling) -> IndexMap | None:
    """The map to the first filter row that a CTA brings, as one of those that bring a tile; None: it brings all."""
    together = tiling.ctas if tiling.ctas > 1 else tiling.multicast[0]
    return first_filter(reload, together) if together > 1 else None


def cluster_maps(reload: Instance, tiling: Tiling, warp_rows: int | None) -> tuple[IndexMap, ...]:
    """The maps that a kernel has besides those of its tiles: of the parts that CTAs bring, of rows that a warp stores.

    Args:
        reload, tiling: of the kernel.
        warp_rows: rows that a warp stores through tensor copies; None where results leave from registers.
    """
    parts = (start_of(reload, tiling),) if tiling.multicast[1] > 1 else ()
    filters = filter_start_of(reload, tiling)
    rows = () if warp_rows is None else (first_row(reload, warp_rows),)
    return (*parts, *(() if filters is None else (filters,)), *rows)
