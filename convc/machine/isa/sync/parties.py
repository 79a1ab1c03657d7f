"""Groups of threads that do the same at an mbarrier: each thread has an address and amounts of its own.

The manual orders the threads of one instruction in no way, so a strand may act for one group of threads after the
other. A *party* is such a group: its threads name one shared address, in CTAs of one rank or each in its own CTA, and
inside a CTA the same amounts. Nearly always all threads of an instruction are one party.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.cluster_ranks import OFFSET, RANK_SHIFT, own_offset
from convc.machine.base.values import Value
from convc.machine.isa.operands import shared_address_of
from convc.machine.isa.threads import same_place, thread_shape
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Address, Instr

Amount = int | np.ndarray
"""A number, or int64 (rows,) where the CTAs of a strand differ."""


class Party(NamedTuple):
    """Threads that do the same at one mbarrier, or at one of each CTA.

    Attributes:
        lanes: bool (rows | 1, warps, 32), which of the active threads they are; None for all.
        where: the shared address of the mbarrier in its CTA.
        homes: rows of the CTAs that it lies in, one for each CTA of the strand; None for all of the cohort in order.
        amounts: the other operands.
    """

    lanes: np.ndarray | None
    where: int
    homes: np.ndarray | None
    amounts: tuple[Amount, ...]


Parties = Callable[[Strand, list[Value]], list[Party]]
"""From a strand and the amounts of its threads to its parties."""


def parties_of(instr: Instr, table: SlotTable, *, own: bool) -> Parties:
    """The parties of an instruction with an mbarrier operand.

    Args:
        instr: the instruction; the first address among its operands is that of the mbarrier.
        table: its operand table.
        own: the mbarrier must lie in the thread's own CTA (an address of rank 0 means that too); else a
            shared::cluster address may name any CTA of the cluster, and two CTAs may name the same one.
    """
    operand = next(o for o in instr.operands if isinstance(o, Address))
    address = shared_address_of(operand, table)
    name = instr.form.name

    def run(strand: Strand, amounts: list[Value]) -> list[Party]:
        value = address(strand.regs)
        cohort = strand.cohort
        if isinstance(value, int) and cohort.cluster_size == 1 and value <= OFFSET:
            where = value
            homes = strand.rows
        else:
            shared = of_each_cta(strand, value)
            if shared is None:
                return list(_apart(strand, value, amounts, name, own))
            where, homes = _resolve(strand, shared, name, own)
            if isinstance(where, np.ndarray):
                return list(_apart(strand, value, amounts, name, own))
        known: list[Amount] = []
        for amount in amounts:
            shared = amount if isinstance(amount, int) else of_each_cta(strand, amount)
            if shared is None:
                return list(_apart(strand, value, amounts, name, own))
            known.append(shared)
        return [Party(None, where, homes, tuple(known))]

    return run


def act(strand: Strand, party: Party, run: Callable[[Strand], None]) -> None:
    """Do something in the threads of a party alone."""
    if party.lanes is None:
        run(strand)
    else:
        strand.only(party.lanes, run)


def of_each_cta(strand: Strand, value: Value) -> Amount | None:
    """Find what all active threads of a CTA have: a number, or int64 (rows,) where CTAs differ; None where threads do.

    Nothing is promised of CTAs without an active thread.
    """
    if not isinstance(value, np.ndarray):
        return int(value)
    if strand.active is not None:
        return strand.pick(value, strand.active)
    if value.shape[1] == 1 and value.shape[2] == 1:
        column = value[:, 0, 0]
    elif strand.mask is None:
        column = value[:, 0, 0]
        if (value != column[:, None, None]).any():
            return None
    else:
        full = np.broadcast_to(value, (max(len(value), len(strand.mask)), len(strand.warps), 32))
        mask = np.broadcast_to(strand.mask, full.shape)
        first = mask.reshape(len(mask), -1).argmax(axis=1)
        column = np.take_along_axis(full.reshape(len(full), -1), first[:, None], axis=1)[:, 0]
        if ((full != column[:, None, None]) & mask).any():
            return None
        column = np.where(mask.any(axis=(1, 2)), column, column[mask.any(axis=(1, 2)).argmax()])
    return int(column[0]) if (column == column[0]).all() else column.astype(np.int64)


def _resolve(strand: Strand, address: Amount, name: str, own: bool) -> tuple[Amount, np.ndarray | None]:
    """(local address, rows of the CTAs that the mbarrier lies in) for addresses that the threads of a CTA share."""
    cohort = strand.cohort
    if own:
        ranks = cohort.place.rank[_rows(strand)]
        idle = strand.count == 0 if isinstance(strand.count, np.ndarray) else None
        if idle is not None and isinstance(address, np.ndarray):
            address = np.where(idle, address & OFFSET, address)
        local = own_offset(address, ranks, cohort.cluster_size, name)
        homes = strand.rows
    else:
        local = address & OFFSET
        homes = named_rows(strand, address >> RANK_SHIFT)
    if isinstance(local, np.ndarray):
        acting = local[np.broadcast_to(strand.count, local.shape) > 0]
        return (int(acting[0]) if (acting == acting[0]).all() else local), homes
    return int(local), homes


def named_rows(strand: Strand, field: Amount) -> np.ndarray | None:
    """Rows that the rank field of a shared::cluster address names, one per CTA of the strand; None: all, in order."""
    cohort = strand.cohort
    rows = _rows(strand)
    own = cohort.place.rank[rows]
    rank = np.broadcast_to(field, own.shape)
    if isinstance(strand.count, np.ndarray):
        rank = np.where(strand.count > 0, rank, own)
    if (rank >= cohort.cluster_size).any():
        raise MachineFault(
            f"a shared::cluster address names CTA {int(rank.max())} of a cluster of {cohort.cluster_size}"
        )
    named = rows - own + rank
    return None if len(named) == cohort.ctas and (named == np.arange(cohort.ctas)).all() else named


def _rows(strand: Strand) -> np.ndarray:
    return strand.cohort.rows_or_all(strand.rows)


def _apart(strand: Strand, address: Value, amounts: list[Value], name: str, own: bool) -> Iterator[Party]:
    """One party after the other, in the order of their first threads; amounts that a CTA shares part nobody."""
    shape = thread_shape(strand)
    alike = _alike(strand, address, amounts) if own else None
    if alike is not None:  # one CTA says it for all
        address = alike
        shape = (1, *shape[1:])
    active = np.broadcast_to(np.True_ if strand.mask is None else strand.mask, shape)
    at = np.broadcast_to(np.asarray(address), shape)[active].astype(np.int64)
    keys = [at & OFFSET]
    if not own:
        keys.append(at >> RANK_SHIFT)
    elif alike is None:
        ranks = np.broadcast_to(strand.cohort.place.rank[_rows(strand)][:, None, None], shape)[active]
        own_offset(at, ranks, strand.cohort.cluster_size, name)
    shared = [of_each_cta(strand, amount) for amount in amounts]
    apart = [index for index, amount in enumerate(shared) if amount is None]
    keys += [np.broadcast_to(np.asarray(amounts[index]), shape)[active].astype(np.int64) for index in apart]
    numbers: dict[tuple[int, ...], int] = {}
    kinds = zip(*[key.tolist() for key in keys], strict=True)
    member = np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds])
    for kind, number in numbers.items():
        lanes = np.zeros(shape, bool)
        lanes[active] = member == number
        if len(lanes) > 1 and (lanes == lanes[:1]).all():
            lanes = lanes[:1]
        where, *rest = kind
        rank = None if own else rest.pop(0)
        of_threads = dict(zip(apart, rest, strict=True))
        values = tuple(of_threads[index] if amount is None else amount for index, amount in enumerate(shared))
        yield Party(lanes, where, strand.rows if rank is None else _homes(strand, rank, lanes), values)


def _alike(strand: Strand, address: Value, amounts: list[Value]) -> np.ndarray | None:
    """The local addresses of a CTA, (1, warps | 1, lanes | 1), where all threads of all CTAs do the same; else None."""
    wide = [amount for amount in amounts if isinstance(amount, np.ndarray)]
    wide += [] if strand.mask is None else [strand.mask]
    if any(len(each) > 1 for each in wide):
        return None
    local = same_place(strand, address)
    return local if isinstance(local, np.ndarray) and int(local.max()) <= OFFSET else None


def _homes(strand: Strand, rank: int, lanes: np.ndarray) -> np.ndarray:
    """Rows of the CTAs of this rank, one for each CTA of the strand; its own row where it has no thread in a party."""
    cohort = strand.cohort
    if rank >= cohort.cluster_size:
        raise MachineFault(f"a shared::cluster address names CTA {rank} of a cluster of {cohort.cluster_size}")
    rows = _rows(strand)
    taking = np.broadcast_to(lanes.any(axis=(1, 2)), rows.shape)
    return np.where(taking, rows - cohort.place.rank[rows] + rank, rows)
