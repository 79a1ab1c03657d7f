"""A residual that arrives through tensor copies, ahead of need: its tile, its rings and its map.

A residual lies as the results will. Where the threads that add it read it, every lane of a warp reads 16 bytes of
another row, and waits for them when the accumulator is complete. Copies bring it while the K loop runs, a slab of
columns at a time, swizzled as the results are, so that eight lanes never meet in a bank. Two rings lead its slabs back
and forth: ``full_r`` says that one has landed, ``empty_r`` that it has been added. Rows and channels behind the output
arrive as zeros.
"""

from __future__ import annotations

import msgspec

from convc.compiler.plan.names import EMPTY_R, FULL_R, R
from convc.compiler.plan.records import Tiling
from convc.compiler.plan.result_tile import result_map, result_tile
from convc.compiler.plan.storage import BarrierRing, Storage, lay_out
from convc.compiler.plan.work import CtaWork
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Arch
from convc.ir.tensormap import TensorMap

STATE = "r"
"""The state of a role that says which slab of the residual it is at."""


def with_residual(storage: Storage, layout: DeviceLayout, tiling: Tiling, arch: Arch) -> Storage:
    """The memory of a CTA with a place for the residual of a whole tile, one stage a slab."""
    tile = msgspec.structs.replace(result_tile(layout, tiling), name=R, state=STATE)
    threads = arch.limits.tmem_lanes
    rings = (
        *storage.rings,
        BarrierRing(name=FULL_R, stages=tile.stages, producer="load", consumer="epilogue", state=STATE),
        BarrierRing(
            name=EMPTY_R, stages=tile.stages, producer="epilogue", consumer="load", state=STATE, arrivals=threads
        ),
    )
    return lay_out(
        storage.smem,
        storage.tmem,
        rings,
        arch,
        masks=storage.masks,
        results=storage.results,
        numbers=storage.numbers,
        residual=tile,
    )


def copied(work: CtaWork, layout: DeviceLayout, tiling: Tiling) -> CtaWork:
    """The work of a CTA whose residual arrives through copies."""
    return msgspec.structs.replace(work, residual_bytes=result_tile(layout, tiling).whole)


def residual_map(layout: DeviceLayout, tiling: Tiling) -> TensorMap:
    """The residual as a matrix of pixels by channels; a box is a slab of the tile."""
    return msgspec.structs.replace(result_map(layout, result_tile(layout, tiling), tiling.block_m), buffer="residual")
