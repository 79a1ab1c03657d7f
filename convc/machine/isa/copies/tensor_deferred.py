"""Tensor copies into shared memory that wait (`convc.machine.lazy`): who makes them, and what shows at once.

A kernel without clusters has one address for all CTAs. In clusters every CTA has its own (`cluster_ranks`), and where
each of them copies into its own shared memory all of it is one copy here as well, with the barriers that it signals:
those of the CTAs themselves, or with ``.cta_group::2`` those of the other CTA of the pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convc.machine.base.cluster_ranks import OFFSET, RANK_SHIFT
from convc.machine.base.values import Value
from convc.machine.lazy.regions import Region, region
from convc.machine.memory.mbarrier import MBarrier
from convc.machine.state.cohort import Cohort
from convc.machine.state.counters import copies_of
from convc.machine.state.strand import Strand
from convc.machine.tma.load import TensorLoader


@dataclass(slots=True)
class Issued:
    """A copy as its instruction says it.

    Attributes:
        name: the buffer that the tensor is in. loader: of its map.
        coords: slots of the coordinates.
        offsets, mode: as for `TensorLoader.load`.
    """

    name: str
    loader: TensorLoader
    coords: list[int]
    offsets: tuple[int, ...]
    mode: str


@dataclass(frozen=True, slots=True)
class Signals:
    """Barriers that a copy of all CTAs signals: those of the CTAs ``rows`` (None: of all), of each so many times."""

    rows: np.ndarray | None = None
    times: int = 1


OWN = Signals()


def note_load(cohort: Cohort, buffer: str, barrier: int, deferred: Region, signals: Signals = OWN) -> None:
    """Do what anybody can see of a copy that waits: its marks, its complete_tx, and the books."""
    result = deferred.result
    rows = deferred.rows
    key = ("copy", deferred.start, deferred.stop)
    if key not in cohort.shared.written.known:
        cohort.shared.written.mark(slice(deferred.start, deferred.stop), rows, key)
    amount = result.bytes * signals.times
    cohort.barrier(barrier, "cp.async.bulk.tensor").add_tx(cohort.ctas, signals.rows, -amount)
    count = cohort.ctas if rows is None else len(rows)
    copies_of(cohort.counters.tma_loads, buffer).add(count, result.bytes, result.filled)


def defer_in_clusters(strand: Strand, issued: Issued, to: Value, barrier: Value, pair: bool) -> bool:
    """Defer the copy of one thread of each CTA of the strand into its own shared memory, if it is one.

    Args:
        strand, issued: who copies, and what.
        to, barrier: shared addresses. pair: ``.cta_group::2``.

    Returns:
        Whether it was deferred; if not, nothing has happened.
    """
    cohort = strand.cohort
    if cohort.unobserved_deferral is None or strand.active is None:
        return False
    rows = strand.rows
    where = _own_offset(cohort, strand.pick(to, strand.active), rows)
    if where is None:
        return False
    at = strand.pick(barrier, strand.active)
    signal = _own_offset(cohort, at, rows)
    signals = OWN if rows is None else Signals(rows)
    if signal is None:
        found = _in_pairs(cohort, at, rows) if pair else None
        if found is None:
            return False
        signal, signals = found
    bell = cohort.barriers.get(signal)
    deferred = _new(strand, issued, where)
    if bell is None or bell.gone or deferred is None or not _alike(bell, signals, deferred.result.bytes):
        return False
    cohort.unobserved_deferral.load(issued.name, deferred)
    note_load(cohort, issued.name, signal, deferred, signals)
    return True


def own_places(strand: Strand, to: Value, barrier: Value) -> tuple[int, int] | None:
    """The place and barrier of a copy by one thread of each CTA, if both are in its own CTA, at one offset in all."""
    if strand.active is None:
        return None
    where, signal = (_own_offset(strand.cohort, strand.pick(at, strand.active), strand.rows) for at in (to, barrier))
    return None if where is None or signal is None else (where, signal)


def _own_offset(cohort: Cohort, address: int | np.ndarray, rows: np.ndarray | None) -> int | None:
    """The address inside the CTA that each of the CTAs has for it in itself; None where they name other places."""
    if isinstance(address, int):
        return None  # a CTA of one rank, for all
    ranks = cohort.place.rank if rows is None else cohort.place.rank[rows]
    offsets = address - (ranks << RANK_SHIFT)
    first = int(offsets[0])
    return first if 0 <= first <= OFFSET and bool((offsets == first).all()) else None


def _in_pairs(cohort: Cohort, address: int | np.ndarray, rows: np.ndarray | None) -> tuple[int, Signals] | None:
    """Offset and CTAs of barriers in CTAs of the own pair, each of as many as any other; None where they lie elsewhere.

    An address is the same for all CTAs where there is one pair in a cluster, and each has another where there are more.
    ``rows``: the CTAs that name it; None: every CTA.
    """
    everyone = cohort.rows_or_all(rows)
    own = cohort.place.rank[everyone]
    ranks = address >> RANK_SHIFT
    offset = address & OFFSET
    if isinstance(offset, np.ndarray):
        if (offset != offset[0]).any():
            return None
        offset = int(offset[0])
    if cohort.cluster_size % 2 or ((ranks ^ own) > 1).any():
        return None
    named, times = np.unique(everyone - own + ranks, return_counts=True)
    return (offset, Signals(named, int(times[0]))) if (times == times[0]).all() else None


def _alike(barrier: MBarrier, signals: Signals, amount: int) -> bool:
    """Whether it makes no difference that several complete_tx of ``amount`` bytes come at once."""
    return signals.times == 1 or barrier.takes_together(signals.rows, signals.times * amount)


def _new(strand: Strand, issued: Issued, where: int) -> Region | None:
    """The copy from new start coordinates; None where it must be performed at once."""
    cohort = strand.cohort
    thread = strand.active
    if thread is None:
        return None
    at = tuple([strand.pick(strand.regs[slot], thread) for slot in issued.coords])
    limit = cohort.shared.padded
    found = region(issued.loader, limit, where, at, issued.offsets, issued.mode, strand.row_count)
    if found is not None:
        found.rows = strand.rows
    return found
