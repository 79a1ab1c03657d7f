"""The reasons for a kernel: the rules by which it was chosen, with the numbers of what was chosen.

The time of a kernel is said once: the timing engine's where it decided, else the planner's estimate. Where a report has
both, `two_times` says which is which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from convc.compiler.plan.choice import ASSUMED_SLACK, SLACK, slack
from convc.compiler.plan.constraints import TiledProblem
from convc.compiler.plan.cost import estimate
from convc.compiler.plan.records import Plan, ScheduleSummary, TimedCandidate
from convc.compiler.plan.result_tile import result_pixels, result_rows
from convc.compiler.schedules.all import schedule_of
from convc.compiler.schedules.base import TMA, Ways
from convc.compiler.schedules.epilogue import holds_numbers
from convc.compiler.schedules.sharing.results import not_copied
from convc.explain.moving import moving_lines
from convc.explain.taken import assumed_of, launch_words, legal_choices, taken_choice, title_of, titles_of
from convc.ir.tuned import Tuning
from convc.report.format import human_bytes


def why_lines(plan: Plan) -> Iterator[str]:
    """Say why the kernel was taken, and the layout: the rules of the choice, with the numbers of what was chosen."""
    yield from _column_line(plan)
    for choice in (choice for choice in plan.choices if choice.fell):
        yield f"{choice.schedule.title} has the best estimate, but {choice.fell} failed: {choice.reason}"
    if plan.tuned is not None:
        yield from _tuned(plan.tuned)
    if plan.timed:
        yield from _decided(plan.timed)
    elif plan.tuned is None or plan.tuned.refused:
        yield from _estimated(plan, taken_choice(plan), legal_choices(plan))
    yield from around_lines(plan)


def two_times(plan: Plan, engine: float) -> str:
    """The sentence of a report that shows both times of a kernel: the engine's, and that by which it was chosen."""
    if plan.timed:
        by = "the engine chose among the candidates with the best estimates"
    else:
        by = "the planner compares schedules by its estimate"
    return (
        f"the timing engine replays the kernel's trace: {engine:.0f} cycles; the planner's estimate is "
        f"{plan.estimate.cycles:.0f} ({plan.estimate.cycles / engine - 1:+.0%}): {by}"
    )


def _estimated(plan: Plan, taken: ScheduleSummary, legal: Sequence[ScheduleSummary]) -> Iterator[str]:
    """The planner's choice: among the schedules, or of another launch than each of them has by itself."""
    if len(legal) == 1:
        asked = "the requested schedule" if len(plan.choices) == 1 else "the only legal schedule"
        yield f"{legal[0].schedule.title} is {asked}"
    if taken not in legal:
        yield from _launched(plan, taken, legal[0])
    elif len(legal) > 1:
        yield from _compared(legal, taken)
        yield from moving_lines(legal, taken)


def _launched(plan: Plan, taken: ScheduleSummary, fastest: ScheduleSummary) -> Iterator[str]:
    """A launch that no schedule has by itself: against the fastest schedule that has not, and what led to it."""
    new = [word for word in launch_words(taken) if word not in tuple(launch_words(fastest))]
    said = " and ".join("persistent CTAs" if word == "persistent" else word for word in new)
    without = f"without {said}" if new else "with tiles along M first"
    yield (
        f"{title_of(taken)}: about {taken.cycles:.0f} cycles, {human_bytes(taken.traffic_bytes)} from L2; the fastest "
        f"{without} is {title_of(fastest)}: {fastest.cycles:.0f} ({fastest.cycles / taken.cycles - 1:+.0%}), "
        f"{human_bytes(fastest.traffic_bytes)}"
    )
    why = plan.launch.why
    sentences = (
        ("persistent", why.persistent),
        ("2-CTA MMA", why.pairs),
        ("split K", why.split),
        ("multicast", why.multicast),
    )
    for start, sentence in sentences:
        if any(word.startswith(start) for word in new):
            yield sentence
    if not new:
        yield plan.launch.order.why


def _column_line(plan: Plan) -> Iterator[str]:
    """What the planner made of filter columns folded into K, where it had a choice."""
    ways = {
        each.columns: f"about {each.cycles:.0f} cycles" if not each.reason else f"no kernel ({each.reason})"
        for each in plan.columns
    }
    taken = plan.layout.columns
    if len(ways) < 2:
        return
    if "summed" in ways:
        yield _summed_line(plan, ways["off"], ways["summed"])
        return
    words = {
        "off": "as filter taps",
        "overlap": "folded into K, by a tensor map whose rows overlap",
        "host": "folded into K, by the host's layout",
    }
    others = "; ".join(f"{words[way]}: {text}" for way, text in ways.items() if way != taken)
    fastest = min(each.cycles for each in plan.columns if not each.reason)
    near = (
        ""
        if ways[taken] == f"about {fastest:.0f} cycles"
        else ", equal within the error of the estimate, with the smallest buffer"
    )
    yield f"filter columns {words[taken]}: {ways[taken]}{near}; {others}"


def _summed_line(plan: Plan, transposed: str, summed: str) -> str:
    """Whether a gradient of weights sums over pixels as they lie, and what the other way would take."""
    as_they_lie = f"sum over pixels of NHWC buffers, with MN-major operands: {summed}"
    turned = f"with operands transposed on the host, K-major: {transposed}"
    if plan.layout.summed:
        return f"{as_they_lie}; {turned}, without the time of the host"
    return f"{turned}; {as_they_lie}"


def _compared(legal: Sequence[ScheduleSummary], chosen: ScheduleSummary) -> Iterator[str]:
    """The steps of the choice among several: time, assumed rules, bytes."""
    fastest = legal[0]
    rules = assumed_of(fastest)
    near = [choice for choice in legal if choice.cycles <= slack(assumed_of(choice), rules) * fastest.cycles]
    if len(near) == 1:
        other = legal[1]
        more = other.cycles / fastest.cycles - 1
        yield (
            f"{title_of(chosen)} is the fastest: about {chosen.cycles:.0f} cycles; {title_of(other)} takes "
            f"{other.cycles:.0f} ({more:.0%} more)"
        )
        return
    told = f"within {SLACK - 1:.0%} of the fastest ({title_of(fastest)}, about {fastest.cycles:.0f} cycles)"
    if rules and any(not assumed_of(choice) for choice in near):
        told += f", which assumes unrecorded hardware rules, or within {ASSUMED_SLACK - 1:.0%} without any"
    yield f"{told}, the error of the estimate: {titles_of(near)}"
    least = min(map(assumed_of, near))
    resting = [choice for choice in near if assumed_of(choice) == least]
    trusted = [choice for choice in resting if choice.cycles <= SLACK * min(each.cycles for each in resting)]
    if len(resting) < len(near):
        rules = "no hardware rule that is not recorded" if least == 0 else f"only {least} unrecorded hardware rules"
        yield f"of these, {titles_of(resting)} {'assumes' if len(resting) == 1 else 'assume'} {rules}"
    if len(trusted) < len(resting):
        yield f"of these {'is' if len(trusted) == 1 else 'are'} within {SLACK - 1:.0%}: {titles_of(trusted)}"
    if len(trusted) > 1:
        bytes_of = ", ".join(
            f"{titles_of(list(group))} {human_bytes(moved)}"
            for moved, group in groupby(sorted(trusted, key=_traffic), key=_traffic)
        )
        yield f"chosen by bytes from L2: {bytes_of}"
        same = [choice for choice in trusted if choice.traffic_bytes == chosen.traffic_bytes]
        if len({choice.cycles for choice in same}) > 1:
            yield f"of those with equal traffic, the fastest: {title_of(chosen)}, about {chosen.cycles:.0f} cycles"
        elif len(same) > 1:
            yield f"of those with equal traffic and time, the simplest: {title_of(chosen)}"


def _decided(timed: Sequence[TimedCandidate]) -> Iterator[str]:
    """The choice of the timing engine, and what the estimates alone would have taken."""
    fastest = timed[0]
    taken = next(one for one in timed if one.taken)
    preferred = next(one for one in timed if one.preferred)
    if len(timed) == 1:
        yield f"no other estimate is within the error of {timed_title(taken)}"
        return
    yield f"the timing engine chose among the {len(timed)} candidates with the best estimates: {timed_title(taken)}"
    if taken is not fastest:
        yield (
            f"{timed_title(fastest)} assumes unrecorded hardware rules, and is taken only if "
            f"{ASSUMED_SLACK - 1:.0%} faster"
        )
    if preferred is taken:
        yield "the estimates alone would choose the same"
    else:
        yield f"the estimates alone would choose {timed_title(preferred)}"


def _tuned(tuning: Tuning) -> Iterator[str]:
    """What a tuning record says, and how it came about."""
    yield str(tuning)
    record = tuning.record
    timed = f"{record.candidates} candidates were timed"
    lost = f", {record.lost} of them failed" if record.lost else ""
    taken = ", ".join(f"{name} {value}" for name, value in record.choice.items()) or "that of the best estimate"
    width = "" if record.block_n is None else f", {record.block_n} channels per tile"
    yield f"{timed}{lost}; the fastest (+- {record.spread:.2f} us): {taken}{width}"


def timed_title(one: TimedCandidate) -> str:
    """A candidate with both of its times."""
    store = ", results through TMA" if one.tensor_stores else ""
    walk = ", persistent" if one.persistent else ""
    parts = f", split K {one.parts}" if one.parts > 1 else ""
    times = f"{one.cycles:.0f} cycles by the engine, {one.estimated:.0f} estimated"
    return f"{one.schedule.title}, {one.tiling}{store}{walk}{parts} ({times})"


def _traffic(choice: ScheduleSummary) -> int:
    return choice.traffic_bytes


HELD = "bias and scale stay in registers, as all tiles of a CTA have the same output channels"


def around_lines(plan: Plan) -> Iterator[str]:
    """Say how a residual is loaded, if there is one, and how results are stored."""
    if plan.problem.residual:
        yield residual_line(plan)
    yield store_line(plan)


def residual_line(plan: Plan) -> str:
    """Say how a residual is loaded, and why: what the epilogue would take otherwise, or what forbids that."""
    took = f"about {plan.estimate.epilogue_cycles:.0f} cycles per CTA"
    if plan.storage.residual is not None:
        read = estimate(_tiled(plan), replace(plan.work, residual_bytes=0)).epilogue_cycles
        how = "through TMA during the mainloop"
        return f"the residual is loaded {how}: the epilogue takes {took}, and {read:.0f} if its threads load it"
    reason = "as requested, or because it is no slower"
    if plan.storage.results is None:
        reason = "TMA would load it to the staging buffer of the results, and there is none"
    return f"the residual is loaded by the threads of the epilogue: {reason}"


def store_line(plan: Plan) -> str:
    """Say how results are stored, and why: what the epilogue would take otherwise, or what forbids that."""
    tiled = _tiled(plan)
    results = plan.storage.results
    if results is not None:
        direct = estimate(tiled, replace(plan.work, slabs=0, residual_bytes=0)).epilogue_cycles
        took = f"about {plan.estimate.epilogue_cycles:.0f} cycles per CTA, and {direct:.0f} with stores from registers"
        held = f"; {HELD}" if holds_numbers(plan) else ""
        return f"results are stored through SMEM and TMA: the epilogue takes {took}{held}"
    if TMA not in schedule_of(plan.schedule).stores:
        reason = f"TMA stores need output pixels as lanes, and the lanes of {plan.schedule.title} are channels"
    elif plan.reuse is not None:
        reason = not_copied(plan.reuse, plan.layout, plan.arch, Ways(store=TMA))
    else:
        reason = result_pixels(plan.layout, plan.arch)
    reason = reason or result_rows(tiled) or "as requested, or because it is no slower"
    return f"results are stored from registers: {reason}"


def _tiled(plan: Plan) -> TiledProblem:
    """The problem and the tiles of a plan."""
    return TiledProblem(
        layout=plan.layout, arch=plan.arch, tiling=plan.tiling, need=plan.storage.need, grid=plan.launch.tiles
    )
