"""The choice of a schedule: what each would cost, which was taken, and the numbers that decided."""

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
from convc.report.console import Console
from convc.report.format import human_bytes
from convc.report.grid import Column, Row, grid_lines, print_grid

COLUMNS = (
    Column(""),
    Column("schedule"),
    Column("cycles", "right"),
    Column("moved", "right"),
    Column("assumed", "right"),
    Column("waits for"),
    Column("tile", below=True),
)
"""``moved``: bytes that all CTAs together read through L2; ``assumed``: rules of the hardware that the schedule rests
on and that nobody published or tested."""


def print_choices(console: Console, plan: Plan) -> None:
    """Every schedule that was considered, the fastest first, then those that are illegal here, then the reasons."""
    print_grid(console, COLUMNS, _rows(plan))
    for line in (*illegal_lines(plan), *timed_lines(plan), *why_lines(plan)):
        console.print(line, soft_wrap=True)


def choice_lines(plan: Plan) -> list[str]:
    """The table of schedules and the reasons below it as lines, however long."""
    table = [line for line, _ in grid_lines(COLUMNS, _rows(plan), None)]
    return [*table, *illegal_lines(plan), *timed_lines(plan), *why_lines(plan)]


def illegal_lines(plan: Plan) -> Iterator[str]:
    """The schedules that have no kernel here, with the reason; those with the same reason in one line."""
    names: dict[str, list[str]] = {}
    for choice in plan.choices:
        if choice.tiling is None:
            names.setdefault(choice.reason, []).append(choice.schedule.title)
    for reason, titles in names.items():
        yield f"not here: {', '.join(titles)}: {reason}"


def timed_lines(plan: Plan) -> Iterator[str]:
    """The candidates that the timing engine chose among, the fastest first."""
    for one in plan.timed:
        yield f"timed: {_timed(one)}"


def why_lines(plan: Plan) -> Iterator[str]:
    """Say why the schedule was taken, and the layout: the rules of the planner's choice, with the problem's numbers."""
    yield from _column_line(plan)
    legal = legal_choices(plan)
    chosen = next(choice for choice in legal if choice.schedule == plan.schedule)
    fell = [choice for choice in plan.choices if choice.fell]
    for choice in fell:
        yield f"{choice.schedule.title} was the one to take, until {choice.fell} failed: {choice.reason}"
    if plan.timed:
        yield from _decided(plan.timed)
        return
    if len(legal) == 1:
        asked = "the one that was asked for" if len(plan.choices) == 1 else "the only one that is possible here"
        yield f"{chosen.schedule.title} is {asked}"
        yield from _around_lines(plan)
        return
    together = plan.launch.why.split if plan.launch.parts > 1 else plan.launch.why.pairs
    several = plan.launch.parts > 1 or plan.tiling.ctas > 1
    yield from _compared(legal, _by_itself(legal) if several else chosen)
    if several:
        yield f"the table has one CTA for each tile, by itself; {together}"
    still = _best(legal, "shared memory")
    moved = _best(legal, "tensor memory")
    if still and moved and _numbers(still) != _numbers(moved):
        yield verdict_on_moving(still, moved, chosen)
    yield from _around_lines(plan)


def _around_lines(plan: Plan) -> Iterator[str]:
    """Say how a residual arrives, if there is one, and how results leave."""
    if plan.problem.residual:
        yield residual_line(plan)
    yield store_line(plan)


def residual_line(plan: Plan) -> str:
    """Say how a residual arrives, and why: what the epilogue would take the other way, or what forbids that."""
    took = f"about {plan.estimate.epilogue_cycles:.0f} cycles of a CTA"
    if plan.storage.residual is not None:
        read = estimate(_tiled(plan), replace(plan.work, residual_bytes=0)).epilogue_cycles
        how = "through tensor copies while the K loop runs"
        return f"the residual arrives {how}: the epilogue takes {took}, where its threads read it {read:.0f}"
    reason = "that was asked for, or is no slower"
    if plan.storage.results is None:
        reason = "copies bring it to where results are staged, and none are"
    return f"the residual is read by the threads that add it: {reason}"


def _tiled(plan: Plan) -> TiledProblem:
    """The problem and the tiles of a plan."""
    return TiledProblem(
        layout=plan.layout, arch=plan.arch, tiling=plan.tiling, need=plan.storage.need, grid=plan.launch.tiles
    )


HELD = "what is added to each channel stays in registers, as all tiles of a CTA have the same channels"


def store_line(plan: Plan) -> str:
    """Say how results leave, and why: what the epilogue of a CTA would take the other way, or what forbids that."""
    tiled = _tiled(plan)
    results = plan.storage.results
    if results is not None:
        direct = estimate(tiled, replace(plan.work, slabs=0, residual_bytes=0)).epilogue_cycles
        took = f"about {plan.estimate.epilogue_cycles:.0f} cycles of a CTA, from registers {direct:.0f}"
        held = f"; {HELD}" if holds_numbers(plan) else ""
        return f"results leave through shared memory and tensor copies: the epilogue takes {took}{held}"
    if TMA not in schedule_of(plan.schedule).stores:
        reason = f"tensor copies want lanes that are output pixels, which {plan.schedule.title} has not"
    elif plan.reuse is not None:
        reason = not_copied(plan.reuse, plan.layout, plan.arch, Ways(store=TMA))
    else:
        reason = result_pixels(plan.layout, plan.arch)
    reason = reason or result_rows(tiled) or "that was asked for, or is no slower"
    return f"results leave from registers: {reason}"


def _column_line(plan: Plan) -> Iterator[str]:
    """What the planner made of filter columns as channels, where it had a choice."""
    ways = {
        each.columns: f"about {each.cycles:.0f} cycles" if not each.reason else f"no kernel ({each.reason})"
        for each in plan.columns
    }
    taken = plan.layout.columns
    if len(ways) < 2:
        return
    words = {
        "off": "as taps",
        "overlap": "as channels of rows that overlap",
        "host": "as channels that the host writes",
    }
    others = "; ".join(f"{words[way]}: {text}" for way, text in ways.items() if way != taken)
    fastest = min(each.cycles for each in plan.columns if not each.reason)
    near = "" if plan.estimate.cycles == fastest else ", as near as estimates can tell, with the smallest buffer"
    yield f"filter columns {words[taken]}: {ways[taken]}{near}; {others}"


def legal_choices(plan: Plan) -> list[ScheduleSummary]:
    """The schedules that have a kernel, the fastest first."""
    return sorted((choice for choice in plan.choices if choice.tiling), key=lambda choice: choice.cycles)


def verdict_on_moving(still: ScheduleSummary, moved: ScheduleSummary, chosen: ScheduleSummary) -> str:
    """Whether activations in tensor memory gain anything over the same activations in shared memory, and why.

    Tensor memory saves reads of shared memory, and costs the tensor core copies and moves, and the issuing thread their
    issue: it pays where those reads are what takes longest, and by more than the estimates may be off.

    Args:
        still, moved: the best schedule of either kind.
        chosen: the one that was taken.
    """
    if moved.schedule != chosen.schedule and schedule_of(chosen.schedule).activations == "tensor memory":
        moved = chosen
    slide = still.schedule.title
    shift = moved.schedule.title
    reads = f"{moved.read_cycles:.0f} cycles of reading shared memory instead of {still.read_cycles:.0f}"
    if still.cycles >= slack(_assumed(still), _assumed(moved)) * moved.cycles:
        return f"{shift} pays: about {moved.cycles:.0f} cycles instead of {slide}'s {still.cycles:.0f}, for {reads}"
    times = f"about {moved.cycles:.0f} cycles, {slide} {still.cycles:.0f}"
    if moved is chosen:
        gain = "it moves fewer bytes" if moved.traffic_bytes < still.traffic_bytes else "nothing speaks against it"
        return f"moving rows in tensor memory gains less time than estimates can tell ({times}); {gain}"
    if still.cycles >= SLACK * moved.cycles:
        gained = still.cycles / moved.cycles - 1
        return (
            f"{shift} is not worth it here ({times}): {slide} takes {gained:.0%} more, and assumed rules of the "
            f"hardware are taken for granted from {ASSUMED_SLACK - 1:.0%} on"
        )
    start = f"{shift} is not worth it here ({times}): {reads} "
    spent = " and ".join(_spent_on_moving(still, moved))
    if still.bottleneck != "shared memory":
        more = f", and costs {spent}" if spent else ""
        return f"{start}gains nothing, since {slide} waits for {still.bottleneck}{more}"
    if spent:
        return f"{start}is paid for by {spent}"
    return f"{start}is less than the estimates may be off"


def _spent_on_moving(still: ScheduleSummary, moved: ScheduleSummary) -> Iterator[str]:
    """What activations in tensor memory cost beyond those in shared memory."""
    multiplied = moved.mma_cycles - still.mma_cycles
    issued = moved.multiply_cycles - still.multiply_cycles
    if multiplied > 0:
        yield f"{multiplied:.0f} more of the tensor core, to copy and to move rows"
    if issued > 0:
        yield f"{issued:.0f} more of the thread that issues it"


def _compared(legal: Sequence[ScheduleSummary], chosen: ScheduleSummary) -> Iterator[str]:
    """The steps of the choice among several: time, assumed rules, bytes."""
    fastest = legal[0]
    rules = _assumed(fastest)
    near = [choice for choice in legal if choice.cycles <= slack(_assumed(choice), rules) * fastest.cycles]
    if len(near) == 1:
        other = legal[1]
        more = other.cycles / fastest.cycles - 1
        yield (
            f"{_title(chosen)} is clearly the fastest: about {chosen.cycles:.0f} cycles; {_title(other)} takes "
            f"{other.cycles:.0f} ({more:.0%} more)"
        )
        return
    told = f"within {SLACK - 1:.0%} of the fastest ({_title(fastest)}, about {fastest.cycles:.0f} cycles)"
    if rules and any(not _assumed(choice) for choice in near):
        told += f", which rests on assumed rules, or within {ASSUMED_SLACK - 1:.0%} and on none"
    yield f"{told}, which is as near as estimates can tell: {_titles(near)}"
    least = min(map(_assumed, near))
    resting = [choice for choice in near if _assumed(choice) == least]
    trusted = [choice for choice in resting if choice.cycles <= SLACK * min(each.cycles for each in resting)]
    if len(resting) < len(near):
        on = "no assumed rule" if least == 0 else f"only {least} assumed rules"
        yield f"of these {_rest(len(resting))} on {on} of the hardware: {_titles(resting)}"
    if len(trusted) < len(resting):
        yield f"of these {'is' if len(trusted) == 1 else 'are'} within {SLACK - 1:.0%}: {_titles(trusted)}"
    if len(trusted) > 1:
        bytes_of = ", ".join(
            f"{_titles(list(group))} {human_bytes(moved)}"
            for moved, group in groupby(sorted(trusted, key=_traffic), key=_traffic)
        )
        yield f"bytes moved decide: {bytes_of}"
        same = [choice for choice in trusted if choice.traffic_bytes == chosen.traffic_bytes]
        if len({choice.cycles for choice in same}) > 1:
            yield f"where they are the same, the time: {_title(chosen)}, about {chosen.cycles:.0f} cycles"
        elif len(same) > 1:
            yield f"where time is the same, too, the simplest: {_title(chosen)}"


def _by_itself(legal: Sequence[ScheduleSummary]) -> ScheduleSummary:
    """The schedule that the planner takes where each tile has a CTA that multiplies by itself."""
    rules = _assumed(legal[0])
    near = [choice for choice in legal if choice.cycles <= slack(_assumed(choice), rules) * legal[0].cycles]
    least = min(map(_assumed, near))
    trusted = [choice for choice in near if _assumed(choice) == least]
    limit = SLACK * min(choice.cycles for choice in trusted)
    return min((choice for choice in trusted if choice.cycles <= limit), key=lambda one: (_traffic(one), one.cycles))


def _decided(timed: Sequence[TimedCandidate]) -> Iterator[str]:
    """The choice of the timing engine, and what the estimates alone would have taken."""
    fastest = timed[0]
    taken = next(one for one in timed if one.taken)
    preferred = next(one for one in timed if one.preferred)
    if len(timed) == 1:
        yield f"no estimate is near that of {_timed(taken)}"
        return
    yield f"the timing engine decided among the {len(timed)} candidates that are estimated best: {_timed(taken)}"
    if taken is not fastest:
        yield (
            f"{_timed(fastest)} rests on assumed rules of the hardware, which are taken for granted from "
            f"{ASSUMED_SLACK - 1:.0%} on"
        )
    if preferred is taken:
        yield "the estimates alone would take the same"
    else:
        yield f"the estimates alone would take {_timed(preferred)}"


def _timed(one: TimedCandidate) -> str:
    """A candidate with both of its times."""
    store = ", results through TMA" if one.tensor_stores else ""
    walk = ", persistent" if one.persistent else ""
    parts = f", {one.parts} CTAs share a tile" if one.parts > 1 else ""
    times = f"{one.cycles:.0f} cycles by the engine, {one.estimated:.0f} estimated"
    return f"{one.schedule.title}, {one.tiling}{store}{walk}{parts} ({times})"


def _rows(plan: Plan) -> list[Row]:
    """A row for each schedule, or for several of the same numbers; the one that was taken is marked."""
    together: dict[tuple[object, ...], list[ScheduleSummary]] = {}
    for choice in legal_choices(plan):
        together.setdefault(_numbers(choice), []).append(choice)
    rows: list[Row] = []
    for choices in together.values():
        taken = any(choice.schedule == plan.schedule for choice in choices)
        first = next((choice for choice in choices if choice.schedule == plan.schedule), choices[0])
        cells = (
            "*" if taken else "",
            _titles([first, *(choice for choice in choices if choice is not first)]),
            f"{first.cycles:.0f}",
            human_bytes(first.traffic_bytes),
            _span([_assumed(choice) for choice in choices]),
            first.bottleneck,
            str(first.tiling),
        )
        rows.append(Row(cells, "bold" if taken else None))
    return rows


def _numbers(choice: ScheduleSummary) -> tuple[object, ...]:
    """Everything that is estimated of a schedule: where two have the same, they do the same."""
    return choice.cycles, choice.traffic_bytes, choice.mma_cycles, choice.read_cycles, choice.bottleneck


def _span(counts: Sequence[int]) -> str:
    """The least and the largest of some numbers, in one where they are the same."""
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _rest(count: int) -> str:
    """The verb for so many subjects."""
    return "rests" if count == 1 else "rest"


def _title(choice: ScheduleSummary) -> str:
    return choice.schedule.title


def _titles(choices: Sequence[ScheduleSummary]) -> str:
    return ", ".join(map(_title, choices))


def _traffic(choice: ScheduleSummary) -> int:
    return choice.traffic_bytes


def _assumed(choice: ScheduleSummary) -> int:
    """Assumed rules that a schedule rests on."""
    return schedule_of(choice.schedule).assumed


def _best(legal: Sequence[ScheduleSummary], activations: str) -> ScheduleSummary | None:
    """The fastest schedule that shares activations, pixels being rows, from shared or from tensor memory."""
    for choice in legal:
        schedule = schedule_of(choice.schedule)
        if schedule.shares and not schedule.transposed and schedule.activations == activations:
            return choice
    return None
