"""The one entry of the room: a problem in its device form in, a plan out.

Enumerate candidates, turn down those that break a rule, estimate the rest, choose one, derive its index arithmetic.
Everything turned down stays in the plan, with the reason.
"""

from __future__ import annotations

from convc.arch import SM_100A, Arch
from convc.errors import PlanError
from convc.packing import DeviceForm
from convc.plan.candidates import pipeline_of, tilings
from convc.plan.constraints import Candidate, check_problem, check_tiling
from convc.plan.coordinates import indexing_of
from convc.plan.loads import loads_of
from convc.plan.rank import choose, estimate
from convc.plan.records import Alternative, Estimate, Launch, Pipeline, Plan, Rejection, Tiling
from convc.plan.storage import storage_of

ENTRY = "conv_reload"
THREADS = 192


def plan(form: DeviceForm, *, arch: Arch = SM_100A, block_n: int | None = None, stages: int | None = None) -> Plan:
    """Plan the kernel of a problem.

    Args:
        form: the problem and its device buffers.
        arch: target.
        block_n, stages: fix the tile width or the number of stages instead of choosing.

    Raises:
        PlanError: no candidate is legal (the message gives the rules that are broken), or a claim about the index maps
            is not proved.
    """
    rejected = list(check_problem(form, arch))
    if rejected:
        raise _no_plan(form, rejected)
    legal: list[tuple[Candidate, Pipeline, Estimate]] = []
    for tiling in tilings(form, block_n=block_n, stages=stages):
        candidate = Candidate(form=form, arch=arch, tiling=tiling, storage=storage_of(tiling, arch))
        rejection = check_tiling(candidate)
        if rejection is not None:
            rejected.append(rejection)
            continue
        pipeline = pipeline_of(form, tiling, arch.limits.mma_atom_bytes)
        legal.append((candidate, pipeline, estimate(candidate, pipeline)))
    if not legal:
        raise _no_plan(form, rejected)
    chosen, pipeline, cost = legal[choose([entry[2] for entry in legal])]
    indexing = indexing_of(form, chosen.tiling, pipeline.channels)
    return Plan(
        form=form,
        schedule="reload",
        arch=arch,
        tiling=chosen.tiling,
        storage=chosen.storage,
        pipeline=pipeline,
        loads=loads_of(form, chosen.tiling),
        launch=Launch(entry=ENTRY, grid=(*chosen.grid, 1), threads=THREADS),
        coordinates=indexing.coordinates,
        derivation=indexing.derivation,
        row_limit=indexing.row_limit,
        channel_limit=indexing.channel_limit,
        estimate=cost,
        alternatives=_alternatives(chosen.tiling, legal),
        rejected=tuple(rejected),
    )


def _alternatives(chosen: Tiling, legal: list[tuple[Candidate, Pipeline, Estimate]]) -> tuple[Alternative, ...]:
    """The best candidate of every other width, best first."""
    best: dict[int, Alternative] = {}
    for candidate, _, cost in sorted(legal, key=lambda entry: entry[2].cycles):
        tiling = candidate.tiling
        if tiling.block_n != chosen.block_n and tiling.block_n not in best:
            best[tiling.block_n] = Alternative(tiling=tiling, cycles=cost.cycles, bound_by=cost.bound_by)
    return tuple(best.values())


def _no_plan(form: DeviceForm, rejected: list[Rejection]) -> PlanError:
    """The error that lists the rules broken: of the problem, or by each candidate."""
    reasons = dict.fromkeys(
        rejection.reason if rejection.tiling is None else f"{rejection.tiling}: {rejection.reason}"
        for rejection in rejected
    )
    lines = list(reasons)
    more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
    return PlanError("no kernel can be planned: " + "; ".join(lines[:3]) + more, where=form.model.describe())
