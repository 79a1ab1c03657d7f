"""Clusters: mapa, getctarank, cluster barriers (PTX manual, "mapa", "getctarank", "barrier.cluster")."""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.cluster_ranks import RANK_SHIFT
from convc.machine.base.values import DTYPE, Value, array, narrow, width
from convc.machine.isa.operands import apply, modifier
from convc.machine.isa.registry import BLIND, PURE, SCALAR, WHOLE_WARPS, Run, Traits, op
from convc.machine.isa.threads import active_only
from convc.machine.memory.global_memory import SHARED_WINDOW, WINDOW_SHIFT
from convc.machine.state.barriers import ClusterBarrier
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.ptx import Instr


@op("mapa", traits=SCALAR)
def mapa(instr: Instr, table: SlotTable) -> Run:
    """mapa{.shared::cluster}.type d, a, b: the address that ``a`` has in the CTA of rank ``b``."""
    bits = 64 if instr.slots["type"] == "u64" else 32
    low = (1 << RANK_SHIFT) - 1
    rest = ((1 << bits) - 1) & ~(0xFFFFFFFF & ~low)

    def run(a: Value, b: Value) -> Value:
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            rank = np.asarray(b).astype(DTYPE[bits])
            base = (a if isinstance(a, np.ndarray) else DTYPE[bits].type(a)) & DTYPE[bits].type(rest)
            return narrow(base | (rank << DTYPE[bits].type(RANK_SHIFT)))
        return (a & rest) | (b << RANK_SHIFT)

    return apply(instr, table, run, bits, 32)


@op("getctarank", traits=PURE)
def getctarank(instr: Instr, table: SlotTable) -> Run:
    """getctarank{.shared::cluster}.type d, a: the rank of the CTA in whose shared memory ``a`` lies."""
    d = table.target(instr.operands[0])
    bits = width(modifier(instr, "type"))
    address = table.slot(instr.operands[1], bits)
    generic = instr.slots.get("space") is None

    def run(strand: Strand) -> None:
        value = active_only(strand, array(strand.regs[address], bits))
        inside = value.astype(np.uint64)
        if generic:
            outside = inside >> np.uint64(WINDOW_SHIFT) != SHARED_WINDOW >> WINDOW_SHIFT
            if outside.any():
                wrong = int(inside[outside][0])
                raise MachineFault(f"getctarank: {wrong:#x} is not the generic address of shared memory")
            inside = inside & np.uint64(0xFFFFFFFF)
        rank = inside >> np.uint64(RANK_SHIFT)
        if (rank >= strand.cohort.cluster_size).any():
            raise MachineFault(
                f"getctarank: shared address {int(inside.max()):#x} is in no CTA of the cluster of size "
                f"{strand.cohort.cluster_size}"
            )
        if d is not None:
            strand.write(d, narrow(rank.astype(np.uint32)))

    return run


def _settle(strand: Strand) -> ClusterBarrier:
    """Complete the phase in clusters all of whose warps have arrived or exited."""
    cohort = strand.cohort
    barrier = cohort.cluster_barrier
    size = cohort.cluster_size
    arrived = (barrier.arrived + cohort.exited).reshape(-1, size).sum(axis=1)
    waiting = barrier.arrived.reshape(-1, size).sum(axis=1)
    full = np.repeat((arrived >= cohort.warps * size) & (waiting > 0), size)
    barrier.phase[full] += 1
    barrier.arrived[full] = 0
    return barrier


@op("barrier.cluster.arrive", traits=BLIND | WHOLE_WARPS | Traits.BARRIER | Traits.ONCE, result=False)
def arrive(instr: Instr, table: SlotTable) -> Run:
    """barrier.cluster.arrive: mark the arrival; every thread of the cluster that has not exited takes part."""

    def run(strand: Strand) -> None:
        barrier = strand.cohort.cluster_barrier
        rows = strand.cohort.rows_or_all(strand.rows)
        where = np.ix_(rows, strand.warps)
        if (barrier.ticket[where] >= 0).any():
            raise MachineFault("barrier.cluster.arrive twice without barrier.cluster.wait in between")
        barrier.ticket[where] = barrier.phase[rows][:, None]
        barrier.arrived[rows] += len(strand.warps)
        if strand.cohort.observer is not None:
            strand.cohort.observer.cluster_barrier(strand, instr, leave=False)
        _settle(strand)

    return run


@op("barrier.cluster.wait", traits=BLIND | WHOLE_WARPS | Traits.BARRIER | Traits.ONCE, result=False)
def wait(instr: Instr, table: SlotTable) -> Run:
    """barrier.cluster.wait: block until all threads of the cluster have arrived."""

    def run(strand: Strand) -> int | None:
        barrier = _settle(strand)
        rows = strand.cohort.rows_or_all(strand.rows)
        where = np.ix_(rows, strand.warps)
        if (barrier.ticket[where] < 0).any():
            raise MachineFault("barrier.cluster.wait without barrier.cluster.arrive")
        over = barrier.phase[rows][:, None] > barrier.ticket[where]
        if not over.all():
            at = int((~over).any(axis=1).argmax())
            strand.waiting = f"the cluster barrier ({int(barrier.arrived[rows[at]])} warps of this CTA there)"
            strand.ready = over
            return BLOCK
        if strand.cohort.observer is not None:
            strand.cohort.observer.cluster_barrier(strand, instr, leave=True)
        barrier.ticket[where] = -1
        return None

    return run
