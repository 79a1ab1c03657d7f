"""Operands of asynchronous copies: who copies, and to which CTAs of the cluster.

A copy is issued by single threads, and the CTAs of a strand issue it together. `issue_groups` takes an instruction
apart into groups of CTAs whose scalar operands (addresses, sizes, masks) agree, so that each group is one numpy
operation; coordinates and source addresses may differ inside a group. `CopyTarget` resolves shared::cluster addresses
and multicast masks into rows of the cohort (see `cluster_ranks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import overload

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.cluster_ranks import OFFSET, RANK_SHIFT, own_offset
from convc.machine.base.values import Value, plain
from convc.machine.memory.global_memory import Buffer, GlobalMemory
from convc.machine.state.cohort import Cohort
from convc.machine.state.strand import Strand


@dataclass(slots=True)
class IssueGroup:
    """One thread's part of an instruction, in CTAs whose scalar operands agree.

    Attributes:
        thread: (warp position, lane).
        values: the scalar operands.
        chosen: positions of the CTAs among those of the strand, or None for all.
        rows: their rows in the cohort, or None for all of the cohort.
        count: number of CTAs.
    """

    thread: tuple[int, int]
    values: tuple[int, ...]
    chosen: np.ndarray | None
    rows: np.ndarray | None
    count: int

    def pick(self, strand: Strand, value: Value) -> int | np.ndarray:
        """An operand that may differ between the CTAs."""
        found = strand.pick(value, self.thread)
        return found[self.chosen] if self.chosen is not None and isinstance(found, np.ndarray) else found


def issue_groups(strand: Strand, operands: list[Value]) -> Iterator[IssueGroup]:
    """All active threads of an instruction, and for each the groups of CTAs in which ``operands`` are the same."""
    for thread in strand.threads():
        values = [strand.pick(value, thread) for value in operands]
        taking = _active(strand, thread)
        if taking is None and plain(values):
            yield IssueGroup(thread, tuple(values), None, strand.rows, strand.row_count)
            continue
        rows = strand.cohort.rows_or_all(strand.rows)
        taking = np.arange(len(rows)) if taking is None else taking
        if not values:
            yield IssueGroup(thread, (), taking, rows[taking], len(taking))
            continue
        table = np.array([np.broadcast_to(value, len(rows))[taking] for value in values], np.uint64)
        kinds, member = np.unique(table, axis=1, return_inverse=True)
        for number, column in enumerate(kinds.T.tolist()):
            chosen = taking[member.reshape(-1) == number]
            yield IssueGroup(thread, tuple(column), chosen, rows[chosen], len(chosen))


def _active(strand: Strand, thread: tuple[int, int]) -> np.ndarray | None:
    """Positions of the CTAs in which a thread is active, None for all."""
    mask = strand.mask
    if mask is None or mask.shape[0] == 1:
        return None
    column = mask[:, thread[0] if mask.shape[1] > 1 else 0, thread[1] if mask.shape[2] > 1 else 0]
    return None if column.all() else np.flatnonzero(column)


@dataclass(slots=True)
class CopyTarget:
    """Where a copy goes.

    Attributes:
        address, barrier: local shared addresses, the same in every destination.
        rows: rows of the destinations, those of the first issuing CTA first; None for all of the cohort in order.
        repeat: destinations per issuing CTA.
        signals: rows whose barrier is signalled, one per destination; None for all of the cohort in order.
    """

    address: int
    barrier: int
    rows: np.ndarray | None
    repeat: int = 1
    signals: np.ndarray | None = None

    @overload
    def spread(self, value: int) -> int: ...
    @overload
    def spread(self, value: np.ndarray) -> np.ndarray: ...
    def spread(self, value: int | np.ndarray) -> int | np.ndarray:
        """A number per issuing CTA as a number per destination."""
        return np.repeat(value, self.repeat) if self.repeat > 1 and isinstance(value, np.ndarray) else value


def copy_target(
    cohort: Cohort, rows: np.ndarray | None, dst: int, mbar: int, mask: int | None = None, pair: bool = False
) -> CopyTarget:
    """Resolve the destination and barrier addresses of a copy that the CTAs ``rows`` issue.

    Args:
        cohort: the CTAs.
        rows: the issuing CTAs' rows; None for all.
        dst, mbar: shared::cluster addresses; a local address means the issuing CTA.
        mask: multicast mask, a bit per rank, or None.
        pair: ``.cta_group::2``: the barrier may be in the other CTA of the destination's pair.

    Source: PTX manual, cp.async.bulk.tensor, .multicast::cluster and .cta_group.
    """
    address = dst & OFFSET
    barrier = mbar & OFFSET
    if mask is None and cohort.cluster_size == 1 and dst == address and mbar == barrier:
        return CopyTarget(address, barrier, rows, 1, rows)
    issuers = np.arange(cohort.ctas) if rows is None else rows
    own = cohort.place.rank[issuers]
    ranks = _rank(cohort, dst, own)[:, None]
    bell = _rank(cohort, mbar, own)[:, None]
    if mask is not None:
        if not 0 < mask < 1 << cohort.cluster_size:
            raise MachineFault(
                f"the multicast mask {mask:#x} must name CTAs of a cluster of {cohort.cluster_size}, and at least one"
            )
        named = [rank for rank in range(cohort.cluster_size) if mask >> rank & 1]
        ranks = np.broadcast_to(named, (len(issuers), len(named)))
        bell = (ranks & ~1) | (bell & 1) if pair else ranks
    elif (bell != ranks).any() and not (pair and (bell == ranks ^ 1).all()):
        where = "its pair" if pair else "the same CTA"
        raise MachineFault(
            f"the mbarrier of a copy is in CTA {int(bell[0, 0])} of the cluster and its destination in CTA "
            f"{int(ranks[0, 0])}; they must be in {where}",
            hint="" if pair else ".cta_group::2 allows the barrier to be in the other CTA of a pair",
        )
    first = (issuers - own)[:, None]
    return CopyTarget(address, barrier, _settle(cohort, first + ranks), ranks.shape[1], _settle(cohort, first + bell))


def own_target(cohort: Cohort, rows: np.ndarray | None, dst: int, mbar: int) -> CopyTarget:
    """Destination and barrier of a .shared::cta copy: in the issuing CTAs."""
    where = own_address(cohort, rows, dst, "the destination of a copy")
    return CopyTarget(where, own_address(cohort, rows, mbar, "the mbarrier of a copy"), rows, 1, rows)


def own_address(cohort: Cohort, rows: np.ndarray | None, address: int, what: str) -> int:
    """The local part of a shared::cta address of the CTAs ``rows``; faults where it names another CTA."""
    ranks = cohort.place.rank if rows is None else cohort.place.rank[rows]
    return own_offset(address, ranks, cohort.cluster_size, what)


def aligned(what: str, **numbers: int) -> None:
    """Bulk copies move 16 bytes at a time: fault where an address or the size is no multiple."""
    for name, number in numbers.items():
        if number % 16:
            raise MachineFault(f"{what}: the {name} must be a multiple of 16, got {number:#x}")


def shared_span(cohort: Cohort, what: str, address: int, size: int) -> slice:
    """A range of shared memory; faults where it leaves the CTA's."""
    if address + size > cohort.shared.size:
        raise MachineFault(
            f"{what} of {size} bytes at shared address {address:#x}, but the CTA has {cohort.shared.size:#x} bytes"
        )
    return slice(address, address + size)


@dataclass(slots=True)
class GlobalSpan:
    """The global memory of a bulk copy.

    Attributes:
        buffer: where it lies.
        offset: byte where it begins, one for all issuing CTAs or int64 (ctas,).
        size: bytes.
    """

    buffer: Buffer
    offset: int | np.ndarray
    size: int


def global_span(memory: GlobalMemory, what: str, address: int | np.ndarray, size: int) -> GlobalSpan:
    """``size`` bytes from each address; faults where they are not all inside one buffer."""
    low = int(np.min(address))
    high = int(np.max(address))
    aligned(what, **{"global address": int(np.bitwise_or.reduce(np.atleast_1d(address)))})
    buffer = memory.at(low)
    if buffer is None:
        raise MachineFault(f"{what}: global address {low:#x} is in no buffer")
    if high + size > buffer.base + buffer.size:
        raise MachineFault(
            f"{what} of {size} bytes at offset {high - buffer.base} of buffer {buffer.name!r}, "
            f"which has {buffer.size} bytes"
        )
    return GlobalSpan(buffer, address - buffer.base, size)


def complete(cohort: Cohort, target: CopyTarget, amount: int, name: str) -> None:
    """complete_tx of ``amount`` bytes on the barrier of every destination."""
    rows = target.signals
    barrier = cohort.barrier(target.barrier, name, rows)
    if rows is None:
        barrier.add_tx(cohort.ctas, None, -amount)
        return
    distinct, times = np.unique(rows, return_counts=True)
    each = int(times[0]) if (times == times[0]).all() else times
    barrier.add_tx_each(cohort.ctas, _settle(cohort, distinct), each, -amount)


def _rank(cohort: Cohort, address: int, own: np.ndarray) -> np.ndarray:
    """The rank that a shared::cluster address names, for each issuing CTA of rank ``own``."""
    field = address >> RANK_SHIFT
    if field >= cohort.cluster_size:
        raise MachineFault(f"shared address {address:#x} is in no CTA of the cluster of size {cohort.cluster_size}")
    return np.full(len(own), field)


def _settle(cohort: Cohort, rows: np.ndarray) -> np.ndarray | None:
    """Rows as a flat array, or None when they are all rows of the cohort in order."""
    flat = rows.reshape(-1)
    return None if flat.size == cohort.ctas and (flat == np.arange(cohort.ctas)).all() else flat
