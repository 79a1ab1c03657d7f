"""The schedule ``reload``: every filter tap loads its own activation tile, and the copy engine does the im2col.

This is "Algorithm 2" of implicit GEMM: the plain loop nest mapped to tiles, with no reuse.
"""

from __future__ import annotations

import math

from convc.compiler.plan.candidates import tilings
from convc.compiler.plan.constraints import TiledProblem, check_problem
from convc.compiler.plan.proposals import ScheduleCandidates, propose
from convc.compiler.plan.records import Pipeline, Storage, Tiling
from convc.compiler.plan.scale_factors import filter_rows, scaled_storage
from convc.compiler.plan.storage import storage_of
from convc.compiler.plan.work import FACTOR_ROW_BYTES, STORE_BYTES, CtaWork, RingUse
from convc.ir.arch import Arch
from convc.layout.device_layout import DeviceLayout

NAME = "reload"


def survey(
    layout: DeviceLayout, arch: Arch, block_n: int | None = None, stages: int | None = None
) -> ScheduleCandidates:
    """Every tiling, legal or not."""
    rejected, problem = check_problem(layout, arch), layout.problem
    candidates = (
        TiledProblem(
            layout=layout,
            arch=arch,
            tiling=tiling,
            storage=_storage(layout, tiling, arch),
            grid=(-(-problem.gemm_m // tiling.block_m), -(-problem.out_channels // tiling.block_n)),
        )
        for tiling in (() if rejected else tilings(layout, block_n=block_n, stages=stages))
    )
    legal, refused = propose(NAME, "", candidates, lambda tiling, pipeline: work_of(layout, tiling, pipeline))
    return ScheduleCandidates(schedule=NAME, variant="", legal=tuple(legal), rejected=(*rejected, *refused))


def _storage(layout: DeviceLayout, tiling: Tiling, arch: Arch) -> Storage:
    return storage_of(tiling, arch) if layout.blocks is None else scaled_storage(layout, tiling, arch)


def work_of(layout: DeviceLayout, tiling: Tiling, pipeline: Pipeline) -> CtaWork:
    """One activation tile and one filter tile per step, each with its scale factors if there are any."""
    steps = math.prod(pipeline.taps) * pipeline.blocks
    rows = (0, 0) if layout.blocks is None else (tiling.block_m, filter_rows(tiling))
    factors_a, factors_b = (steps * count * FACTOR_ROW_BYTES for count in rows)
    return CtaWork(
        mmas=steps * pipeline.atoms,
        m=tiling.block_m,
        n=tiling.block_n,
        activation_bytes=steps * tiling.block_m * tiling.row_bytes + factors_a,
        filter_bytes=steps * tiling.block_n * tiling.row_bytes + factors_b,
        factor_bytes=factors_a + factors_b,
        row_bytes=tiling.row_bytes,
        stores=tiling.block_n * layout.problem.out_dtype.bytes // STORE_BYTES,
        rings=(RingUse(steps=steps, stages=tiling.stages),),
    )
