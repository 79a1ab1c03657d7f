"""Tensor copies into shared memory that wait (`convc.machine.lazy`): who makes them, and what shows at once.

A kernel without clusters has one address for all CTAs. In clusters every CTA has its own (`cluster_ranks`), and where
each of them copies into its own shared memory all of it is one copy here as well, with the barriers that it signals:
those of the CTAs themselves, or with ``.cta_group::2`` those of the other CTA of the pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from convc.machine.base.cluster_ranks import OFFSET, RANK_SHIFT
from convc.machine.base.values import Value
from convc.machine.isa.copies.issue import CopyTarget, IssueGroup
from convc.machine.lazy.deferral import Walked
from convc.machine.lazy.regions import Region, region
from convc.machine.memory.mbarrier import MBarrier
from convc.machine.state.cohort import Cohort
from convc.machine.state.counters import copies_of
from convc.machine.state.strand import Strand
from convc.machine.tma.load import TensorLoader
from convc.ptx import Instr


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


def walk_again(strand: Strand, instr: Instr, issued: Issued, where: int, signal: int) -> bool:
    """Put off the copy of one thread whose start coordinates but the first are those of its last one, if they are.

    Args:
        strand, instr, issued: who copies, and what.
        where, signal: shared address, and that of the mbarrier, in the own CTA.
    """
    cohort = strand.cohort
    if cohort.short is None or strand.rows is not None:
        return False
    found = _walked(strand, instr, issued, where)
    if found is None:
        return False
    cohort.short.load(issued.name, found)
    note_load(cohort, issued.name, signal, found)
    return True


def remember_walk(strand: Strand, instr: Instr, issued: Issued, where: int) -> None:
    """Keep what the copy to a shared address found out, where it is put off."""
    cohort = strand.cohort
    if cohort.short is None or strand.rows is not None or strand.active is None:
        return
    found = cohort.shared.put_off.get(where)
    if isinstance(found, Region) and found.loader is issued.loader:
        _remember(strand, instr, issued, found)


def note_load(cohort: Cohort, buffer: str, barrier: int, put_off: Region, signals: Signals = OWN) -> None:
    """Do what anybody can see of a copy that waits: its marks, its complete_tx, and the books."""
    result = put_off.result
    rows = put_off.rows
    key = ("copy", put_off.start, put_off.stop)
    if key not in cohort.shared.written.known:
        cohort.shared.written.mark(slice(put_off.start, put_off.stop), rows, key)
    amount = result.bytes * signals.times
    cohort.barrier(barrier, "cp.async.bulk.tensor").add_tx(cohort.ctas, signals.rows, -amount)
    count = cohort.ctas if rows is None else len(rows)
    copies_of(cohort.counters.tma_loads, buffer).add(count, result.bytes, result.filled)


def put_off_in_clusters(strand: Strand, instr: Instr, issued: Issued, to: Value, barrier: Value, pair: bool) -> bool:
    """Put off the copy of one thread of each CTA of the strand into its own shared memory, if it is one.

    Args:
        strand, instr, issued: who copies, and what.
        to, barrier: shared addresses. pair: ``.cta_group::2``.

    Returns:
        Whether it was put off; if not, nothing has happened.
    """
    cohort = strand.cohort
    if cohort.short is None or strand.active is None:
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
    again = _walked(strand, instr, issued, where) if rows is None else None
    put_off = again or _new(strand, issued, where)
    if bell is None or put_off is None or not _alike(bell, signals, put_off.result.bytes):
        return False
    if again is None and rows is None:
        _remember(strand, instr, issued, put_off)
    cohort.short.load(issued.name, put_off)
    note_load(cohort, issued.name, signal, put_off, signals)
    return True


def put_off_multicast(strand: Strand, issued: Issued, targets: list[tuple[IssueGroup, CopyTarget]]) -> bool:
    """Put off what groups of CTAs copy to each other, if every CTA gets one copy at each address.

    Args:
        strand, issued: who copies, and what.
        targets: for each group where its copy goes.

    Returns:
        Whether all of it was put off; if not, nothing has happened.
    """
    cohort = strand.cohort
    places: dict[tuple[int, int], list[tuple[IssueGroup, CopyTarget]]] = {}
    for group, target in targets:
        places.setdefault((target.address, target.barrier), []).append((group, target))
    found: list[tuple[int, Region, Signals]] = []
    for (address, barrier), parts in places.items():
        rows = np.concatenate([cohort.rows_or_all(target.rows) for _, target in parts])
        order = rows.argsort()
        if len(rows) != cohort.ctas or (rows[order] != np.arange(cohort.ctas)).any():
            return False
        coords = tuple([_joined(strand, slot, parts)[order] for slot in issued.coords])
        put_off = region(issued.loader, cohort.shared.padded, address, coords, issued.offsets, issued.mode, cohort.ctas)
        bells = np.concatenate([cohort.rows_or_all(target.signals) for _, target in parts])
        signalled, times = np.unique(bells, return_counts=True)
        bell = cohort.barriers.get(barrier)
        if put_off is None or bell is None or (times != times[0]).any():
            return False
        signals = Signals(signalled, int(times[0]))
        if not bell.takes_together(signalled, len(places) * signals.times * put_off.result.bytes):
            return False
        found.append((barrier, put_off, signals))
    spans = sorted((put_off.start, put_off.stop) for _, put_off, _ in found)
    if cohort.short is None or any(one[1] > other[0] for one, other in pairwise(spans)):
        return False
    for barrier, put_off, signals in found:
        cohort.short.load(issued.name, put_off)
        note_load(cohort, issued.name, barrier, put_off, signals)
    return True


def _joined(strand: Strand, slot: int, parts: list[tuple[IssueGroup, CopyTarget]]) -> np.ndarray:
    """A coordinate of every copy, in the order of the destinations of all groups."""
    counts = [len(strand.cohort.rows_or_all(target.rows)) for _, target in parts]
    values = [target.spread(group.pick(strand, strand.regs[slot])) for group, target in parts]
    return np.concatenate([np.broadcast_to(value, count) for value, count in zip(values, counts, strict=True)])


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


def _walked(strand: Strand, instr: Instr, issued: Issued, where: int) -> Region | None:
    """The copy from the start coordinates, but the first, of the instruction's last one; None where they differ."""
    cohort = strand.cohort
    thread = strand.active
    known = None if cohort.short is None else cohort.short.walked.get(instr.index)
    outer = [strand.regs[slot] for slot in issued.coords[1:]]
    if known is None or thread is None or not known.fits(issued.loader, thread, outer):
        return None
    value = strand.regs[issued.coords[0]]
    first = value if type(value) is int else strand.pick(value, thread)
    return region(
        issued.loader,
        cohort.shared.padded,
        where,
        (first, *outer),
        issued.offsets,
        issued.mode,
        cohort.ctas,
        known.walk,
    )


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


def _remember(strand: Strand, instr: Instr, issued: Issued, found: Region) -> None:
    """Keep the walk of a copy for the next one of its instruction."""
    if strand.cohort.lazy is not None and strand.active is not None:
        outer = [strand.regs[slot] for slot in issued.coords[1:]]
        walk = found.walk.origin or found.walk
        strand.cohort.lazy.walked[instr.index] = Walked(issued.loader, strand.active, outer, walk)
