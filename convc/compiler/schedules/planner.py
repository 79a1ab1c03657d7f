"""A problem in its device layout in, a plan out.

Every schedule is asked for its candidates; those that break a rule are turned down, the rest are estimated, one is
chosen and its index arithmetic derived. Everything turned down stays in the plan, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from convc.compiler.index.row_walk import BORDERS
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.candidate import Candidate, ScheduleCandidates
from convc.compiler.plan.columns import with_columns
from convc.compiler.plan.cost import ASSUMED_SLACK, MOST_TIMED, PAIR_SLACK, SLACK, TIMED_MARGIN, slack
from convc.compiler.plan.names import Form
from convc.compiler.plan.pairs import PAIR
from convc.compiler.plan.records import (
    Alternative,
    Indexing,
    Launch,
    Plan,
    Rejection,
    ScheduleName,
    ScheduleSummary,
    TimedCandidate,
)
from convc.compiler.schedules.all import asked, schedule_of
from convc.compiler.schedules.base import FETCHED, FILTERS, PARTS_OF, RESIDUAL_LOADS, ROWS, STORES, Request
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
    refused: Mapping[Form, str] | None = None,
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
    found = _found(layout, options, request, refused)
    while legal := [candidates for candidates in found.values() if candidates.legal]:
        chosen, best, why = _launched(_chosen(legal), legal, request, refused)
        chosen, best, shared = _sharing(legal, chosen, best, request, refused)
        if best.tiled.parts > 1:
            why = ("each tile has a cluster of its own", "")
        try:
            indexing = with_columns(layout, schedule_of(chosen.schedule).indexing(best))
        except PlanError as error:
            tiled = best.tiled
            form = Form(chosen.schedule, tiled.ctas is not None, tiled.tiling.ctas == PAIR, tiled.parts)
            refused[form] = error.message
            if not _falls_back(form, request):
                found[chosen.schedule] = _turned_down(chosen, "proof", error.message)
            continue
        summaries = tuple(candidates.summary for candidates in found.values())
        done = _finished(chosen, best, indexing, why, summaries, dependent=options.dependent_launch)
        return msgspec.structs.replace(done, launch=msgspec.structs.replace(done.launch, split_why=shared))
    raise _no_plan(layout, [rejection for candidates in found.values() for rejection in candidates.rejected])


def contenders(layout: DeviceLayout, *, options: ScheduleOptions, refused: Mapping[Form, str]) -> tuple[Plan, ...]:
    """Plan the best few candidates of a problem, for somebody who can time their kernels.

    Args:
        layout, options, refused: see `plan`.

    Returns:
        The plan that `plan` makes, then those of other schedules and widths by their estimates, the shortest first: at
        most `MOST_TIMED`, and none whose estimate is `TIMED_MARGIN` times the shortest.

    Raises:
        InputError, PlanError: see `plan`.
    """
    first = plan(layout, options=options, refused=refused)
    request = _request(options, None, None)
    found = _found(layout, options, request, refused)
    for choice in first.choices:
        if choice.fell:
            found[choice.schedule] = _turned_down(found[choice.schedule], choice.fell, choice.reason)
    every = [(one, candidate) for one in found.values() for candidate in one.legal]
    every.sort(key=lambda pair: pair[1].cost.cycles)
    limit = TIMED_MARGIN * every[0][1].cost.cycles
    plans = [first]
    for candidates, candidate in every:
        if len(plans) == MOST_TIMED or candidate.cost.cycles > limit:
            break
        picked = replace(candidates, picked=candidate)
        picked, best, why = _launched(picked, [picked], request, refused)
        if any((picked.schedule, best.tiled.tiling, best.work) == (p.schedule, p.tiling, p.work) for p in plans):
            continue
        try:
            indexing = with_columns(layout, schedule_of(picked.schedule).indexing(best))
        except PlanError:
            continue  # its schedule is in the race with another width, or `plan` has said why it is not
        others = {**found, picked.schedule: picked}
        summaries = tuple(one.summary for one in others.values())
        plans.append(_finished(picked, best, indexing, why, summaries, dependent=options.dependent_launch))
    return tuple(plans)


def quickest(timed: Sequence[TimedCandidate]) -> TimedCandidate:
    """The candidate to take by what was timed: the fastest, or a little slower one that rests on no assumed rules.

    A little is `ASSUMED_SLACK`, where the fastest rests on some.
    """
    fastest = min(timed, key=lambda one: one.cycles)
    if not schedule_of(fastest.schedule).assumed:
        return fastest
    trusted = [one for one in timed if not schedule_of(one.schedule).assumed]
    near = [one for one in trusted if one.cycles <= ASSUMED_SLACK * fastest.cycles]
    return min(near, key=lambda one: one.cycles, default=fastest)


def _request(options: ScheduleOptions, block_n: int | None, stages: int | None) -> Request:
    """What the caller leaves open to the schedules, and what not."""
    return Request(
        border=next((border for border in BORDERS if border == options.border), None),
        rows=next((rows for rows in ROWS if rows == options.rows), None),
        block_n=block_n,
        stages=stages,
        store=next((store for store in STORES if store == options.store), None),
        persistent={"on": True, "off": False}.get(options.persistent),
        ctas=options.ctas,
        fetched=options.work == FETCHED,
        pairs=False if options.work == FETCHED else {"on": True, "off": False}.get(options.pairs),
        filters=next((filters for filters in FILTERS if filters == options.filters), None),
        residual_load=next((way for way in RESIDUAL_LOADS if way == options.residual_load), None),
        parts=PARTS_OF.get(options.split_k),
    )


def _found(
    layout: DeviceLayout, options: ScheduleOptions, request: Request, refused: Mapping[Form, str]
) -> dict[ScheduleName, ScheduleCandidates]:
    """Everything that the schedules that are asked for have to offer."""
    arch = ARCHS[options.target]
    found = {schedule.id: schedule.candidates(layout, arch, request) for schedule in asked(options)}
    for form, reason in refused.items():
        if not _falls_back(form, request):
            found[form.schedule] = _turned_down(found[form.schedule], "emission", reason)
    return found


def _falls_back(form: Form, request: Request) -> bool:
    """Whether a schedule is left another form where this one cannot be: a CTA for each tile, each by itself."""
    chosen = ((form.persistent, request.persistent), (form.pairs, request.pairs), (form.parts > 1, request.parts))
    return any(has and asked is None for has, asked in chosen)


def _turned_down(candidates: ScheduleCandidates, rule: str, reason: str) -> ScheduleCandidates:
    """A schedule that looked legal and is not."""
    return replace(candidates, parts=(Rejection(rule=rule, reason=reason), *candidates.rejected))


def _chosen(legal: Sequence[ScheduleCandidates]) -> ScheduleCandidates:
    """The schedule to take: of those about as fast as the fastest, those that rest on fewest assumed rules of the
    hardware, and of these that are about as fast the one that moves fewest bytes.
    """
    fastest = min(legal, key=_cycles)
    rules = _assumed(fastest)
    near = [one for one in legal if _cycles(one) <= slack(_assumed(one), rules) * _cycles(fastest)]
    least = min(map(_assumed, near))
    trusted = [one for one in near if _assumed(one) == least]
    limit = SLACK * min(map(_cycles, trusted))
    return min(
        (one for one in trusted if _cycles(one) <= limit),
        key=lambda one: (one.best.cost.traffic_bytes, _cycles(one)),
    )


def _cycles(candidates: ScheduleCandidates) -> float:
    """Cycles of a schedule's best candidate."""
    return candidates.best.cost.cycles


def _assumed(candidates: ScheduleCandidates) -> int:
    """Assumed rules that a schedule rests on."""
    return schedule_of(candidates.schedule).assumed


def _launched(
    chosen: ScheduleCandidates,
    legal: Sequence[ScheduleCandidates],
    request: Request,
    refused: Mapping[Form, str],
) -> tuple[ScheduleCandidates, Candidate, tuple[str, str]]:
    """The schedule to take and its candidate, whose CTAs walk over tiles and multiply in pairs where that is faster.

    Args:
        chosen: the schedule to take if each tile has a CTA that multiplies by itself.
        legal: the schedules that pairs may have instead.
        request: what is asked for.
        refused: forms that cannot be taken.

    Returns:
        The schedule and the candidate, and the reasons for both choices, or against them.
    """
    best, why = _walking(chosen, request, refused)
    if (request.parts or 1) > 1:
        return chosen, best, (why, "")
    if request.pairs is not None:
        return chosen, best, (why, f"CTA pairs are switched {'on' if request.pairs else 'off'}")
    found = _pairs(chosen, legal, request, refused) if best.tiled.grid[0] >= PAIR else []
    if not found:
        return chosen, best, (why, "")
    schedule, pairs = min(found, key=lambda one: one[1].cost.cycles)
    both = f"{pairs.cost.cycles:.0f} cycles for {schedule.schedule.title} with {pairs.tiled.tiling}"
    alone = f"{best.cost.cycles:.0f} for {chosen.schedule.title} with {best.tiled.tiling}"
    if PAIR_SLACK * pairs.cost.cycles > best.cost.cycles:
        return chosen, best, (why, f"each CTA multiplies by itself: {alone}, {both}")
    if request.persistent is None:
        ctas = pairs.tiled.ctas
        tiles = math.prod(pairs.tiled.grid)
        why = f"a CTA for each of {tiles} tiles" if ctas is None else f"persistent: {ctas} CTAs walk over {tiles} tiles"
    return schedule, pairs, (why, f"CTA pairs: {both}, {alone}")


def _pairs(
    chosen: ScheduleCandidates, legal: Sequence[ScheduleCandidates], request: Request, refused: Mapping[Form, str]
) -> list[tuple[ScheduleCandidates, Candidate]]:
    """The best candidates of CTA pairs, of schedules that rest on no more assumed rules than the chosen one.

    Pairs have room for wider tiles, and hide other waits when they walk, so both are looked at anew.
    """
    tiled = chosen.best.tiled
    if tiled.arch.tensor_core != "tcgen05":
        return []
    ways = (False, True) if request.persistent is None else (request.persistent,)
    found: list[tuple[ScheduleCandidates, Candidate]] = []
    for candidates in legal:
        schedule = schedule_of(candidates.schedule)
        if not schedule.pairs or schedule.assumed > _assumed(chosen):
            continue
        for way in ways:
            if Form(candidates.schedule, way, True) in refused:
                continue
            pairs = schedule.candidates(tiled.layout, tiled.arch, replace(request, pairs=True, persistent=way))
            if pairs.legal:
                found.append((candidates, pairs.best))
    return found


def _walking(chosen: ScheduleCandidates, request: Request, refused: Mapping[Form, str]) -> tuple[Candidate, str]:
    """The candidate to take, whose CTAs walk over tiles where that is faster and not refused, and the reason."""
    best = chosen.best
    arch = best.tiled.arch
    if request.persistent is not None:
        asked = "on, and ask for their tiles" if request.fetched else "on"
        return best, f"persistent CTAs are switched {asked if request.persistent else 'off'}"
    if best.tiled.parts > 1:
        return best, "each tile has a cluster of its own"
    tiles = math.prod(best.tiled.grid)
    if tiles <= arch.rates.sms:
        return best, f"{tiles} tiles are no more than the {arch.rates.sms} SMs: each has a CTA of its own"
    reason = refused.get(Form(chosen.schedule, True, best.tiled.tiling.ctas == PAIR))
    if reason is not None:
        return best, f"a CTA for each tile: {reason}"
    width = None if chosen.picked is None else best.tiled.tiling.block_n
    # Asked anew, since CTAs that walk may need another cut of the output: they have no lane masks.
    walk = replace(request, persistent=True, block_n=width or request.block_n)
    walking = schedule_of(chosen.schedule).candidates(best.tiled.layout, arch, walk)
    if not walking.legal:
        return best, f"a CTA for each tile: {walking.rejected[0].reason}"
    cycles = walking.best.cost.cycles
    both = f"{cycles:.0f} cycles where {walking.best.cost.ctas} CTAs walk over {tiles} tiles"
    alone = f"{best.cost.cycles:.0f} with a CTA for each"
    if SLACK * cycles > best.cost.cycles:  # an estimate that is off by less must not make a kernel slower
        return best, f"a CTA for each tile: {both}, {alone}"
    return walking.best, f"persistent: {both}, {alone}"


def _sharing(
    legal: Sequence[ScheduleCandidates],
    chosen: ScheduleCandidates,
    best: Candidate,
    request: Request,
    refused: Mapping[Form, str],
) -> tuple[ScheduleCandidates, Candidate, str]:
    """The candidate to take, whose tiles several CTAs share where that is faster, with its schedule and the reason."""
    sms = best.tiled.arch.rates.sms
    tiles = math.prod(best.tiled.grid)
    if request.parts is not None:
        if request.parts == 1:
            return chosen, best, "split K is switched off"
        busy = f"{min(sms, tiles * request.parts)} of {sms} SMs work instead of {min(sms, tiles)}"
        return chosen, best, f"{request.parts} CTAs share a tile, as asked: {busy}"
    able = [one for one in legal if schedule_of(one.schedule).splits and _assumed(one) <= _assumed(chosen)]
    if best.tiled.arch.tensor_core != "tcgen05":
        able = []
    if best.tiled.ctas is not None or 2 * tiles > sms or not able:
        return chosen, best, f"{tiles} tiles leave no two of {sms} SMs for each: one CTA has all of K"
    offers = [
        schedule_of(one.schedule).candidates(best.tiled.layout, best.tiled.arch, replace(request, parts=parts))
        for one in able
        for parts in PARTS_OF.values()
        if parts is not None and parts > 1 and Form(one.schedule, False, False, parts) not in refused
    ]
    if not offers:
        return chosen, best, "one CTA has all of K: no kernel with more could be written down"
    shared = min((one for one in offers if one.legal), key=_cycles, default=None)
    if shared is None:
        return chosen, best, f"one CTA has all of K: {offers[0].rejected[0].reason}"
    found = shared.best
    parts = found.tiled.parts
    cycles = f"{found.cost.cycles:.0f} cycles where {parts} CTAs share a tile, {best.cost.cycles:.0f} with one for each"
    if SLACK * found.cost.cycles > best.cost.cycles:  # an estimate that is off by less must not make a kernel slower
        return chosen, best, f"one CTA has all of K: {cycles}"
    busy = f"{found.cost.busy_sms} of {sms} SMs work instead of {best.cost.busy_sms}"
    return shared, found, f"split K: {cycles}; {busy}"


def _finished(
    chosen: ScheduleCandidates,
    best: Candidate,
    indexing: Indexing,
    why: tuple[str, str],
    choices: tuple[ScheduleSummary, ...],
    *,
    dependent: bool,
) -> Plan:
    """The plan of a schedule's best candidate; ``why`` its CTAs walk over tiles or do not, and multiply in pairs."""
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
        launch=Launch(
            entry=f"conv_{name.name}",
            grid=best.launched,
            threads=threads,
            tiles=best.tiled.grid,
            persistent=best.tiled.ctas is not None,
            fetched=best.offer.fetched,
            why=why[0],
            pairs_why=why[1],
            dependent=dependent,
            cluster=(best.tiled.tiling.ctas, 1, best.tiled.parts),
        ),
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
