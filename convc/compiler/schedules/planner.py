"""A problem in its device layout in, a plan out.

Every schedule is asked for its candidates; those that break a rule are turned down, the rest are estimated, one is
chosen and its index arithmetic derived. Everything turned down stays in the plan, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from convc.compiler.index.row_walk import BORDERS
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.candidate import Candidate, ScheduleCandidates
from convc.compiler.plan.cost import SLACK
from convc.compiler.plan.records import Alternative, Indexing, Launch, Plan, Rejection, ScheduleName, ScheduleSummary
from convc.compiler.schedules.all import asked, schedule_of
from convc.compiler.schedules.base import FILTERS, ROWS, STORES, Request
from convc.compiler.schedules.cores.all import core_of
from convc.errors import PlanError
from convc.ir.arch import ARCHS
from convc.layout.device_layout import DeviceLayout


def plan(
    layout: DeviceLayout,
    *,
    options: ScheduleOptions | None = None,
    block_n: int | None = None,
    stages: int | None = None,
    refused: Mapping[ScheduleName, str] | None = None,
) -> Plan:
    """Plan the kernel of a problem.

    Args:
        layout: the problem and its device buffers.
        options: for which target, and which schedules to consider; all by default.
        block_n, stages: fix the tile width or the number of stages instead of choosing.
        refused: schedules that turned out to be impossible to write down, each with the reason.

    Raises:
        InputError: an option has a value that does not exist.
        PlanError: no candidate is legal, or no legal one can be proved right or written down; the message says why.
    """
    options = options or ScheduleOptions()
    schedules = asked(options)
    arch = ARCHS[options.target]
    request = Request(
        border=next((border for border in BORDERS if border == options.border), None),
        rows=next((rows for rows in ROWS if rows == options.rows), None),
        block_n=block_n,
        stages=stages,
        store=next((store for store in STORES if store == options.store), None),
        filters=next((filters for filters in FILTERS if filters == options.filters), None),
    )
    found = {schedule.id: schedule.candidates(layout, arch, request) for schedule in schedules}
    for name, reason in (refused or {}).items():
        found[name] = _turned_down(found[name], "emission", reason)
    while legal := [candidates for candidates in found.values() if candidates.legal]:
        chosen = _chosen(legal)
        try:
            indexing = schedule_of(chosen.schedule).indexing(chosen.best)
        except PlanError as error:
            found[chosen.schedule] = _turned_down(chosen, "proof", error.message)
            continue
        summaries = tuple(candidates.summary for candidates in found.values())
        return _finished(chosen, indexing, summaries, dependent=options.dependent_launch)
    raise _no_plan(layout, [rejection for candidates in found.values() for rejection in candidates.rejected])


def _turned_down(candidates: ScheduleCandidates, rule: str, reason: str) -> ScheduleCandidates:
    """A schedule that looked legal and is not."""
    return replace(candidates, parts=(Rejection(rule=rule, reason=reason), *candidates.rejected))


def _chosen(legal: Sequence[ScheduleCandidates]) -> ScheduleCandidates:
    """The schedule to take: of those about as fast as the fastest, one that rests on no assumed rule of the hardware,
    and of these the one that moves fewest bytes.
    """
    limit = SLACK * min(candidates.best.cost.cycles for candidates in legal)
    near = [candidates for candidates in legal if candidates.best.cost.cycles <= limit]

    def key(candidates: ScheduleCandidates) -> tuple[int, int, float]:
        cost = candidates.best.cost
        return schedule_of(candidates.schedule).assumed, cost.traffic_bytes, cost.cycles

    return min(near, key=key)


def _finished(
    chosen: ScheduleCandidates, indexing: Indexing, choices: tuple[ScheduleSummary, ...], *, dependent: bool
) -> Plan:
    """The plan of a schedule's best candidate."""
    best = chosen.best
    name = chosen.schedule
    threads = 32 * core_of(best.tiled.arch).warps(best.tiled.tiling.block_m)
    return Plan(
        layout=best.tiled.layout,
        schedule=name,
        work=best.work,
        arch=best.tiled.arch,
        tiling=best.tiled.tiling,
        storage=best.storage,
        pipeline=best.pipeline,
        launch=Launch(entry=f"conv_{name.name}", grid=(*best.tiled.grid, 1), threads=threads, dependent=dependent),
        indexing=indexing,
        estimate=best.cost,
        alternatives=_alternatives(best, chosen.legal),
        rejected=chosen.rejected,
        choices=choices,
    )


def _alternatives(chosen: Candidate, legal: Sequence[Candidate]) -> tuple[Alternative, ...]:
    """The best candidate of every other width, best first."""
    best: dict[int, Alternative] = {}
    for candidate in sorted(legal, key=lambda one: one.cost.cycles):
        tiling = candidate.tiled.tiling
        cost = candidate.cost
        if tiling.block_n != chosen.tiled.tiling.block_n and tiling.block_n not in best:
            best[tiling.block_n] = Alternative(tiling=tiling, cycles=cost.cycles, bottleneck=cost.bottleneck)
    return tuple(best.values())


def _no_plan(layout: DeviceLayout, rejected: Sequence[Rejection]) -> PlanError:
    """The error that lists the rules broken: of the problem, or by each candidate."""
    reasons = dict.fromkeys(
        rejection.reason if rejection.tiling is None else f"{rejection.tiling}: {rejection.reason}"
        for rejection in rejected
    )
    lines = list(reasons)
    more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
    return PlanError("no kernel can be planned: " + "; ".join(lines[:3]) + more, where=layout.model.describe())
