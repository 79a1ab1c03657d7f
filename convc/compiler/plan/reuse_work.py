"""What one CTA does when it shares activations between filter columns (see `convc.compiler.plan.reuse`)."""

from __future__ import annotations

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.records import Pipeline, Tiling
from convc.compiler.plan.reuse_storage import tile_rows, waits
from convc.compiler.plan.work import STORE_BYTES, CtaWork, RingUse


def reuse_work(
    tiling: Tiling, pipeline: Pipeline, schedule: str, variant: str, cut: Geometry, out_bytes: int
) -> CtaWork:
    """Count the K loop: filter rows and channel blocks outside, buffers inside, their filter columns innermost."""
    rows, taps = pipeline.taps
    rounds, buffers = rows * pipeline.blocks, cut.walk.buffers
    stationary, atoms = schedule == "stationary", pipeline.atoms
    filter_rows = tiling.block_n
    moves = [buffer.halo for buffer in buffers]
    tile_bytes = [tile_rows(schedule, variant, cut, halo) * tiling.row_bytes for halo in moves]
    in_tensor = schedule == "shift"
    refreshed = sum(moves) if variant in ("chain", "ashift") else 0
    return CtaWork(
        mmas=rounds * taps * atoms,
        m=filter_rows if stationary else tiling.block_m,
        n=tiling.block_m if stationary else tiling.block_n,
        a_in_tensor=in_tensor,
        activation_bytes=rounds * sum(tile_bytes),
        filter_bytes=rounds * taps * filter_rows * tiling.row_bytes,
        row_bytes=tiling.row_bytes,
        stores=tiling.block_m if stationary else tiling.block_n * out_bytes // STORE_BYTES,
        rings=(
            RingUse(steps=rounds * len(buffers), stages=tiling.held),
            RingUse(steps=rounds * taps, stages=tiling.stages),
        ),
        copies=rounds * len(buffers) * atoms if in_tensor else 0,
        refreshes=rounds * refreshed * atoms,
        shifts=rounds * sum(moves) * atoms if variant == "chain" else 0,
        moving=rounds * (taps - len(buffers)) * atoms if variant in ("ashift", "windows") else 0,
        drains=rounds * _drains(variant, cut) if in_tensor and waits(variant, cut) else 0,
    )


def _drains(variant: str, cut: Geometry) -> int:
    """Waits for the own tensor operations per filter row and channel block.

    ``ashift``: before every refresh. ``chain``: between two moves that no MMA stands between.
    """
    if variant == "ashift":
        return sum(len(buffer.taps) - 1 for buffer in cut.walk.buffers)
    return sum((len(buffer.taps) - 1) * max(0, buffer.step - 1) for buffer in cut.walk.buffers)
