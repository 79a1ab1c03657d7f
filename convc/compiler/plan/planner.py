"""The one entry of the room: a problem in its device layout in, a plan out.

Every schedule is asked for its candidates; those that break a rule are turned down, the rest are estimated, one is
chosen and its index arithmetic derived. Everything turned down stays in the plan, with the reason.

Schedules: ``reload`` (`convc.compiler.plan.reload`), and ``slide``, ``shift`` and ``stationary``, which share
activations between filter columns (`convc.compiler.plan.reuse`). ``auto`` takes the best of all.
"""

from __future__ import annotations

from convc.compiler.arch import SM_100A, Arch
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan import reload, reuse
from convc.compiler.plan.coordinates import indexing_of
from convc.compiler.plan.cost import SLACK
from convc.compiler.plan.evidence import assumed
from convc.compiler.plan.loads import loads_of, wide_loads_of
from convc.compiler.plan.proposals import Candidate, ScheduleCandidates
from convc.compiler.plan.records import Alternative, Launch, Plan, Rejection, ScheduleSummary
from convc.compiler.plan.reuse_coordinates import maps_of, reuse_indexing, reuse_of
from convc.errors import InputError, PlanError
from convc.layout.device_layout import DeviceLayout

THREADS = 192
SCHEDULES = ("auto", reload.NAME, "slide", "shift", "stationary")
SHIFTS = tuple(variant for schedule, variant in reuse.VARIANTS if schedule == "shift")


def plan(
    layout: DeviceLayout,
    *,
    arch: Arch = SM_100A,
    options: ScheduleOptions | None = None,
    block_n: int | None = None,
    stages: int | None = None,
) -> Plan:
    """Plan the kernel of a problem.

    Args:
        layout: the problem and its device buffers.
        arch: target.
        options: which schedules to consider; ``reload`` alone by default.
        block_n, stages: fix the tile width or the number of stages instead of choosing.

    Raises:
        InputError: an option has a value that does not exist.
        PlanError: no candidate is legal (the message gives the rules that are broken), or a claim about the index maps
            is not proved.
    """
    options = options or ScheduleOptions(schedule=reload.NAME)
    surveys = _surveys(layout, arch, options, block_n, stages)
    if not any(survey.legal for survey in surveys):
        raise _no_plan(layout, [rejection for survey in surveys for rejection in survey.rejected])
    survey = _schedule_of([survey for survey in surveys if survey.legal])
    return _finished(survey.best, survey, tuple(s.choice for s in surveys))


def _schedule_of(surveys: list[ScheduleCandidates]) -> ScheduleCandidates:
    """The schedule to take: of those about as fast as the fastest, one that rests on no assumed rule of the hardware,
    and of these the one that moves fewest bytes.
    """
    limit = SLACK * min(survey.best.cost.cycles for survey in surveys)
    near = [survey for survey in surveys if survey.best.cost.cycles <= limit]

    def key(survey: ScheduleCandidates) -> tuple[int, int, float]:
        cost = survey.best.cost
        return assumed(survey.variant or survey.schedule), cost.traffic_bytes, cost.cycles

    return min(near, key=key)


def _surveys(
    layout: DeviceLayout, arch: Arch, options: ScheduleOptions, block_n: int | None, stages: int | None
) -> list[ScheduleCandidates]:
    """What each schedule that is asked for has to offer."""
    for name, value, known in (
        ("schedule", options.schedule, SCHEDULES),
        ("shift variant", options.shift, (*SHIFTS, None)),
        ("border", options.border, (*reuse.BORDERS, None)),
        ("rows", options.rows, (*reuse.ROWS, None)),
    ):
        if value not in known:
            raise InputError(f"{name} must be one of {', '.join(filter(None, known))}, got {value!r}")
    found = []
    if options.schedule in ("auto", reload.NAME):
        found.append(reload.survey(layout, arch, block_n, stages))
    for schedule, variant in reuse.VARIANTS:
        asked = options.schedule in ("auto", schedule)
        if asked and (schedule != "shift" or options.shift in (None, variant)):
            found.append(
                reuse.survey(
                    layout,
                    arch,
                    schedule,
                    variant,
                    border=options.border,
                    rows=options.rows,
                    block_n=block_n,
                    stages=stages,
                )
            )
    return found


def _finished(chosen: Candidate, survey: ScheduleCandidates, choices: tuple[ScheduleSummary, ...]) -> Plan:
    """The plan of a proposal."""
    candidate, pipeline = chosen.candidate, chosen.pipeline
    if chosen.cut is None:
        sharing, loads = None, loads_of(candidate.layout, candidate.tiling)
        indexing = indexing_of(candidate.layout, candidate.tiling, pipeline)
    else:
        maps = maps_of(chosen)
        sharing, indexing = reuse_of(chosen, maps), reuse_indexing(chosen, maps)
        loads = wide_loads_of(candidate.layout, candidate.tiling, sharing, chosen.schedule)
    return Plan(
        layout=candidate.layout,
        schedule=chosen.schedule,
        reuse=sharing,
        work=chosen.work,
        arch=candidate.arch,
        tiling=candidate.tiling,
        storage=candidate.storage,
        pipeline=pipeline,
        loads=loads,
        launch=Launch(entry=f"conv_{chosen.schedule}", grid=(*candidate.grid, 1), threads=THREADS),
        coordinates=indexing.coordinates,
        derivation=indexing.derivation,
        row_limit=indexing.row_limit,
        channel_limit=indexing.channel_limit,
        estimate=chosen.cost,
        alternatives=_alternatives(chosen, survey),
        rejected=survey.rejected,
        choices=choices,
    )


def _alternatives(chosen: Candidate, survey: ScheduleCandidates) -> tuple[Alternative, ...]:
    """The best candidate of every other width, best first."""
    best: dict[int, Alternative] = {}
    for proposal in sorted(survey.legal, key=lambda entry: entry.cost.cycles):
        tiling, cost = proposal.candidate.tiling, proposal.cost
        if tiling.block_n != chosen.candidate.tiling.block_n and tiling.block_n not in best:
            best[tiling.block_n] = Alternative(tiling=tiling, cycles=cost.cycles, bound_by=cost.bound_by)
    return tuple(best.values())


def _no_plan(layout: DeviceLayout, rejected: list[Rejection]) -> PlanError:
    """The error that lists the rules broken: of the problem, or by each candidate."""
    reasons = dict.fromkeys(
        rejection.reason if rejection.tiling is None else f"{rejection.tiling}: {rejection.reason}"
        for rejection in rejected
    )
    lines = list(reasons)
    more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
    return PlanError("no kernel can be planned: " + "; ".join(lines[:3]) + more, where=layout.model.describe())
