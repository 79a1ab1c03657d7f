"""tcgen05.alloc, dealloc and relinquish_alloc_permit (PTX manual, "Tensor memory allocation").

Tensor memory is allocated by whole warps in powers of two from 32 columns on; alloc blocks until the columns are
free. In a CTA pair one warp of each CTA takes part, and both CTAs get the same columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import Value
from convc.machine.isa.memory.shared_space import shared_offset
from convc.machine.isa.operands import address_of
from convc.machine.isa.registry import BLIND, WHOLE_WARPS, Run, Traits, op
from convc.machine.isa.tcgen05.collective import check_pair, is_pair, warp_groups
from convc.machine.isa.threads import per_warp
from convc.machine.state.cohort import Cohort
from convc.machine.state.observer import LaneAccess
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.machine.tensor_core.tensor_memory import TensorMemory
from convc.ptx import Instr


@op("tcgen05.alloc", traits=BLIND | WHOLE_WARPS | Traits.ONCE, result=False)
def alloc(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.alloc [dst], columns: blocks until free; the address goes to shared memory. A pair allocates together.

    Warps and CTAs of a strand that have got their columns keep them while others still wait, and go on without these
    where no other can.
    """
    target = address_of(instr.args["dst"], table)
    columns = table.slot(instr.args["columns"], 32)
    pair = is_pair(instr)

    def run(strand: Strand) -> int | None:
        cohort = strand.cohort
        if pair:
            check_pair(cohort)
        where = shared_offset(strand, target(strand.regs), 4, "tcgen05.alloc's result")
        place = per_warp(strand, where, "the address for tcgen05.alloc's result")
        places = np.broadcast_to(place, (strand.row_count, len(strand.warps)))
        found: list[_Grant] = []
        for group in warp_groups(strand, strand.regs[columns], "tcgen05.alloc"):
            for warp, count in zip(group.warps.tolist(), group.values.tolist(), strict=True):
                rows = cohort.rows_or_all(group.rows)
                bases = _columns(cohort, rows, int(strand.warps[warp]), count, pair)
                found.append(_Grant(group.rows, group.part, warp, count, bases))
        if not all((grant.bases >= 0).all() for grant in found):
            return _wait(strand, found, pair)
        for grant in found:
            own = places[grant.part][:, grant.warp]
            _publish(cohort, grant.rows, own, grant.bases)
            _notify(strand, instr, grant.rows, grant.warp, grant.bases, grant.columns, own)
        return None

    return run


class _Grant(NamedTuple):
    """What one warp gets in some CTAs.

    Attributes:
        rows, part: the CTAs, as in `WarpGroups`.
        warp: its position in the strand.
        columns: how many.
        bases: int64 (ctas,), the first column in each; -1 where it has to wait.
    """

    rows: np.ndarray | None
    part: slice | np.ndarray
    warp: int
    columns: int
    bases: np.ndarray


def _wait(strand: Strand, found: list[_Grant], pair: bool) -> int:
    """Keep what was got, and wait for the rest."""
    cohort = strand.cohort
    ready = np.ones((strand.row_count, len(strand.warps)), bool)
    for grant in found:
        ready[grant.part, grant.warp] = grant.bases >= 0
        number = int(strand.warps[grant.warp])
        for row, base in zip(cohort.rows_or_all(grant.rows).tolist(), grant.bases.tolist(), strict=True):
            if base >= 0:
                cohort.tensor.granted[row, number] = base
    short = next(grant.columns for grant in found if (grant.bases < 0).any())
    strand.waiting = f"{short} free columns of tensor memory"
    if pair:
        strand.waiting += " (or for the other CTA of the pair)"
    strand.ready = ready
    return BLOCK


def _columns(cohort: Cohort, rows: np.ndarray, warp: int, count: int, pair: bool) -> np.ndarray:
    """First columns for a warp of each of the CTAs, int64: granted before, or now; -1 where it has to wait."""
    tensor = cohort.tensor
    bases = np.full(len(rows), -1)
    if tensor.granted:
        bases[:] = [tensor.granted.pop((row, warp), -1) for row in rows.tolist()]
    left = bases < 0
    asking = rows[left]
    if not asking.size:
        return bases
    _check(tensor, asking, count)
    cohort.core.seal()
    if not pair:
        bases[left] = tensor.allocate(count, asking, False)
    elif _whole_pairs(asking) and not tensor.asked:
        bases[left] = tensor.allocate(count, asking, True)
    else:
        bases[left] = _in_pairs(tensor, asking, warp, count)
    return bases


def _check(tensor: TensorMemory, rows: np.ndarray, count: int) -> None:
    """Fault where CTAs ask for what they must not ask for."""
    if count not in (32, 64, 128, 256, 512):
        raise MachineFault(f"tcgen05.alloc: the column count must be a power of two in 32..512, got {count}")
    if not tensor.permit[rows].all():
        raise MachineFault("tcgen05.alloc after tcgen05.relinquish_alloc_permit").of(int(rows[~tensor.permit[rows]][0]))
    less = tensor.last[rows] < count
    if less.any():
        row = int(rows[less][0])
        raise MachineFault(
            f"tcgen05.alloc of {count} columns after one of {int(tensor.last[row])}: the counts of later "
            "allocations of a CTA must not be larger"
        ).of(row)


def _whole_pairs(rows: np.ndarray) -> bool:
    """Whether CTAs are whole pairs, side by side."""
    return len(rows) % 2 == 0 and bool((rows[::2] % 2 == 0).all() and (rows[1::2] == rows[::2] + 1).all())


def _in_pairs(tensor: TensorMemory, rows: np.ndarray, warp: int, count: int) -> np.ndarray:
    """Columns for CTAs that ask one after the other: the first of a pair waits for the second.

    Of several warps of a CTA the one that asked first is served first.
    """
    for row in rows.tolist():
        tensor.asked.setdefault(row, {}).setdefault(warp, count)
    for even in np.unique(rows & ~1).tolist():
        waiting = [tensor.asked.get(row) for row in (even, even + 1)]
        while all(waiting):
            heads = [next(iter(queue.items())) for queue in waiting if queue]
            (_, first), (_, second) = heads
            if first != second:
                raise MachineFault(
                    f"tcgen05.alloc: the even CTA of a pair asks for {first} columns, the odd one for {second}"
                )
            bases = tensor.allocate(first, np.array([even, even + 1]), True)
            if bases[0] < 0:
                break
            for row, (asker, _), base in zip((even, even + 1), heads, bases.tolist(), strict=True):
                tensor.granted[row, asker] = base
                del tensor.asked[row][asker]
                if not tensor.asked[row]:
                    del tensor.asked[row]
    return np.array([tensor.granted.pop((row, warp), -1) for row in rows.tolist()])


def _publish(cohort: Cohort, rows: np.ndarray | None, places: np.ndarray, bases: np.ndarray) -> None:
    everyone = cohort.rows_or_all(rows)
    data = bases.astype(np.uint32).reshape(-1, 1).view(np.uint8)
    at = places.astype(np.int64)[:, None] + np.arange(4)
    cohort.shared.part(int(places.min()), int(places.max()) + 4)[everyone[:, None], at] = data
    for place in set(places.tolist()):
        same = places == place
        own = rows if same.all() else everyone[same]
        cohort.shared.written.mark(slice(int(place), int(place) + 4), own)


@op("tcgen05.relinquish_alloc_permit", traits=BLIND, result=False)
def relinquish(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.relinquish_alloc_permit: this CTA allocates no more."""

    def run(strand: Strand) -> None:
        for group in warp_groups(strand, 0, "tcgen05.relinquish_alloc_permit"):
            strand.cohort.tensor.permit[slice(None) if group.rows is None else group.rows] = False
        if strand.cohort.observer is not None:
            strand.cohort.observer.control(strand, instr)

    return run


@op("tcgen05.dealloc", traits=BLIND | Traits.ONCE, result=False)
def dealloc(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.dealloc taddr, columns: give back exactly what was allocated. Each CTA of a pair gives back its own."""
    address = table.slot(instr.operands[0], 32)
    columns = table.slot(instr.operands[1], 32)
    pair = is_pair(instr)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        if pair:
            check_pair(cohort)
        cohort.core.seal()
        packed = _joined(strand.regs[address], strand.regs[columns])
        for group in warp_groups(strand, packed, "tcgen05.dealloc"):
            for warp, value in zip(strand.warps[group.warps].tolist(), group.values.tolist(), strict=True):
                base = value & 0xFFFFFFFF
                count = value >> 32
                if not cohort.tensor.free(base, count, group.rows):
                    raise _not_allocated(cohort, group.rows, base, count)
                if cohort.observer is not None:
                    for row in _watched(cohort, group.rows):
                        cohort.observer.allocate(strand, instr, row, warp, base, count, free=True)

    return run


def _not_allocated(cohort: Cohort, rows: np.ndarray | None, base: int, count: int) -> MachineFault:
    """The fault of the first of some CTAs that has no such allocation to give back."""
    tensor = cohort.tensor
    of_each = {row: tensor.allocated_in(np.array([row])) for row in cohort.rows_or_all(rows).tolist()}
    row, held = next((row, held) for row, held in of_each.items() if held.get(base) != count)
    listed = ", ".join(f"{n} at {b}" for b, n in held.items()) or "none"
    return MachineFault(
        f"tcgen05.dealloc of {count} columns at {base:#x}, which is not an allocation (allocated: {listed})"
    ).of(row)


def _watched(cohort: Cohort, rows: np.ndarray | None) -> list[int]:
    """Those of some CTAs that an observer is told of."""
    return [row for row in range(cohort.watched) if rows is None or row in rows]


def _notify(
    strand: Strand,
    instr: Instr,
    rows: np.ndarray | None,
    warp: int,
    bases: np.ndarray,
    count: int,
    places: np.ndarray,
) -> None:
    """Tell the observer of an allocation by a warp, and of the stores of its address.

    Args:
        strand, instr: who allocates.
        rows: the CTAs; None for all.
        warp: position of the warp in the strand.
        bases: first column in each of the CTAs. count: of columns.
        places: shared address in each of the CTAs that the first column is stored at.
    """
    cohort = strand.cohort
    observer = cohort.observer
    if observer is None:
        return
    number = int(strand.warps[warp])
    everyone = cohort.rows_or_all(rows).tolist()
    for row in _watched(cohort, rows):
        at = everyone.index(row)
        observer.allocate(strand, instr, row, number, int(bases[at]), count, free=False)
        stored = LaneAccess(row, number, row, np.array([0]), np.arange(4)[None] + int(places[at]))
        observer.shared(strand, instr, "st", [stored])


def _joined(low: Value, high: Value) -> Value:
    if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):
        return np.asarray(high, np.int64) << 32 | np.asarray(low, np.int64)
    return high << 32 | low
