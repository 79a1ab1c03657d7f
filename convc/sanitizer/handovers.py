"""Sums and other data that warps of different clusters hand over: stored, released, acquired, and then read.

A warp stores to global memory, its lanes meet (``bar.warp.sync``), and one of them releases at a location, with a scope
that holds other clusters. A lane of another warp acquires what it finds there, its lanes meet, and they load: then the
stores come before the loads (PTX manual, "Memory Consistency Model", "Causality Order"). Atomics in between pass a
release on. Nothing else is followed here, no fences and no barriers of CTAs: what those may order has to be looked at.

Warps are numbered through the grid. `Handovers` counts the meetings of each, so that a store has a time: it is before a
release if the lanes have met since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from convc.sanitizer.releases import MemoryOrder
from convc.sanitizer.shadow import Sparse

Known = dict[int, int]
"""By warp, the number of its meetings: its stores before the last of these are known."""


class Handovers:
    """The stores of other warps that each warp of a grid knows of.

    Attributes:
        met: meetings of each warp's lanes so far.
        known: of each warp that has heard of others. heard: what a lane has, since they met.
        held: what was released at a location: a buffer, and the offset there.
        buffers: of every place the warp that has stored there last, and when; and who has read that: the number of an
            instruction, and a CTA.
    """

    def __init__(self, warps: int) -> None:
        self.met = np.zeros(warps, np.int32)
        self.known: dict[int, Known] = {}
        self.heard: dict[int, Known] = {}
        self.held: dict[tuple[str, int], Known] = {}
        self.buffers: dict[str, Sparse] = {}

    def meet(self, warps: np.ndarray) -> None:
        """The lanes of warps know of each other."""
        self.met[warps] += 1
        for warp in self.heard.keys() & set(warps.tolist()):
            _join(self.known.setdefault(warp, {}), self.heard.pop(warp))

    def order(self, order: MemoryOrder, stores: bool, buffer: str, starts: np.ndarray, warps: np.ndarray) -> None:
        """Lanes access locations with an order, which counts if it is for all clusters; `stores`: they do not load."""
        if order.widest:
            for start, warp in zip(starts.tolist(), warps.tolist(), strict=True):
                self._order(order, stores, (buffer, start), warp)

    def _order(self, order: MemoryOrder, stores: bool, place: tuple[str, int], warp: int) -> None:
        """One lane at one location."""
        if order.acquire and place in self.held:
            _join(self.heard.setdefault(warp, {}), self.held[place])
        if stores:
            self.held.pop(place, None)
        if order.release:
            own = {warp: int(self.met[warp])}
            _join(self.held.setdefault(place, {}), self.known.get(warp, {}) | own)

    def stored(
        self, buffer: str, starts: np.ndarray, size: int, warps: np.ndarray | None
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray, int]]:
        """Warps store, or (None) copies do: (instruction, offsets, CTAs, bytes) of reads that took this for done."""
        tables = self.buffers.setdefault(buffer, Sparse())
        places, offsets = tables.find(starts, size)
        reader, line = tables.both("reader", "reader line")
        read = reader[places] >= 0
        for index in np.unique(line[places[read]]).tolist():
            mine = read & (line[places] == index)
            yield index, offsets[mine], reader[places[mine]], tables.unit
        reader[places] = -1
        writer, time = tables.both("writer", "time")
        writer[places] = -1 if warps is None else warps[:, None]
        time[places] = 0 if warps is None else self.met[warps][:, None]

    def read(
        self, index: int, buffer: str, starts: np.ndarray, size: int, cta: np.ndarray, warps: np.ndarray
    ) -> np.ndarray:
        """Whether all that loads of an instruction read, each of a CTA and a warp, has been handed over."""
        tables = self.buffers.get(buffer)
        if tables is None or not self.known.keys() & set(np.unique(warps).tolist()):
            return np.zeros(len(starts), bool)
        places, _ = tables.find(starts, size)
        writer, time = tables.both("writer", "time")
        by = writer[places]
        both = np.stack([np.broadcast_to(warps[:, None], by.shape).ravel(), by.ravel()], axis=1)
        pairs, which = np.unique(both, axis=0, return_inverse=True)
        upto = [self.known.get(one, {}).get(other, -1) for one, other in pairs.tolist()]
        known = np.array(upto)[which].reshape(by.shape)
        free = np.all((by >= 0) & (known > time[places]), axis=1)
        reader, line = tables.both("reader", "reader line")
        reader[places[free]] = cta[free][:, None]
        line[places[free]] = index
        return free


def _join(known: Known, more: Mapping[int, int]) -> None:
    """Know what both say."""
    for warp, time in more.items():
        known[warp] = max(time, known.get(warp, time))
