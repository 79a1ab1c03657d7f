"""CTAs of a cluster that do alike: each of them accesses the same places of its own memory, looked at in one go.

The memories of a cluster are cut alike (`convc.sanitizer.parts`), so that an access has the same parts in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convc.machine.state.observer import LaneAccess
from convc.sanitizer.parts import Cuts, Found, Parts
from convc.sanitizer.shadow import LANES, Access, Shadow


class Alike:
    """Parts that the memories of several CTAs have alike.

    Attributes:
        cuts: what cuts them. shadows: of each memory.
        memories: which of the tables of `cuts` these are.
        parts, owners: as `Cuts.find` gives them.
    """

    def __init__(self, cuts: Cuts, shadows: Sequence[Shadow], memories: slice, found: Found) -> None:
        self.cuts = cuts
        self.shadows = shadows
        self.memories = memories
        self.parts, self.owners = found

    def before(self, write: bool) -> list[list[int]] | None:
        """`Shadow.before` of each memory; None where atomics or the like are to be looked at."""
        if write:
            entries = self.cuts.cells[self.memories, : self._tables(), self.parts]
        elif all(len(shadow.writes) == 1 for shadow in self.shadows):
            entries = self.cuts.cells[self.memories, :1, self.parts]
        else:
            return None
        numbers = entries >> 5
        there = numbers >= 0
        there[:, :, 1:] &= numbers[:, :, 1:] != numbers[:, :, :-1]  # neighbours mostly have the same
        found: list[set[int]] = [set() for _ in self.shadows]
        for memory, number in zip(there.nonzero()[0].tolist(), numbers[there].tolist(), strict=True):
            found[memory].add(number)
        return [sorted(own) for own in found]

    def record(self, number: int, accesses: Sequence[Access]) -> None:
        """`Shadow.record` in each memory, of accesses that have numbers from this one on."""
        entries = (number + np.arange(len(accesses)))[:, None] * LANES + self.owners
        if accesses[0].write:
            self.cuts.cells[self.memories, : self._tables(), self.parts] = -1
            self.cuts.cells[self.memories, 0, self.parts] = entries
            return
        keys = [(access.component, False, access.stream) for access in accesses]
        lines = [shadow.tables.line(key) for shadow, key in zip(self.shadows, keys, strict=True)]
        if lines.count(lines[0]) == len(lines):
            self.cuts.cells[self.memories, lines[0], self.parts] = entries
            return
        memories = np.arange(self.memories.start, self.memories.stop)
        self.cuts.cells[memories[:, None], np.array(lines)[:, None], self.parts] = entries

    def _tables(self) -> int:
        """How many tables the memory has that has most."""
        return max([len(shadow.tables.lines) for shadow in self.shadows])


def alike(cuts: Cuts, shadows: Sequence[Shadow], lanes: np.ndarray, places: np.ndarray) -> Alike | None:
    """Find what lanes access in several memories; None where these are not neighbours, or nothing is reached."""
    first = number_of(shadows[0])
    if any(number_of(shadow) != first + more for more, shadow in enumerate(shadows)):
        return None
    found = cuts.find(lanes, places)
    return None if found is None else Alike(cuts, shadows, slice(first, first + len(shadows)), found)


def number_of(shadow: Shadow) -> int:
    """Number a shadow among the memories that are cut alike; negative: it is of none."""
    return shadow.tables.memory if isinstance(shadow.tables, Parts) else -1


def warps_alike(accesses: Sequence[LaneAccess]) -> int:
    """Count the warps of each of several CTAs that access the memory of their CTA, at the same places in all.

    0 where it is not so.
    """
    first = accesses[0].row if accesses else 0
    warps = next((at for at, access in enumerate(accesses) if access.row != first), 0)
    if not warps or len(accesses) % warps:
        return 0
    for at, access in enumerate(accesses):
        like = accesses[at % warps]
        begins = access.row == accesses[at - at % warps].row == access.home
        if not begins or access.warp != like.warp or access.places is not like.places:
            return 0
        if access.lanes is not like.lanes and not np.array_equal(access.lanes, like.lanes):
            return 0
    return warps
