"""Where operands lie in a CTA that shares activations between filter columns, and what its K loop does.

Activations and filter move at different paces, so each has a ring of its own. Shared memory, from its start: activation
tiles with their halo, filter tiles, barriers, the table of lane masks, the word for the address of tensor memory.
"""

from __future__ import annotations

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.names import A, B, RingName, TmemName
from convc.compiler.plan.records import Tiling
from convc.compiler.plan.storage import BarrierRing, SmemTile, tile_ring
from convc.compiler.plan.work import RingUse
from convc.compiler.schedules.skeleton import DONE
from convc.ir.problem import ConvProblem

FULL_A, FREE_A = RingName("full_a"), RingName("free_a")
FULL_B, FREE_B = RingName("full_b"), RingName("free_b")
HELD = TmemName("held")
"""Activations in tensor memory."""


def operand_tiles(tiling: Tiling, rows: int) -> tuple[SmemTile, SmemTile]:
    """Rings of activation tiles of some rows, halo included, and of filter tiles."""
    a = tile_ring(A, rows, tiling.row_bytes, tiling.held, 0, cursor="a")
    b = tile_ring(B, tiling.block_n, tiling.row_bytes, tiling.stages, a.end, cursor="b")
    return a, b


def operand_rings(tiling: Tiling) -> tuple[BarrierRing, ...]:
    """`full_a`/`free_a` and `full_b`/`free_b` between load and mma."""
    return (
        BarrierRing(name=FULL_A, stages=tiling.held, producer="load", consumer="mma", cursor="a"),
        BarrierRing(name=FREE_A, stages=tiling.held, producer="mma", consumer="load", cursor="a"),
        BarrierRing(name=FULL_B, stages=tiling.stages, producer="load", consumer="mma", cursor="b"),
        BarrierRing(name=FREE_B, stages=tiling.stages, producer="mma", consumer="load", cursor="b"),
    )


def done_ring() -> BarrierRing:
    """`done`: the accumulator is complete."""
    return BarrierRing(name=DONE, stages=1, producer="mma", consumer="store")


def mask_entries(problem: ConvProblem, geometry: Geometry) -> int:
    """Entries of the mask table: filter columns, and filter rows behind them, as far as the cut masks any."""
    columns = problem.kernel[1] if geometry.walk.border == "mask" else 0
    return columns + (problem.kernel[0] if geometry.stream.masked else 0)


def ring_uses(tiling: Tiling, rounds: int, geometry: Geometry) -> tuple[RingUse, RingUse]:
    """How many activation and filter tiles go through their stages, in so many filter rows and channel blocks."""
    taps = sum(len(buffer.taps) for buffer in geometry.walk.buffers)
    return (
        RingUse(steps=rounds * len(geometry.walk.buffers), stages=tiling.held),
        RingUse(steps=rounds * taps, stages=tiling.stages),
    )


def largest_halo(geometry: Geometry) -> int:
    """The longest halo of a buffer, in pixels."""
    return max(buffer.halo for buffer in geometry.walk.buffers)
