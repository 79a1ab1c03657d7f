"""The first wave of a kernel as tracks of slices: what its warps, the units of its SMs and the stages of its rings do.

Nothing overlaps on a track: what is in flight at the same time gets tracks of its own. Slices of warps lie inside each
other: steps, the instructions in them, and in a wait that was blocked the part after its phase had completed. Times are
cycles from the entry of the first CTA.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from convc.timing.attribution import LATE, reasons
from convc.timing.chip import TimedLaunch, port_cycles
from convc.timing.engine import Replay
from convc.timing.events import Event
from convc.timing.rings import Stage, stages
from convc.timing.tensor_core import multiply_cycles

BLOCKED = ("phase", "barrier", "group")
"""Edges of an event that stood still until another one was done."""

COPIERS = {"load": "TMA copy", "store": "bulk store"}
"""What a wait for a work is for, where it is not for the tensor core."""


@dataclass(slots=True, kw_only=True)
class Slice:
    """Something that a track does for some time.

    Attributes:
        name: what; a wait is ``wait: `` and its cause, so that viewers, which colour by name, colour it by cause.
        kind: ``step``, ``instruction``, ``wait``, ``wake``, ``work`` or ``stage``.
        start, end: cycles.
        line: of the text; 0 for what has none.
        inner: slices inside of it, one after the other.
        gives, takes: numbers of the arrows that begin and end here.
    """

    name: str
    kind: str
    start: float
    end: float
    line: int = 0
    inner: list[Slice] = field(default_factory=list["Slice"])
    gives: list[int] = field(default_factory=list[int])
    takes: list[int] = field(default_factory=list[int])

    @property
    def cycles(self) -> float:
        """Its length."""
        return self.end - self.start


@dataclass(slots=True, kw_only=True)
class Track:
    """Slices that do not overlap, in order of time.

    Attributes:
        group: the SM that it belongs to, as ``SM 0``.
        name: who. kind: ``role``, ``unit``, ``copies`` or ``stage``.
        slices: the outermost ones.
    """

    group: str
    name: str
    kind: str
    slices: list[Slice]


@dataclass(slots=True, kw_only=True)
class Curve:
    """A number that changes: from the time of a point on it has its value."""

    group: str
    name: str
    unit: str
    points: list[tuple[float, float]]


@dataclass(slots=True, kw_only=True)
class Timeline:
    """Tracks of the first wave, curves beside them, and how many arrows lead from slice to slice."""

    tracks: list[Track]
    curves: list[Curve]
    arrows: int


def timeline(launch: TimedLaunch) -> Timeline:
    """The timeline of the first wave of a launch: the warps first, then units, copies and stages of each SM."""
    replay = launch.replay
    rings = stages(replay)
    shown: dict[int, Slice] = {}
    others = [*_units(replay, shown), *_copies(replay, shown), *_stage_tracks(rings, replay)]
    warps = _warps(replay, shown)
    arrows = _draw_arrows(replay.events, shown, warps)
    roles = [Track(group=_group(replay, row), name=name, kind="role", slices=own) for row, name, own in _named(warps)]
    return Timeline(tracks=roles + others, curves=[*_rates(replay), *_fills(rings, replay)], arrows=arrows)


def walk(slices: Iterable[Slice]) -> Iterator[Slice]:
    """All slices, those inside of others behind them."""
    for one in slices:
        yield one
        yield from walk(one.inner)


def _group(replay: Replay, row: int) -> str:
    return f"SM {row % len(replay.sms)}"


# ---- warps ---------------------------------------------------------------------------------------------------------

Warps = dict[tuple[int, int], list[Slice]]


def _warps(replay: Replay, shown: dict[int, Slice]) -> Warps:
    """The slices of every warp; ``shown`` gets those from which arrows begin."""
    sources = {event.cause for event in replay.events if blocked(event)}
    found: Warps = defaultdict(list)
    time: dict[tuple[int, int], float] = {}
    for number, event in enumerate(replay.events):
        if event.work is not None:
            continue
        warp = (event.row, event.warp)
        slices = _step_of(found[warp], event, min(time.get(warp, event.start), event.start))
        if event.start > time.get(warp, event.start):
            slices.append(Slice(name=f"wait: {LATE[event.late]}", kind="wait", start=time[warp], end=event.start))
        if event.end > event.start or number in sources:
            one = _instruction(event, replay.events)
            slices.append(one)
            shown[number] = one
        time[warp] = event.end
        if event.step:
            found[warp][-1].end = event.end
    return found


def _step_of(slices: list[Slice], event: Event, start: float) -> list[Slice]:
    """The list that the slices of an event's step go to; instructions without a step stand for themselves."""
    if not event.step:
        return slices
    if not slices or slices[-1].kind != "step" or slices[-1].name != event.step:
        slices.append(Slice(name=event.step, kind="step", start=start, end=event.end, line=event.line))
    return slices[-1].inner


def _instruction(event: Event, events: Sequence[Event]) -> Slice:
    """The slice of an instruction; of one that waited, with the wake-up inside."""
    one = Slice(name=event.name, kind="instruction", start=event.start, end=event.end, line=event.line)
    cause = wait_cause(event, events)
    if cause:
        one.name = f"wait: {cause}"
        one.kind = "wait"
    if blocked(event):
        assert event.cause is not None, "what is blocked has a cause"
        reached = min(max(event.start, events[event.cause].end), event.end)
        one.inner.append(Slice(name="wake-up", kind="wake", start=reached, end=event.end))
    return one


def blocked(event: Event) -> bool:
    """Whether a warp stood still until another event was done."""
    return event.edge in BLOCKED and event.cause is not None


def wait_cause(event: Event, events: Sequence[Event]) -> str:
    """The reason that an instruction of a warp takes longer than by itself; "" for none."""
    if blocked(event) and event.cause is not None:
        cause = events[event.cause]
        if event.edge == "barrier":
            return "barrier"
        if cause.work is None:
            return "warp arrival"
        return COPIERS.get(cause.name, "tensor core")
    if event.end == event.start or (event.edge == "program" and not event.busy):
        return ""
    longest = max(reasons(event, event.end - event.start), key=lambda pair: pair[1])[0]
    return "" if longest == "issue" else longest


def _named(warps: Warps) -> Iterator[tuple[int, str, list[Slice]]]:
    """Row, name and slices of each warp, by CTA and role: that of most of its time, as steps say, and its number."""
    ctas = len({row for row, _ in warps})
    for (row, warp), slices in sorted(warps.items()):
        spent: Counter[str] = Counter()
        for one in slices:
            if one.kind == "step":
                spent[one.name.partition(".")[0]] += round(one.cycles)
        role = f"{spent.most_common(1)[0][0]} " if spent else ""
        yield row, f"{f'CTA {row} ' if ctas > 1 else ''}{role}warp {warp}", slices


def _draw_arrows(events: Sequence[Event], shown: dict[int, Slice], warps: Warps) -> int:
    """Lead an arrow from what completes a phase, a barrier or a group to each wake-up; how many there are."""
    wakes = {id(one): one.inner[0] for slices in warps.values() for one in walk(slices) if _has_wake(one)}
    count = 0
    for number, event in enumerate(events):
        if event.work is None and blocked(event) and event.cause is not None:
            count += 1
            shown[event.cause].gives.append(count)
            wakes[id(shown[number])].takes.append(count)
    return count


def _has_wake(one: Slice) -> bool:
    return bool(one.inner) and one.inner[0].kind == "wake"


# ---- units, copies, stages -----------------------------------------------------------------------------------------


def _units(replay: Replay, shown: dict[int, Slice]) -> Iterator[Track]:
    """A track for each unit of each SM that has anything to do: the time that it is busy."""
    for sm, units in enumerate(replay.sms):
        for name, unit in units.units.items():
            slices: list[Slice] = []
            for begin, cycles, number in unit.served:
                event = replay.events[number]
                slices.append(
                    Slice(name=event.step or event.name, kind="work", start=begin, end=begin + cycles, line=event.line)
                )
                if event.track == "tensor core":
                    shown[number] = slices[-1]
            if slices:
                yield Track(group=f"SM {sm}", name=name, kind="unit", slices=slices)


def _copies(replay: Replay, shown: dict[int, Slice]) -> Iterator[Track]:
    """Copies in flight, from the beginning of their service to their arrival: as many tracks as overlap."""
    for sm in range(len(replay.sms)):
        free: list[tuple[float, int]] = []
        tracks: list[list[Slice]] = []
        flown = [(event.start, number) for number, event in enumerate(replay.events) if event.track == "tma"]
        for _, number in sorted(flown):
            event = replay.events[number]
            if event.row % len(replay.sms) != sm:
                continue
            if free and free[0][0] <= event.start:
                _, track = heapq.heappop(free)
            else:
                track = len(tracks)
                tracks.append([])
            work = replay.trace.works[event.work or 0]
            name = f"{work.kind} {work.buffer}".strip()
            one = Slice(name=name, kind="work", start=event.start, end=event.end, line=event.line)
            tracks[track].append(one)
            shown[number] = one
            heapq.heappush(free, (event.end, track))
        for index, slices in enumerate(tracks):
            yield Track(group=f"SM {sm}", name=f"copies in flight {index}", kind="copies", slices=slices)


def _stage_tracks(rings: Iterable[Stage], replay: Replay) -> Iterator[Track]:
    """A track for each stage: filling, full, and empty between two turns."""
    several = len({stage.row for stage in rings}) > 1
    for stage in rings:
        slices: list[Slice] = []
        for turn in stage.turns:
            if slices and turn.begin > slices[-1].end:
                slices.append(Slice(name="empty", kind="stage", start=slices[-1].end, end=turn.begin))
            slices.append(Slice(name="filling", kind="stage", start=turn.begin, end=turn.full))
            slices.append(Slice(name="full", kind="stage", start=turn.full, end=turn.free))
        name = f"CTA {stage.row} {stage.name}" if several else stage.name
        yield Track(group=_group(replay, stage.row), name=name, kind="stage", slices=slices)


# ---- curves --------------------------------------------------------------------------------------------------------


def _rates(replay: Replay) -> Iterator[Curve]:
    """Bytes a cycle of each SM's ports, and the share of its rate at which the tensor core multiplies."""
    chip = replay.chip
    works = replay.trace.works
    for sm, units in enumerate(replay.sms):
        group = f"SM {sm}"
        served = [(begin, cycles, works[replay.events[event].work or 0]) for begin, cycles, event in units.fill.served]
        yield _curve(group, "fill port", "B/clk", ((begin, cycles, work.bytes) for begin, cycles, work in served))
        served = [
            (begin, cycles, works[replay.events[event].work or 0]) for begin, cycles, event in units.tensor.served
        ]
        port = chip["shared_memory.read_port"]
        read = ((begin, cycles, port * port_cycles(work, chip)) for begin, cycles, work in served)
        yield _curve(group, "read port for the tensor core", "B/clk", read)
        rate = [(begin, cycles, 100 * multiply_cycles(work.mma, chip)) for begin, cycles, work in served if work.mma]
        yield _curve(group, "tensor core", "%", rate)


def _curve(group: str, name: str, unit: str, spans: Iterable[tuple[float, float, float]]) -> Curve:
    """A curve that has an amount, spread over some cycles, in each span, and 0 between them."""
    points = [(0.0, 0.0)]
    for begin, cycles, amount in spans:
        if points[-1][0] == begin:
            points.pop()
        points += [(begin, amount / cycles if cycles else 0.0), (begin + cycles, 0.0)]
    return Curve(group=group, name=name, unit=unit, points=points)


def _fills(rings: Iterable[Stage], replay: Replay) -> Iterator[Curve]:
    """How many stages of each ring are full."""
    changes: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
    for stage in rings:
        for turn in stage.turns:
            changes[stage.row, stage.ring] += [(turn.full, 1), (turn.free, -1)]
    several = len({row for row, _ in changes}) > 1
    for (row, ring), steps in changes.items():
        points = [(0.0, 0.0)]
        for time, change in sorted(steps):
            if points[-1][0] == time:
                points[-1] = (time, points[-1][1] + change)
            else:
                points.append((time, points[-1][1] + change))
        yield Curve(
            group=_group(replay, row), name=f"CTA {row} {ring}" if several else ring, unit="stages", points=points
        )
