"""The critical path of a replay, back from the last event along what let each begin or end when it did.

Every cycle of the path has a step and a cause. Causes are a unit that works, its latency, a warp's issue, a
value that is not there yet, or a barrier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from convc.timing.events import Event

BUSY = {
    "mma": "tensor core", "mma.ashift": "tensor core", "cp": "tcgen05.cp", "shift": "tcgen05.shift",
}  # fmt: skip
"""Who performs a work of the tensor core while it is busy with it; a copy has what limits it."""

LATENCY = {"load": "TMA latency", "store": "bulk stores"}
"""Cycles of a work in which its unit is not busy with it; "tensor-core latency" where it is none of these."""

LATE = {
    "global memory": "global-memory loads", "tensor memory": "tensor-memory loads",
    "shared memory": "loads of SMEM and parameters", "alu": "data dependency",
}  # fmt: skip
"""What an instruction waits for, by who makes the value."""


@dataclass(frozen=True, slots=True)
class PathPart:
    """Cycles of the critical path.

    Attributes:
        step: whose instruction it is; where the text has no steps, its line.
        cause: what took them: a unit or its latency, ``issue``, ``tensor-core queue``, ``wake-up``,
            ``data dependency`` (on an instruction before), ``loads`` of a memory, ``barrier``, or ``entry``.
        cycles: how many.
    """

    step: str
    cause: str
    cycles: float


@dataclass(frozen=True, slots=True)
class StepTime:
    """Cycles of the critical path in a step, and share of them by cause, most first."""

    step: str
    cycles: float
    waits: Mapping[str, float]


def critical_path(events: Sequence[Event]) -> tuple[PathPart, ...]:
    """The longest chain of events, as cycles by step and cause, most first; they add up to the last event's end."""
    spent: dict[tuple[str, str], float] = defaultdict(float)
    at: int | None = max(range(len(events)), key=lambda index: events[index].end, default=None)
    time = events[at].end if at is not None else 0.0
    while at is not None:
        event = events[at]
        before = None if event.cause is None else events[event.cause]
        place = place_of(event)
        if event.edge in ("phase", "barrier", "group") and before is not None:
            reached = min(before.end, time)
            spent[place, "barrier" if event.edge == "barrier" else "wake-up"] += time - reached
        else:
            began = min(event.start, time)
            for cause, cycles in reasons(event, time - began):
                spent[place, cause] += cycles
            reached = began
            if before is not None and event.edge == "program" and before.end < began:
                spent[place, LATE.get(event.late, "data dependency")] += began - before.end
                reached = before.end
        time = reached
        at = event.cause
    spent["", "entry"] += time
    parts = [PathPart(step, cause, cycles) for (step, cause), cycles in spent.items() if cycles > 0]
    return tuple(sorted(parts, key=lambda part: -part.cycles))


def reasons(event: Event, cycles: float) -> Iterable[tuple[str, float]]:
    """The causes of an event's own first ``cycles``."""
    if event.work is not None:
        busy = min(cycles, event.busy)
        yield BUSY.get(event.name, event.unit), busy
        yield LATENCY.get(event.name, "tensor-core latency"), cycles - busy
    elif event.edge == "queue" and event.unit == "alu":
        yield "tensor-core queue", cycles
    else:
        busy = min(cycles, event.busy)
        yield "SMEM read port" if event.unit == "shared memory" else "global-memory sectors", busy
        yield "issue", cycles - busy


def place_of(event: Event) -> str:
    """The step that an event belongs to, or its line."""
    return event.step or f"line {event.line}"


def by_cause(parts: Sequence[PathPart]) -> Mapping[str, float]:
    """Cycles of each cause, most first."""
    spent: dict[str, float] = defaultdict(float)
    for part in parts:
        spent[part.cause] += part.cycles
    return dict(sorted(spent.items(), key=lambda pair: -pair[1]))


def by_step(parts: Sequence[PathPart]) -> tuple[StepTime, ...]:
    """The critical path by step, most first; the lines of a text without steps are steps."""
    steps: dict[str, list[PathPart]] = defaultdict(list)
    for part in parts:
        steps[part.step].append(part)
    found: list[StepTime] = []
    for step, own in steps.items():
        cycles = sum(part.cycles for part in own)
        found.append(StepTime(step, cycles, {part.cause: part.cycles / cycles for part in own}))
    return tuple(sorted(found, key=lambda one: -one.cycles))
