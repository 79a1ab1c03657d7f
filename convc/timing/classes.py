"""Classes of tiles: those at the ends of a grid's axes may lie in part outside of the tensor, and then do less.

One cluster of each class is recorded. A launch of one round takes as long as its whole tiles; where rounds follow each
other, the clusters of all classes are put together in the order in which they are numbered (`convc.timing.chip`).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from convc.ir.launch import LaunchSpec
from convc.timing.trace import Trace

Ends = tuple[bool, ...]
"""For x, y and z: whether a cluster is the last one along that axis of the grid."""

PART = 0.95
"""A tile is one in part if it moves less than this of what a whole one moves: padding makes tiles differ a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileClass:
    """Clusters that do less than whole ones.

    Attributes:
        ends: where in the grid they lie.
        trace: of one of them.
    """

    ends: Ends
    trace: Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class GridTiles:
    """The tiles of a grid.

    Attributes:
        extent: clusters along x, y and z.
        parts: the classes of those that are not whole.
    """

    extent: tuple[int, ...]
    parts: tuple[TileClass, ...] = ()

    def kinds(self) -> np.ndarray:
        """The class of each cluster, in their order (x fastest): 0 whole, else 1 + its place in ``parts``."""
        last = [(np.arange(extent) == extent - 1) & (extent > 1) for extent in self.extent]
        where = np.broadcast_arrays(last[0][None, None, :], last[1][None, :, None], last[2][:, None, None])
        found = np.zeros(where[0].shape, np.int64)
        for number, part in enumerate(self.parts, 1):
            alike = [lies == end for lies, end in zip(where, part.ends, strict=True)]
            found[np.logical_and.reduce(alike)] = number
        return found.ravel()


def tiles_of(launch: LaunchSpec, whole: Trace, record: Callable[[int], Trace]) -> GridTiles:
    """Find the classes of a launch's tiles.

    Args:
        launch: its grid and clusters.
        whole: trace of a cluster that is at no end of an axis with several.
        record: makes the trace of the cluster whose first CTA has a number.
    """
    size = math.prod(launch.cluster)
    extent = tuple(all_of // own for all_of, own in zip(launch.grid, launch.cluster, strict=True))
    several = tuple(count > 1 for count in extent)
    parts: list[TileClass] = []
    # The last cluster of all lies in part outside if any does.
    for ends in sorted(itertools.product(*((False, True) if one else (False,) for one in several)), reverse=True):
        if not any(ends):
            continue
        x, y, z = (count - 1 if end else 0 for count, end in zip(extent, ends, strict=True))
        trace = record(((z * extent[1] + y) * extent[0] + x) * size)
        if _moved(trace) < PART * _moved(whole):
            parts.append(TileClass(ends=ends, trace=trace))
        elif ends == several:
            break
    return GridTiles(extent=extent, parts=tuple(parts))


def in_order(
    kinds: Sequence[int], slots: int, cycles: Mapping[tuple[int, bool], float], gap: float
) -> tuple[list[tuple[int, bool]], list[int]]:
    """Put clusters into slots in their order: the next one goes where the first one is done.

    Args:
        kinds: the class of each cluster.
        slots: clusters that are on the chip at the same time.
        cycles: that a cluster takes, by its class and by whether it is of those that are left when all slots have been
            filled as often as they can be.
        gap: cycles between clusters that follow each other.

    Returns:
        What the slot that is done last has had, one after the other; and how many clusters were the first, the second
        and so on of their slots.
    """
    late = len(kinds) // slots * slots
    free = [(0.0, slot) for slot in range(min(slots, len(kinds)))]
    had: list[list[tuple[int, bool]]] = [[] for _ in free]
    for number, kind in enumerate(kinds):
        start, slot = free[0]
        one = kind, number >= late
        had[slot].append(one)
        heapq.heapreplace(free, (start + cycles[one] + gap, slot))
    turns = Counter(turn for slot in had for turn in range(len(slot)))
    return had[max(free)[1]], [turns[turn] for turn in sorted(turns)]


def _moved(trace: Trace) -> float:
    """Bytes that a cluster really moves: of copies, and of the sectors that its warps touch."""
    copied = sum(work.bytes - work.filled for work in trace.works)
    return copied + 32 * sum(sum(item.sectors) for items in trace.items.values() for item in items)
