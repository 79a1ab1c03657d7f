"""What an instruction does, as observers are told it: who executes, and what each lane accesses."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from convc.machine.base.values import Value, fixed
from convc.machine.isa.copies.issue import CopyTarget, IssueGroup
from convc.machine.isa.copies.lines import parts_of
from convc.machine.state.observed import ObservedStrand
from convc.machine.state.observer import GlobalRange, LaneAccess, Transfer
from convc.machine.state.strand import Strand
from convc.ptx import Instr

LANES = np.arange(32)
NOTHING = np.empty(0, np.int64)


class Actor(NamedTuple):
    """A warp that executes in a watched CTA.

    Attributes:
        at, row: the CTA, as its position in the strand and as its row in the cohort.
        warp_at, warp: the warp, as its position in the strand and as its number in the CTA.
        lanes: (n,) its lanes that execute.
    """

    at: int
    row: int
    warp_at: int
    warp: int
    lanes: np.ndarray


def watched_rows(strand: ObservedStrand) -> list[tuple[int, int]]:
    """(position in the strand, row in the cohort) of the CTAs that observers are told of."""
    count = strand.cohort.watched
    if strand.rows is None:
        return [(row, row) for row in range(count)]
    return [(position, int(strand.rows[position])) for position in np.flatnonzero(strand.rows < count).tolist()]


def actors(strand: ObservedStrand, mask: np.ndarray | None = None) -> list[Actor]:
    """Every warp that executes in a watched CTA; ``mask`` has the lanes, where they are not the strand's."""
    rows = watched_rows(strand)
    mask = strand.mask if mask is None else mask
    numbers: list[int] = strand.warps.tolist()
    warps = list(enumerate(numbers))
    if mask is None:
        return [Actor(at, row, w, warp, LANES) for at, row in rows for w, warp in warps]
    full = np.broadcast_to(mask, (len(mask), len(warps), 32))
    if len(mask) == 1:  # the same lanes in all CTAs
        active = [(w, warp, np.flatnonzero(full[0, w])) for w, warp in warps]
        return [Actor(at, row, w, warp, lanes) for at, row in rows for w, warp, lanes in active if lanes.size]
    found = [Actor(at, row, w, warp, np.flatnonzero(full[at, w])) for at, row in rows for w, warp in warps]
    return [actor for actor in found if actor.lanes.size]


@lru_cache(maxsize=1 << 10)
def _places_from(starts: bytes, size: int) -> np.ndarray:
    """The ``size`` places from each start (int64, n of them) on, int64 (n, size); not to be written, and kept.

    The CTAs of a cluster, and the rounds of a loop, access the same ones: observers know an array by its identity.
    """
    return fixed(np.frombuffer(starts, np.int64)[:, None] + np.arange(size))


def lane_accesses(
    strand: ObservedStrand, offset: Value, size: int, homes: np.ndarray | None = None
) -> list[LaneAccess]:
    """Accesses of ``size`` bytes of shared memory at offsets that broadcast to (rows, warps, lanes).

    ``homes`` are the CTAs whose memory it is, of the same shape; None: each its own.
    """
    shape = (strand.row_count, len(strand.warps), 32)
    starts = np.broadcast_to(np.asarray(offset, np.int64), shape)
    owners = None if homes is None else np.broadcast_to(homes, shape)
    found: list[LaneAccess] = []
    for at, row, w, warp, lanes in actors(strand):
        own_starts = starts[at, w] if lanes is LANES else starts[at, w, lanes]
        places = _places_from(own_starts.tobytes(), size)
        if owners is None:
            found.append(LaneAccess(row, warp, row, lanes, places))
            continue
        own = owners[at, w, lanes]
        if (own == own[0]).all():  # all bytes of one CTA: the very array that others have too
            found.append(LaneAccess(row, warp, int(own[0]), lanes, places))
            continue
        for home in np.unique(own).tolist():
            found.append(LaneAccess(row, warp, home, lanes[own == home], places[own == home]))
    return found


def notify_shared(
    strand: Strand, instr: Instr, kind: str, offset: Value, size: int, homes: np.ndarray | None = None
) -> None:
    """Tell the observer of ordinary accesses of shared memory; see `lane_accesses`."""
    observer = strand.cohort.observer
    if observer is not None and "shared" in observer.wants:
        observer.shared(strand, instr, kind, lane_accesses(strand, offset, size, homes))


def notify_copy(
    strand: Strand,
    instr: Instr,
    group: IssueGroup,
    target: CopyTarget | None,
    *,
    reads: np.ndarray = NOTHING,
    writes: np.ndarray = NOTHING,
    memory: GlobalRange | None = None,
    swizzle: str | None = None,
) -> None:
    """Tell the observer of a copy that the CTAs of a group issue: to a target, or (None) into global memory."""
    observer = strand.cohort.observer
    if observer is not None:
        observer.copy(strand, instr, _transfer(strand, group, target, reads, writes, memory, swizzle))


def notify_copies(
    strand: Strand, instr: Instr, groups: list[IssueGroup], reads: list[np.ndarray], memory: GlobalRange
) -> None:
    """Tell the observer of copies into global memory, of each group its own; ``memory`` is what all of them reach."""
    observer = strand.cohort.observer
    if observer is not None:
        parts = parts_of(memory, [group.count for group in groups])
        transfers = [
            _transfer(strand, group, None, own, NOTHING, part)
            for group, own, part in zip(groups, reads, parts, strict=True)
        ]
        observer.copies(strand, instr, transfers, memory)


def _transfer(
    strand: Strand,
    group: IssueGroup,
    target: CopyTarget | None,
    reads: np.ndarray,
    writes: np.ndarray,
    memory: GlobalRange | None,
    swizzle: str | None = None,
) -> Transfer:
    cohort = strand.cohort
    rows = np.arange(cohort.ctas) if group.rows is None else group.rows
    homes = signals = np.empty((len(rows), 0), np.int64)
    if target is not None:
        everyone = np.arange(cohort.ctas)
        homes = (everyone if target.rows is None else target.rows).reshape(len(rows), -1)
        signals = (everyone if target.signals is None else target.signals).reshape(len(rows), -1)
    warp, lane = group.thread
    return Transfer(
        rows=rows,
        thread=(int(strand.warps[warp]), lane),
        reads=reads,
        writes=writes,
        homes=homes,
        signals=signals,
        barrier=None if target is None else target.barrier,
        memory=memory,
        swizzle=swizzle,
    )
