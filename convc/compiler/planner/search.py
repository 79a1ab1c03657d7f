"""A problem in its device layout in, a plan out.

Every schedule is asked for its candidates; those that break a rule are turned down, the rest are estimated, one is
chosen and its index arithmetic derived. Everything turned down stays in the plan, with the reason.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from convc.compiler.index.row_walk import BORDERS
from convc.compiler.options import AUTO, ESTIMATE, ScheduleOptions
from convc.compiler.plan.candidate import ScheduleCandidates
from convc.compiler.plan.choice import ASSUMED_SLACK, SLACK, slack
from convc.compiler.plan.columns import with_columns
from convc.compiler.plan.hosted import with_host
from convc.compiler.plan.names import LaunchForm
from convc.compiler.plan.offer import Candidate
from convc.compiler.plan.records import (
    Alternative,
    Indexing,
    LaunchPlan,
    Plan,
    Rejection,
    ScheduleName,
    ScheduleSummary,
    TimedCandidate,
)
from convc.compiler.plan.split import ranks_of
from convc.compiler.planner.conflicts import schedules_for
from convc.compiler.planner.launch import (
    MULTICAST_GAIN,
    SPLIT_GAIN,
    Pick,
    Survey,
    assumed,
    cycles,
    every_form,
    form_of,
    launched,
)
from convc.compiler.schedules.all import schedule_of
from convc.compiler.schedules.base import (
    DYNAMIC,
    FILTERS,
    MULTICAST_OF,
    PARTS_OF,
    RESIDUAL_LOADS,
    ROWS,
    STORES,
    Known,
    Request,
)
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.features.cache_hints import hints_for
from convc.compiler.schedules.features.registers import handed_over
from convc.compiler.schedules.features.tile_order import order_for, reordered, requested_order
from convc.errors import PlanError
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import ARCHS

TIMED_MARGIN = 1.35
"""A candidate whose estimate is longer than the shortest by more is not timed: the worst estimate of a launch is off by
about as much."""

MOST_TIMED = 6
"""Candidates of a problem that are timed at most: each is written down, and its time costs several runs of a CTA."""


def plan(
    layout: DeviceLayout,
    *,
    options: ScheduleOptions | None = None,
    block_n: int | None = None,
    stages: int | None = None,
    refused: Mapping[LaunchForm, str] | None = None,
) -> Plan:
    """Plan the kernel of a problem.

    Args:
        layout: the problem and its device buffers.
        options: for which target, and which schedules to consider; all by default.
        block_n, stages: fix the tile width or the number of stages instead of choosing.
        refused: forms of schedules that turned out to be impossible to write down, each with the reason.

    Raises:
        InputError: an option has a value that does not exist.
        PlanError: no candidate is legal, or no legal one can be proved right or written down; the message says why.
    """
    options = options or ScheduleOptions()
    request = _request(options, block_n, stages)
    refused = dict(refused or {})
    known: Known = {}
    found = _found(layout, options, request, refused, known)
    while legal := [candidates for candidates in found.values() if candidates.possible]:
        survey = _survey(legal, options, request, refused, known)
        pick = loading(launched(_chosen(legal), survey), survey)
        chosen = pick.schedule
        try:
            indexing = _indexing(layout, chosen.schedule, pick.best)
        except PlanError as error:
            form = form_of(pick)
            refused[form] = error.message
            if not _falls_back(form, request):
                found[chosen.schedule] = _turned_down(chosen, "proof", error.message)
            continue
        summaries = tuple(candidates.summary for candidates in found.values())
        return _finished(pick, indexing, summaries, options)
    raise _no_plan(layout, [rejection for candidates in found.values() for rejection in candidates.rejected])


def contenders(
    layout: DeviceLayout, *, options: ScheduleOptions, refused: Mapping[LaunchForm, str]
) -> tuple[Plan, ...]:
    """Plan the best few candidates of a problem, for a caller that times their kernels.

    Args:
        layout, options, refused: see `plan`.

    Returns:
        The plan that `plan` makes, then those of other schedules and forms by their estimates, the shortest first, and
        those of other widths behind them: at most `MOST_TIMED`, and none whose estimate is `TIMED_MARGIN` times the
        shortest.

    Raises:
        InputError, PlanError: see `plan`.
    """
    first = plan(layout, options=options, refused=refused)
    request = _request(options, None, None)
    known: Known = {}
    found = _found(layout, options, request, refused, known)
    for choice in first.choices:
        if choice.fell:
            found[choice.schedule] = _turned_down(found[choice.schedule], choice.fell, choice.reason)
    legal = [one for one in found.values() if one.possible]
    picks = sorted(every_form(_survey(legal, options, request, refused, known)), key=_price)
    limit = TIMED_MARGIN * min(_price(picks[0]), first.estimate.cycles)
    plans = [first]
    for pick in _forms_first(picks):
        if len(plans) == MOST_TIMED:
            break
        if _price(pick) > limit:
            continue
        name = pick.schedule.schedule
        if any((form_of(pick), pick.best.tiled.tiling, pick.best.work) == (p.form, p.tiling, p.work) for p in plans):
            continue
        try:
            indexing = _indexing(layout, name, pick.best)
        except PlanError:
            continue  # its schedule is in the race with another width, or `plan` has said why it is not
        others = {**found, name: replace(pick.schedule, picked=pick.best)}
        summaries = tuple(one.summary for one in others.values())
        plans.append(_finished(pick, indexing, summaries, options))
    return tuple(plans)


def _indexing(layout: DeviceLayout, schedule: ScheduleName, candidate: Candidate) -> Indexing:
    """The numbers of a kernel, with what they and the host's work rest on."""
    return with_host(layout, with_columns(layout, schedule_of(schedule).indexing(candidate)))


def _forms_first(picks: Sequence[Pick]) -> list[Pick]:
    """The best pick of each form by price, then those of other widths: how CTAs work together makes more difference."""
    first: dict[LaunchForm, Pick] = {}
    for pick in picks:
        first.setdefault(form_of(pick), pick)
    return [*first.values(), *(pick for pick in picks if first[form_of(pick)] is not pick)]


def quickest(timed: Sequence[TimedCandidate]) -> TimedCandidate:
    """The candidate to take by what was timed: the fastest, or a little slower one without assumed rules.

    A little is `ASSUMED_SLACK`, where the fastest assumes some rule.
    """
    fastest = min(timed, key=lambda one: one.cycles)
    if not schedule_of(fastest.schedule).assumed:
        return fastest
    trusted = [one for one in timed if not schedule_of(one.schedule).assumed]
    near = [one for one in trusted if one.cycles <= ASSUMED_SLACK * fastest.cycles]
    return min(near, key=lambda one: one.cycles, default=fastest)


def _price(pick: Pick) -> float:
    return pick.best.cycles


def _request(options: ScheduleOptions, block_n: int | None, stages: int | None) -> Request:
    """What the caller leaves open to the schedules, and what not; InputError for options that cannot be."""
    schedules_for(options)
    return Request(
        border=next((border for border in BORDERS if border == options.border), None),
        rows=next((rows for rows in ROWS if rows == options.rows), None),
        block_n=block_n,
        stages=stages,
        store=next((store for store in STORES if store == options.store), None),
        persistent={"on": True, "off": False}.get(options.persistent),
        ctas=options.ctas if isinstance(options.ctas, int) else None,
        dynamic=options.tile_scheduler == DYNAMIC,
        pairs=False if options.tile_scheduler == DYNAMIC else {"2": True, "1": False}.get(options.cta_group),
        filters=next((filters for filters in FILTERS if filters == options.filters), None),
        residual_load=next((way for way in RESIDUAL_LOADS if way == options.residual_load), None),
        parts=_parts(options),
        multicast=_multicast(options),
        order=requested_order(options),
        registers={"on": True, "off": False}.get(options.registers),
    )


def _parts(options: ScheduleOptions) -> int | None:
    """Split-K CTAs; None: the planner's choice, where nothing excludes it that is asked for."""
    if options.split_k == AUTO:
        return PARTS_OF["off" if options.registers == "on" else ESTIMATE]
    return PARTS_OF[options.split_k]


def _multicast(options: ScheduleOptions) -> tuple[int, int] | None:
    """Tiles of a cluster that shares loads; None: the planner's choice, which on tcgen05 has to be requested."""
    if options.tile_scheduler == DYNAMIC:
        return MULTICAST_OF["off"]
    if options.multicast != AUTO:
        return MULTICAST_OF[options.multicast]
    return MULTICAST_OF[ESTIMATE if ARCHS[options.target].tensor_core == "wgmma" else "off"]


def _survey(
    legal: Sequence[ScheduleCandidates],
    options: ScheduleOptions,
    request: Request,
    refused: Mapping[LaunchForm, str],
    known: Known,
) -> Survey:
    """The field of a choice; where options are left open, clusters on Hopper have to be better by more."""
    doubtful = ARCHS[options.target].tensor_core == "wgmma"
    return Survey(
        legal=legal,
        request=request,
        refused=refused,
        known=known,
        split_gain=SPLIT_GAIN if doubtful and options.split_k == AUTO else SLACK,
        multicast_gain=MULTICAST_GAIN if options.multicast == AUTO else SLACK,
    )


def _found(
    layout: DeviceLayout, options: ScheduleOptions, request: Request, refused: Mapping[LaunchForm, str], known: Known
) -> dict[ScheduleName, ScheduleCandidates]:
    """Everything that the schedules that are asked for have to offer."""
    arch = ARCHS[options.target]
    found = {schedule.id: schedule.candidates(layout, arch, request, known) for schedule in schedules_for(options)}
    for form, reason in refused.items():
        if not _falls_back(form, request):
            found[form.schedule] = _turned_down(found[form.schedule], "emission", reason)
    return found


def _falls_back(form: LaunchForm, request: Request) -> bool:
    """Whether a schedule is left another form where this one cannot be: a CTA for each tile, each by itself."""
    chosen = (form.persistent, form.pairs, form.parts > 1, form.multicast != (1, 1))
    wanted = (request.persistent, request.pairs, request.parts, request.multicast)
    return any(has and choice is None for has, choice in zip(chosen, wanted, strict=True))


def _turned_down(candidates: ScheduleCandidates, rule: str, reason: str) -> ScheduleCandidates:
    """A schedule that looked legal and is not."""
    return replace(candidates, parts=(Rejection(rule=rule, reason=reason), *candidates.rejected))


def _chosen(legal: Sequence[ScheduleCandidates]) -> ScheduleCandidates:
    """The schedule to take: of those about as fast as the fastest, those with the fewest assumed rules of the
    hardware, and of these that are about as fast the one that has the least traffic.
    """
    fastest = min(legal, key=cycles)
    rules = assumed(fastest)
    near = [one for one in legal if cycles(one) <= slack(assumed(one), rules) * cycles(fastest)]
    least = min(map(assumed, near))
    trusted = [one for one in near if assumed(one) == least]
    limit = SLACK * min(map(cycles, trusted))
    return min(
        (one for one in trusted if cycles(one) <= limit),
        key=lambda one: (one.best.traffic_bytes, cycles(one)),
    )


def _finished(pick: Pick, indexing: Indexing, choices: tuple[ScheduleSummary, ...], options: ScheduleOptions) -> Plan:
    best = pick.best
    name = pick.schedule.schedule
    order = order_for(best, requested_order(options))
    tiles = best.tiled.grid
    across, down = tiles if order.places is None else (math.prod(tiles), 1)
    registers, reason = handed_over(best, {"on": True, "off": False}.get(options.registers))
    warps = core_of(best.tiled.arch).warps(best.tiled.tiling.block_m, apart=registers is not None)
    return Plan(
        layout=best.tiled.layout,
        schedule=name,
        work=best.work,
        arch=best.tiled.arch,
        tiling=best.tiled.tiling,
        storage=best.storage,
        pipeline=best.pipeline,
        launch=LaunchPlan(
            entry=f"conv_{name.name}",
            grid=best.launched if best.tiled.ctas is not None else (across, down, best.tiled.parts),
            threads=32 * warps,
            tiles=tiles,
            persistent=best.tiled.ctas is not None,
            dynamic=best.offer.dynamic,
            why=pick.because(registers=reason).why,
            dependent=options.pdl,
            cluster=(*best.tiled.tiling.cluster, ranks_of(best.tiled.parts)),
            order=order,
            hints=hints_for(best, order, options.cache_hints),
            registers=registers,
        ),
        indexing=indexing,
        estimate=reordered(best, order),
        alternatives=_alternatives(best, pick.schedule.fastest),
        rejected=pick.schedule.rejected,
        choices=choices,
    )


def _alternatives(chosen: Candidate, fastest: Sequence[Candidate]) -> tuple[Alternative, ...]:
    """The fastest candidates but for the one of the chosen width."""
    return tuple(
        Alternative(tiling=one.tiled.tiling, cycles=one.cost.cycles, bottleneck=one.cost.bottleneck)
        for one in fastest
        if one.tiled.tiling.block_n != chosen.tiled.tiling.block_n
    )


def _no_plan(layout: DeviceLayout, rejected: Sequence[Rejection]) -> PlanError:
    """The error that lists the rules broken: of the problem, or by each candidate."""
    reasons = dict.fromkeys(
        rejection.reason if rejection.tiling is None else f"{rejection.tiling}: {rejection.reason}"
        for rejection in rejected
    )
    lines = list(reasons)
    more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
    return PlanError("no kernel can be planned: " + "; ".join(lines[:3]) + more, where=layout.model.describe())


def loading(pick: Pick, survey: Survey) -> Pick:
    """CTAs load for each other where that is faster; without a reason where it is not considered."""
    request = survey.request
    tiled = pick.best.tiled
    if request.multicast is not None:
        shape = tiled.tiling.multicast
        if shape == (1, 1):
            return pick
        return pick.because(multicast=f"multicast of {_shared_tiles(shape)}, as requested")
    chosen = pick.schedule.schedule
    schedule = schedule_of(chosen)
    if tiled.parts > 1 or tiled.tiling.ctas > 1 or not schedule.multicasts:
        return pick
    persistent = tiled.ctas is not None
    if survey.multicast_gain > SLACK and not persistent:
        return pick
    offers = [
        survey.offered(schedule, tiled, dataclasses.replace(request, multicast=shape, persistent=persistent))
        for shape in MULTICAST_OF.values()
        if shape not in (None, (1, 1)) and LaunchForm(chosen, persistent, False, 1, shape) not in survey.refused
    ]
    found = min((one.best for one in offers if one.possible), key=lambda best: best.cycles, default=None)
    if found is None:
        return pick
    cycles = f"{found.cycles:.0f} cycles with multicast, {pick.best.cycles:.0f} without"
    if survey.multicast_gain * found.cycles > pick.best.cycles:
        return pick.because(multicast=f"no multicast: {cycles}")
    taken = replace(pick, best=found)
    return taken.because(multicast=f"multicast of {_shared_tiles(found.tiled.tiling.multicast)}: {cycles}")


def _shared_tiles(shape: tuple[int, int]) -> str:
    """The operand tiles that the CTAs of a cluster share."""
    pixels, channels = shape
    both = (*(("filter tiles",) if pixels > 1 else ()), *(("activation tiles",) if channels > 1 else ()))
    return " and ".join(both)
