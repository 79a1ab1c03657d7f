"""tcgen05.alloc, dealloc and relinquish_alloc_permit (PTX manual, "Tensor memory allocation").

Tensor memory is allocated by whole warps in powers of two from 32 columns on; alloc blocks until the columns are
free. In a CTA pair one warp of each CTA takes part, and both CTAs get the same columns.
"""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import Value
from convc.machine.isa.memory.shared_space import shared_offset
from convc.machine.isa.operands import address_of
from convc.machine.isa.registry import Run, op
from convc.machine.isa.tcgen05.collective import check_pair, is_pair, warp_groups
from convc.machine.isa.threads import per_warp
from convc.machine.state.cohort import Cohort
from convc.machine.state.observer import LaneAccess
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.machine.tensor_core.tensor_memory import TensorMemory
from convc.ptx import Instr


@op("tcgen05.alloc", result=False)
def alloc(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.alloc [dst], columns: blocks until free; the address goes to shared memory. A pair allocates together."""
    target = address_of(instr.args["dst"], table)
    columns = table.slot(instr.args["columns"], 32)
    pair = is_pair(instr)

    def run(strand: Strand) -> int | None:
        cohort = strand.cohort
        done: list[tuple[np.ndarray, int, np.ndarray | None]] = []
        if pair:
            check_pair(cohort)
        where = shared_offset(strand, target(strand.regs), 4, "tcgen05.alloc's result")
        place = per_warp(strand, where, "the address for tcgen05.alloc's result")
        for group in warp_groups(strand, strand.regs[columns], "tcgen05.alloc"):
            places = np.broadcast_to(place, (strand.row_count, len(strand.warps)))[group.part]
            for warp, count in zip(group.warps, group.values.tolist(), strict=True):
                bases = _allocate(cohort, group.rows, count, pair)
                if bases is None:
                    for granted, size, rows in done:
                        _undo(cohort, granted, size, rows)
                    strand.waiting = f"{count} free columns of tensor memory"
                    if pair:
                        strand.waiting += " (or for the other CTA of the pair)"
                    return BLOCK
                done.append((bases, count, group.rows))
                _publish(cohort, group.rows, places[:, warp], bases)
                _notify(strand, instr, group.rows, warp, bases, count, places[:, warp])
        return None

    return run


def _allocate(cohort: Cohort, rows: np.ndarray | None, count: int, pair: bool) -> np.ndarray | None:
    """First columns for the CTAs, or None where somebody has to wait."""
    tensor = cohort.tensor
    if count not in (32, 64, 128, 256, 512):
        raise MachineFault(f"tcgen05.alloc: the column count must be a power of two in 32..512, got {count}")
    where = slice(None) if rows is None else rows
    if not tensor.permit[where].all():
        raise MachineFault("tcgen05.alloc after tcgen05.relinquish_alloc_permit")
    if (tensor.last[where] < count).any():
        raise MachineFault(
            f"tcgen05.alloc of {count} columns after one of {int(tensor.last[where].min())}: "
            "the counts of a CTA must not grow"
        )
    cohort.core.seal()
    if not pair or rows is None:
        return tensor.allocate(count, rows, pair)
    return _allocate_pairs(tensor, rows, count)


def _allocate_pairs(tensor: TensorMemory, rows: np.ndarray, count: int) -> np.ndarray | None:
    """Pairs whose CTAs come one after the other: the first waits for the second."""
    granted = tensor.granted
    fresh = [row for row in rows.tolist() if row not in granted]
    tensor.asked.update(dict.fromkeys(fresh, count))
    for row in fresh:
        other = tensor.asked.get(row ^ 1)
        if other is not None and other != count:
            even, odd = (other, count) if row % 2 else (count, other)
            raise MachineFault(f"tcgen05.alloc: the even CTA of a pair asks for {even} columns, the odd one for {odd}")
    ready = sorted(row for row in fresh if row ^ 1 in tensor.asked)
    pairs = np.unique(np.array([[row & ~1, row | 1] for row in ready], np.int64))
    if pairs.size:
        bases = tensor.allocate(count, pairs, True)
        if bases is not None:
            granted.update(zip(pairs.tolist(), bases.tolist(), strict=True))
            for row in pairs.tolist():
                del tensor.asked[row]
    if any(row not in granted for row in rows.tolist()):
        return None
    return np.array([granted.pop(row) for row in rows.tolist()])


def _undo(cohort: Cohort, bases: np.ndarray, count: int, rows: np.ndarray | None) -> None:
    """Give back what `_allocate` has granted."""
    everyone = cohort.rows_or_all(rows)
    for base in set(bases.tolist()):
        cohort.tensor.free(base, count, everyone[bases == base])


def _publish(cohort: Cohort, rows: np.ndarray | None, places: np.ndarray, bases: np.ndarray) -> None:
    """Store each CTA's address in its shared memory."""
    everyone = cohort.rows_or_all(rows)
    data = bases.astype(np.uint32).reshape(-1, 1).view(np.uint8)
    at = places.astype(np.int64)[:, None] + np.arange(4)
    cohort.shared.part(int(places.min()), int(places.max()) + 4)[everyone[:, None], at] = data
    for place in set(places.tolist()):
        same = places == place
        own = rows if same.all() else everyone[same]
        cohort.shared.written.mark(slice(int(place), int(place) + 4), own)


@op("tcgen05.relinquish_alloc_permit", result=False)
def relinquish(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.relinquish_alloc_permit: this CTA allocates no more."""

    def run(strand: Strand) -> None:
        for group in warp_groups(strand, 0, "tcgen05.relinquish_alloc_permit"):
            strand.cohort.tensor.permit[slice(None) if group.rows is None else group.rows] = False

    return run


@op("tcgen05.dealloc", result=False)
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
                    held = cohort.tensor.allocated_in(group.rows)
                    listed = ", ".join(f"{n} at {b}" for b, n in held.items()) or "none"
                    raise MachineFault(
                        f"tcgen05.dealloc of {count} columns at {base:#x}, which were not allocated so "
                        f"(allocated: {listed})"
                    )
                if cohort.observer is not None:
                    for row in _watched(cohort, group.rows):
                        cohort.observer.allocate(strand, instr, row, warp, base, count, free=True)

    return run


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
    """Two 32-bit values as one of 64."""
    if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):
        return np.asarray(high, np.int64) << 32 | np.asarray(low, np.int64)
    return high << 32 | low
