"""The part of a replay that is the same on every chip: kinds of items, who waits for what, and what no other sees.

The numbers that an answer depends on are found by a replay for each, and a round of the grid takes several.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from convc.timing.trace import Item, Trace, Warp

NO_SECTORS = (0, 0)
"""Of an item that touches no global memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A trace as replays need it.

    Attributes:
        due: how many contributions each phase and each meeting waits for.
        users: phases that an item or a work contributes to.
        kinds: items whose own cycles are alike: one of each, and whether it is a jump that is taken.
        kind: of each warp's items, as a number of ``kinds``.
        alone: of each warp's items, and False behind them: no other sees it, and it takes no unit but the warp's.
    """

    due: Mapping[object, int]
    users: Mapping[object, Sequence[object]]
    kinds: Sequence[tuple[Item, bool]]
    kind: Mapping[Warp, Sequence[int]]
    alone: Mapping[Warp, Sequence[bool]]


@functools.lru_cache(maxsize=4)
def outline(trace: Trace) -> Outline:
    """The outline of a trace, which is complete: nothing is added to it any more."""
    due: dict[object, int] = {}
    users: dict[object, list[object]] = defaultdict(list)
    for phase, contributions in trace.phases.items():
        needed: set[object] = set()
        for one in contributions:
            needed.update(one.works)
            if one.warp is not None:
                needed.add((one.warp, one.item))
        due[phase] = len(needed)
        for key in needed:
            users[key].append(phase)
    for meeting, arrivals in trace.arrivals.items():
        due[meeting] = len(arrivals)
    kinds: dict[object, int] = {}
    samples: list[tuple[Item, bool]] = []
    kind: dict[Warp, list[int]] = {}
    for warp, items in trace.items.items():
        numbers = kind[warp] = []
        for item, after in zip(items, [*items[1:], None], strict=True):
            jumps = item.name == "bra" and after is not None and after.index != item.index + 1
            key = (item.name, jumps, item.unrolled, item.repeats, item.cycles, item.sass)
            number = kinds.setdefault(key, len(samples))
            if number == len(samples):
                samples.append((item, jumps))
            numbers.append(number)
    alone = {
        warp: [*(_is_alone(item) and (warp, at) not in users for at, item in enumerate(items)), False]
        for warp, items in trace.items.items()
    }
    return Outline(due=due, users=dict(users), kinds=samples, kind=kind, alone=alone)


def _is_alone(item: Item) -> bool:
    """Whether an item only takes its warp's time."""
    joins = item.works or item.waits or item.meets or item.leaves or item.group or item.left is not None
    return not (joins or item.wavefronts or item.remote or item.cells or item.sectors != NO_SECTORS)


def unit_of(item: Item) -> str:
    """The unit that performs an instruction of a warp."""
    if item.sectors != NO_SECTORS:
        return "global memory"
    if item.cells:
        return "tensor memory"
    return "shared memory" if item.wavefronts or item.remote or item.name == "ld" else "alu"


def bytes_behind(trace: Trace) -> dict[int, int]:
    """Bytes that are asked for behind each of the copies that a warp issues before it has waited for anything."""
    behind: dict[int, int] = {}
    for items in trace.items.values():
        first = next((at for at, item in enumerate(items) if item.waits is not None), len(items))
        asked = [number for item in items[:first] for number in item.works if trace.works[number].kind == "load"]
        so_far = 0
        for number in reversed(asked):
            behind[number] = so_far
            so_far += trace.works[number].bytes
    return behind
