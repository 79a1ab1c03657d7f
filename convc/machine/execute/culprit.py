"""The CTA, the warp and the lanes that made an instruction fault.

Many threads execute an instruction at once, and what it refuses is the address or the operand of some of them. When a
launch has ended that way, the instruction is tried again in single CTAs, then in the warps of the one that faults, then
in its lanes: the one that meets the same fault alone did it. Nothing is left to disturb, as the launch is over.

A fault that depends on what others did before (too many arrivals at an mbarrier, say) has another cause when it is
tried again. Then it is somebody of those that executed: where these are of one CTA, or of one warp, it is said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy

import numpy as np

from convc.errors import MachineError, MachineFault
from convc.machine.base.findings import Who
from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Run, Traits
from convc.machine.isa.threads import active_lanes, thread_shape
from convc.machine.state.strand import Strand
from convc.ptx import Guard

NUMBERS = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'")
"""What differs between the same faults of two threads."""


def find(strand: Strand, run: Run, fault: MachineFault, name: str) -> tuple[MachineFault, Who] | None:
    """Find the first CTA and warp that meets a fault alone, and its lanes; None where none does.

    Args:
        strand: the threads that executed, as they were then.
        run: the operation. name: of its instruction.
        fault: what it raised.
    """
    if fault.row is not None or name in forms_with(Traits.ONCE):
        return None
    strand.cohort.observer = None
    shape = thread_shape(strand)
    active = np.broadcast_to(active_lanes(strand), shape)
    found = _first(strand, run, fault, [_part(active, (row,)) for row in range(shape[0])])
    if found is None:
        return None
    row, fault = found
    who = Who(row=int(strand.cohort.rows_or_all(strand.rows)[row]))
    found = _first(strand, run, fault, [_part(active, (row, warp)) for warp in range(shape[1])])
    if found is None:
        return fault, who
    warp, fault = found
    lanes = np.flatnonzero(active[row, warp]).tolist()
    alone = {lane: _alone(strand, run, fault, _part(active, (row, warp, lane))) for lane in lanes}
    guilty = [(lane, own) for lane, own in alone.items() if own is not None]
    if guilty:
        lanes = [lane for lane, _ in guilty]
        fault = guilty[0][1]
    return fault, Who(row=who.row, warp=int(strand.warps[warp]), lanes=tuple(lanes))


def suspects(
    strand: Strand, guard: Guard | None, fault: MachineFault
) -> tuple[int | None, int | None, tuple[int, ...]]:
    """Say what those that executed have in common: the row of their CTA, their warp, their lanes of it.

    Where several CTAs executed it is one of these that the fault itself names (`MachineFault.of`), if any.
    """
    if fault.warp is not None:
        return fault.row, fault.warp, fault.lanes
    predicate = np.True_ if guard is None else np.asarray(strand.regs[guard.slot]).astype(bool) != guard.negate
    executed = np.broadcast_to(active_lanes(strand) & predicate, thread_shape(strand))
    rows = strand.cohort.rows_or_all(strand.rows)
    found = np.flatnonzero(executed.any(axis=(1, 2)))
    if len(found) != 1:
        found = found[rows[found] == (-1 if fault.row is None else fault.row)]
    if len(found) != 1:
        return None, None, ()
    row = int(found[0])
    warps = np.flatnonzero(executed[row].any(axis=1))
    if len(warps) != 1:
        return int(rows[row]), None, ()
    lanes = np.flatnonzero(executed[row, warps[0]])
    return int(rows[row]), int(strand.warps[warps[0]]), tuple(lanes.tolist())


def _part(active: np.ndarray, at: tuple[int, ...]) -> np.ndarray:
    """Those of the active threads that are at a position."""
    chosen = np.zeros_like(active)
    chosen[at] = active[at]
    return chosen


def _first(
    strand: Strand, run: Run, fault: MachineFault, parts: Sequence[np.ndarray]
) -> tuple[int, MachineFault] | None:
    """The first of some parts of the threads that meets the fault alone, and what it raises."""
    for number, part in enumerate(parts):
        own = _alone(strand, run, fault, part)
        if own is not None:
            return number, own
    return None


def _alone(strand: Strand, run: Run, fault: MachineFault, part: np.ndarray) -> MachineFault | None:
    """What threads raise that execute without the others; None where that is not the fault."""
    if not part.any():
        return None
    rows = np.asarray(part.any(axis=(1, 2)))
    warps = np.asarray(part.any(axis=(0, 2)))
    own = copy(strand)  # without the others: an instruction that waits may part from them, or look at all warps
    own.regs = strand.regs.copy()
    own.running = []
    if not rows.all():
        own.split_rows(rows)
    if not warps.all():
        own.split_warps(warps)
    try:
        own.only(part[np.ix_(rows, warps)], run)
    except MachineFault as met:
        return met if NUMBERS.sub("#", met.message) == NUMBERS.sub("#", fault.message) else None
    except MachineError:
        return None
    return None
