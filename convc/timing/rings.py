"""The stages of a kernel's rings, found in its trace: when each is being filled, full, and free again.

A stage is an mbarrier at which copies arrive. Whoever issues its next copy has waited, right before, for the barrier
that says that the stage is free; where none did, a stage is taken to be full until its last waiter has gone on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from convc.timing.engine import Replay
from convc.timing.trace import Phase, Trace

Home = tuple[int, int]
"""An mbarrier: row of its CTA, shared address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One use of a stage: its first copy begins at ``begin``, it is full at ``full``, and free again at ``free``."""

    begin: float
    full: float
    free: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage of a ring of one CTA, with its turns in order.

    Attributes:
        row: of the CTA.
        name: of its mbarrier, as ``full_a[0]``. ring: the same without a number.
        turns: they do not overlap.
    """

    row: int
    name: str
    ring: str
    turns: tuple[Turn, ...]


def stages(replay: Replay) -> list[Stage]:
    """The stages of all CTAs of a replay, in the order of their addresses."""
    copied = _copied(replay.trace)
    freed = _freed(replay.trace, copied)
    begins = {event.work: event.start for event in replay.events if event.work is not None}
    gone: dict[Phase, float] = {}
    for event in replay.events:
        if event.phase is not None:
            gone[event.phase] = max(gone.get(event.phase, 0.0), event.end)
    turns: dict[Home, list[Turn]] = defaultdict(list)
    for phase, works in sorted(copied.items()):
        row, address, number = phase
        full = replay.complete(phase)
        free = gone.get(phase, full)
        if (row, address) in freed:
            (other_row, other), ahead = freed[row, address]
            if (release := (other_row, other, number + 1 + ahead)) in replay.trace.phases:
                free = replay.complete(release)
        turns[row, address].append(Turn(begin=min(begins[work] for work in works), full=full, free=free))
    found: list[Stage] = []
    for (row, address), own in turns.items():
        name = replay.trace.barriers.get((row, address), f"mbarrier {address}")
        found.append(Stage(row=row, name=name, ring=name.partition("[")[0], turns=_in_order(own)))
    return found


def _copied(trace: Trace) -> dict[Phase, list[int]]:
    """The copies that complete each phase; phases that no copy completes are left out."""
    found: dict[Phase, list[int]] = defaultdict(list)
    for phase, contributions in trace.phases.items():
        for one in contributions:
            if one.warp is None:
                found[phase] += one.works
    return found


def _freed(trace: Trace, copied: Mapping[Phase, list[int]]) -> dict[Home, tuple[Home, int]]:
    """For a stage the barrier that frees it, and how many phases that is ahead of the stage's own."""
    filled = {work: phase for phase, works in copied.items() for work in works}
    found: dict[Home, tuple[Home, int]] = {}
    for items in trace.items.values():
        waited: Phase | None = None
        for item in items:
            if item.tests:
                waited = item.waits
            for work in item.works:
                phase = filled.get(work)
                if waited is not None and phase is not None and waited not in copied:
                    found[phase[:2]] = (waited[:2], waited[2] - phase[2])
    return found


def _in_order(turns: list[Turn]) -> tuple[Turn, ...]:
    """The same turns, none beginning before the one before has ended."""
    found: list[Turn] = []
    for index, turn in enumerate(turns):
        begin = max(turn.begin, found[-1].full) if found else turn.begin
        full = max(turn.full, begin)
        latest = max(turns[index + 1].begin, full) if index + 1 < len(turns) else max(turn.free, full)
        found.append(Turn(begin=begin, full=full, free=min(max(turn.free, full), latest)))
    return tuple(found)
