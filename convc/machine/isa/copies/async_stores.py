"""st.async and red.async: stores into another CTA's shared memory that an mbarrier there counts (PTX manual, 9.7.9.12
and 9.7.13.7).

Every thread stores (or combines) its bytes and completes as many on the mbarrier, which must lie in the CTA that it
writes to. When it takes effect is up to the completion policy, see `completion`. The manual leaves the effect on the
thread's own CTA undefined: that is reported, and done.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from convc.errors import MachineFault
from convc.ir.findings import Verdict
from convc.machine.base.completion import named
from convc.machine.base.values import DTYPE, MASK, Value, width
from convc.machine.isa.memory import spaces
from convc.machine.isa.memory.atomics import Atomic
from convc.machine.isa.memory.ld_st import space_of
from convc.machine.isa.memory.shared_space import remote
from convc.machine.isa.observe import actors
from convc.machine.isa.operands import address_of, shared_address_of, type_of
from convc.machine.isa.registry import ORDINARY, Run, Traits, op
from convc.machine.isa.threads import first_active_warp, rows_of, thread_shape
from convc.machine.state.observer import LaneAccess, Observer
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr


def _places(strand: Strand, address: Value) -> tuple[np.ndarray, np.ndarray]:
    """(local address, row of the CTA) that each thread of the strand names."""
    local, rows = remote(strand, address)
    shape = thread_shape(strand)
    homes = rows_of(strand) if rows is None else rows
    return np.broadcast_to(local, shape).astype(np.int64), np.broadcast_to(homes, shape)


class StoreSignal:
    """What follows the store: complete_tx of ``size`` bytes per thread."""

    def __init__(self, instr: Instr, table: SlotTable, size: int) -> None:
        self.instr = instr
        self.size = size
        self.target = shared_address_of(instr.args["a"], table)
        self.barrier = shared_address_of(instr.args["mbar"], table)

    def follow(self, strand: Strand, act: Callable[[Strand], None]) -> None:
        """Perform ``act`` for the active threads and signal their barriers, now or when the policy says so."""
        barriers, rows = self.resolve(strand)

        def send(strand: Strand) -> None:
            act(strand)
            self.ring(strand, barriers, rows)

        if strand.cohort.pending.eager:
            send(strand)
        else:
            strand.cohort.pending.copy(named(self.instr, functools.partial(send, strand.frozen())))

    def resolve(self, strand: Strand) -> tuple[np.ndarray, np.ndarray]:
        """(address of the barrier, row) of every active thread; checked before anything is stored."""
        active = np.broadcast_to(np.True_ if strand.mask is None else strand.mask, thread_shape(strand))
        _, rows = _places(strand, self.target(strand.regs))
        barriers, bells = _places(strand, self.barrier(strand.regs))
        name = self.instr.form.name
        if (rows != bells)[active].any():
            raise MachineFault(f"{name}: the mbarrier and the destination must be in the same CTA of the cluster")
        if (rows == rows_of(strand))[active].any():
            strand.cohort.findings.report(
                "async-store-own-cta",
                f"{name} to the thread's own CTA is undefined",
                self.instr,
                Verdict.review,
                who=first_active_warp(strand),
            )
        for address in np.unique(barriers[active]).tolist():
            strand.cohort.barrier(address, name, bells[active & (barriers == address)])
        return barriers[active], bells[active]

    def ring(self, strand: Strand, barriers: np.ndarray, rows: np.ndarray) -> None:
        """Complete the bytes."""
        cohort = strand.cohort
        for address in np.unique(barriers).tolist():
            threads = np.bincount(rows[barriers == address], minlength=cohort.ctas)
            barrier = cohort.barrier(address, self.instr.form.name)
            if (threads == threads[0]).all():
                barrier.add_tx_each(cohort.ctas, None, int(threads[0]), -self.size)
            else:
                there = np.flatnonzero(threads)
                barrier.add_tx_each(cohort.ctas, there, threads[there], -self.size)
        if cohort.observer is not None:
            self._notify(strand, cohort.observer)

    def _notify(self, strand: Strand, observer: Observer) -> None:
        local, homes = _places(strand, self.target(strand.regs))
        bells, _ = _places(strand, self.barrier(strand.regs))
        parts: list[tuple[LaneAccess, int]] = []
        for at, row, w, warp, lanes in actors(strand):
            signalled = list(zip(homes[at, w, lanes].tolist(), bells[at, w, lanes].tolist(), strict=True))
            for home, bell in dict.fromkeys(signalled):
                own = lanes[[pair == (home, bell) for pair in signalled]]
                places = local[at, w, own][:, None] + np.arange(self.size)
                parts.append((LaneAccess(row, warp, home, own, places), bell))
        observer.async_store(strand, self.instr, parts)


@op("st.async", traits=ORDINARY, result=False)
def store(instr: Instr, table: SlotTable) -> Run:
    """st.async{.vec}.type [a], b, [mbar]."""
    space = space_of(instr)
    bits = width(type_of(instr))
    slots = table.slots(instr.args["b"], bits)
    address = address_of(instr.args["a"], table)
    signal = StoreSignal(instr, table, bits // 8 * len(slots))

    def low(value: Value) -> Value:
        return value.astype(DTYPE[bits]) if isinstance(value, np.ndarray) else value & MASK[bits]

    def put(strand: Strand) -> None:
        regs = strand.regs
        spaces.store(strand, instr, space, address(regs), [low(regs[s]) for s in slots], bits)

    return lambda strand: signal.follow(strand, put)


@op("red.async", traits=Traits.ATOMIC, result=False)
def reduce(instr: Instr, table: SlotTable) -> Run:
    """red.async.op.type [a], b, [mbar]."""
    atomic = Atomic(instr, table)
    signal = StoreSignal(instr, table, atomic.size)
    return lambda strand: signal.follow(strand, atomic)
