"""The critical path of a replay: back from the last event along what let each begin or end when it did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from convc.timing.engine import Event

CAUSES = {
    "load": "copy through TMA", "store": "store through TMA", "mma": "tensor core", "mma.ashift": "tensor core",
    "cp": "tcgen05.cp", "shift": "tcgen05.shift",
}  # fmt: skip
"""What people call the work of a unit."""


@dataclass(frozen=True, slots=True)
class Part:
    """Cycles of the critical path.

    Attributes:
        step: whose instruction it is; where the text has no steps, its line.
        cause: what took them: a unit, ``own instructions``, ``queue of the tensor core``, ``sectors of global memory``,
            ``wake-up``, ``result`` (of an instruction before), ``barrier``, or ``entry``.
        cycles: how many.
    """

    step: str
    cause: str
    cycles: float


def critical_path(events: Sequence[Event]) -> tuple[Part, ...]:
    """The longest chain of events, as cycles by step and cause, most first; they add up to the last event's end."""
    spent: dict[tuple[str, str], float] = defaultdict(float)
    at: int | None = max(range(len(events)), key=lambda index: events[index].end, default=None)
    time = events[at].end if at is not None else 0.0
    while at is not None:
        event = events[at]
        before = None if event.cause is None else events[event.cause]
        if event.edge in ("phase", "barrier", "group") and before is not None:
            reached = min(before.end, time)
            spent[_place(event), "barrier" if event.edge == "barrier" else "wake-up"] += time - reached
        else:
            began = min(event.start, time)
            spent[_place(event), _reason(event)] += time - began
            reached = began
            if before is not None and event.edge == "program" and before.end < began:
                spent[_place(event), "result"] += began - before.end
                reached = before.end
        time = reached
        at = event.cause
    spent["", "entry"] += time
    parts = [Part(step, cause, cycles) for (step, cause), cycles in spent.items() if cycles > 0]
    return tuple(sorted(parts, key=lambda part: -part.cycles))


def _reason(event: Event) -> str:
    """What an event's own time goes to."""
    if event.edge == "queue" and event.track.startswith(("warp", "CTA")):
        return "queue of the tensor core" if event.name.startswith("tcgen05") else "sectors of global memory"
    return CAUSES.get(event.name, "own instructions")


def _place(event: Event) -> str:
    """The step that an event belongs to, or its line."""
    return event.step or f"line {event.line}"


def by_cause(parts: Sequence[Part]) -> Mapping[str, float]:
    """Cycles of each cause, most first."""
    spent: dict[str, float] = defaultdict(float)
    for part in parts:
        spent[part.cause] += part.cycles
    return dict(sorted(spent.items(), key=lambda pair: -pair[1]))
