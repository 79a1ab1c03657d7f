"""Traces of clusters that lie on the same SMs at the same time."""

from __future__ import annotations

import functools

from msgspec.structs import replace

from convc.timing.trace import Contribution, Item, Trace


@functools.lru_cache(maxsize=4)
def side_by_side(trace: Trace, copies: int) -> Trace:
    """A trace of several clusters that know nothing of each other: rows of the next ones follow."""
    if copies == 1:
        return trace
    whole = Trace(items={}, works=[], phases={}, arrivals={}, ctas=trace.ctas * copies, prefetches=trace.prefetches)
    for copy in range(copies):
        rows = copy * trace.ctas
        first = len(whole.works)
        whole.works += [replace(work, row=work.row + rows) for work in trace.works]
        for (row, warp), items in trace.items.items():
            whole.items[row + rows, warp] = [_moved(item, rows, first, copy) for item in items]
        for (row, address, number), contributions in trace.phases.items():
            whole.phases[row + rows, address, number] = [_contribution(one, rows, first) for one in contributions]
        whole.barriers |= {(row + rows, address): name for (row, address), name in trace.barriers.items()}
        for meeting, arrivals in trace.arrivals.items():
            whole.arrivals[*meeting, copy] = [((row + rows, warp), item) for (row, warp), item in arrivals]
    return whole


def _moved(item: Item, rows: int, first: int, copy: int) -> Item:
    """An item of a copy."""
    waits = None if item.waits is None else (item.waits[0] + rows, item.waits[1], item.waits[2])
    meets = None if item.meets is None else (*item.meets, copy)
    leaves = None if item.leaves is None else (*item.leaves, copy)
    return replace(item, works=[work + first for work in item.works], waits=waits, meets=meets, leaves=leaves)


def _contribution(one: Contribution, rows: int, first: int) -> Contribution:
    """A contribution of a copy."""
    warp = None if one.warp is None else (one.warp[0] + rows, one.warp[1])
    return Contribution(warp, one.item, tuple(work + first for work in one.works))
