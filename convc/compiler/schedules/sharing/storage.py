"""The places of operands in a CTA that shares activations between filter columns, and the uses of its rings.

Activations and filter move at different paces, so each has a ring of its own. Shared memory, from its start: activation
tiles with their halo, filter tiles, barriers, the table of lane masks, the word for the address of tensor memory.
"""

from __future__ import annotations

from typing import Literal

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.names import A, B, RingName, TmemName
from convc.compiler.plan.records import Pipeline, Tiling
from convc.compiler.plan.storage import BarrierRing, SmemTile, aligned_stage, tile_ring
from convc.compiler.plan.work import UNROLLED_TURNS, RingUse
from convc.ir.problem import ConvProblem

FULL_A = RingName("full_a")
EMPTY_A = RingName("empty_a")
FULL_B = RingName("full_b")
EMPTY_B = RingName("empty_b")
A_TMEM = TmemName("a_tmem")
"""Activations in tensor memory."""


def operand_tiles(tiling: Tiling, rows: int) -> tuple[SmemTile, SmemTile]:
    """Rings of activation tiles of some rows, halo included, and of filter tiles."""
    a = tile_ring(A, rows, tiling.row_bytes, tiling.a_stages, 0, state="a")
    b = tile_ring(B, tiling.block_n, tiling.row_bytes, tiling.b_stages, a.end, state="b")
    return a, b


def operand_bytes(tiling: Tiling, rows: int) -> int:
    """Bytes of shared memory that `operand_tiles` take."""
    a = tiling.a_stages * aligned_stage(rows, tiling.row_bytes)
    return a + tiling.b_stages * aligned_stage(tiling.block_n, tiling.row_bytes)


def operand_rings(tiling: Tiling, given: int) -> tuple[BarrierRing, ...]:
    """`full_a`/`empty_a` and `full_b`/`empty_b` between load and mma; `given` arrivals give a stage back."""
    return (
        BarrierRing(name=FULL_A, stages=tiling.a_stages, producer="load", consumer="mma", state="a"),
        BarrierRing(name=EMPTY_A, stages=tiling.a_stages, producer="mma", consumer="load", state="a", arrivals=given),
        BarrierRing(name=FULL_B, stages=tiling.b_stages, producer="load", consumer="mma", state="b"),
        BarrierRing(name=EMPTY_B, stages=tiling.b_stages, producer="mma", consumer="load", state="b", arrivals=given),
    )


def operand_barriers(tiling: Tiling) -> int:
    """Barriers of `operand_rings`: two for every stage."""
    return 2 * (tiling.a_stages + tiling.b_stages)


def mask_entries(problem: ConvProblem, geometry: Geometry) -> int:
    """Entries of the mask table: filter columns, and filter rows behind them, as far as the cut masks any."""
    columns = problem.kernel[1] if geometry.walk.border == "mask" else 0
    return columns + (problem.kernel[0] if geometry.stream.masked else 0)


def ring_uses(
    tiling: Tiling, pipeline: Pipeline, geometry: Geometry, *, loop: Literal["all", "but last", "none"]
) -> tuple[RingUse, RingUse]:
    """Count the activation and filter tiles that go through their stages.

    Args:
        tiling, pipeline, geometry: the tiles, the K loop, and the sharing.
        loop: over which filter columns of a buffer the mma role has its innermost loop; where it has none that is the
            loop over channel blocks.
    """
    rounds = pipeline.taps[0] * pipeline.blocks
    columns = [len(buffer.taps) for buffer in geometry.walk.buffers]
    tiles = rounds * len(columns)
    steps = rounds * sum(columns)
    inside = {"all": steps, "but last": steps - tiles, "none": 0}[loop]
    turns = max(columns) - (loop == "but last") if inside else pipeline.blocks
    unrolled = turns <= UNROLLED_TURNS
    return (
        RingUse(steps=tiles, stages=tiling.a_stages, multiply_unrolled=tiles if unrolled and not inside else 0),
        RingUse(
            steps=steps,
            stages=tiling.b_stages,
            load_unrolled=steps if max(columns) <= UNROLLED_TURNS else 0,
            multiply_unrolled=(inside or steps) if unrolled else 0,
        ),
    )


def largest_halo(geometry: Geometry) -> int:
    """The longest halo of a buffer, in pixels."""
    return max(buffer.halo for buffer in geometry.walk.buffers)
