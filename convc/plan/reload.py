"""The schedule ``reload``: every filter tap loads its own activation tile, and the copy engine does the im2col.

This is "Algorithm 2" of implicit GEMM: the plain loop nest mapped to tiles, with no reuse.
"""

from __future__ import annotations

import math

from convc.arch import Arch
from convc.packing import DeviceForm
from convc.plan.candidates import pipeline_of, tilings
from convc.plan.constraints import Candidate, check_problem, check_tiling
from convc.plan.proposals import Proposal, Survey
from convc.plan.rank import estimate
from convc.plan.records import Pipeline, Rejection, Tiling
from convc.plan.storage import storage_of
from convc.plan.work import STORE_BYTES, Turns, Work

NAME = "reload"


def survey(form: DeviceForm, arch: Arch, block_n: int | None = None, stages: int | None = None) -> Survey:
    """Every tiling, legal or not."""
    rejected: list[Rejection] = list(check_problem(form, arch))
    legal: list[Proposal] = []
    for tiling in () if rejected else tilings(form, block_n=block_n, stages=stages):
        problem = form.problem
        candidate = Candidate(
            form=form, arch=arch, tiling=tiling, storage=storage_of(tiling, arch),
            grid=(-(-problem.gemm_m // tiling.block_m), -(-problem.out_channels // tiling.block_n)),
        )  # fmt: skip
        rejection = check_tiling(candidate)
        if rejection is not None:
            rejected.append(rejection)
            continue
        pipeline = pipeline_of(form, tiling, arch.limits.mma_atom_bytes)
        work = work_of(tiling, pipeline, problem.out_dtype.bytes)
        legal.append(
            Proposal(
                schedule=NAME, variant="", candidate=candidate, pipeline=pipeline, work=work,
                cost=estimate(candidate, work),
            )
        )  # fmt: skip
    return Survey(schedule=NAME, variant="", legal=tuple(legal), rejected=tuple(rejected))


def work_of(tiling: Tiling, pipeline: Pipeline, out_bytes: int) -> Work:
    """One activation tile and one filter tile per step."""
    steps = math.prod(pipeline.taps) * pipeline.blocks
    return Work(
        mmas=steps * pipeline.atoms,
        m=tiling.block_m,
        n=tiling.block_n,
        activation_bytes=steps * tiling.block_m * tiling.row_bytes,
        filter_bytes=steps * tiling.block_n * tiling.row_bytes,
        row_bytes=tiling.row_bytes,
        stores=tiling.block_n * out_bytes // STORE_BYTES,
        rings=(Turns(steps=steps, stages=tiling.stages),),
    )
