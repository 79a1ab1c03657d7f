"""mbarrier instructions (PTX manual, "mbarrier"); the object itself is in `convc.machine.memory.mbarrier`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.cluster_ranks import OFFSET, RANK_SHIFT, own_offset
from convc.machine.base.values import Value
from convc.machine.isa.observe import notify_shared
from convc.machine.isa.operands import apply, shared_address_of
from convc.machine.isa.registry import Builder, Run, op
from convc.machine.isa.scalar.integer import extend
from convc.machine.isa.threads import active_rows, warps_active
from convc.machine.memory.mbarrier import MAX_COUNT, MBarrier
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.ptx import Address, Instr, Sink


def barrier_address(instr: Instr, table: SlotTable) -> Callable[[Strand], int]:
    """A function (strand) -> shared address of the instruction's mbarrier, the same in all active threads."""
    operand = next(o for o in instr.operands if isinstance(o, Address))
    address = shared_address_of(operand, table)

    def run(strand: Strand) -> int:
        value = address(strand.regs)
        if isinstance(value, np.ndarray):
            value = strand.pick(value, strand.threads()[0])
        cohort = strand.cohort
        ranks = cohort.place.rank if strand.rows is None else cohort.place.rank[strand.rows]
        return _same(own_offset(value, ranks, cohort.cluster_size, instr.form.name))

    return run


def _same(address: Value) -> int:
    """An address that CTAs in lockstep must agree on."""
    if isinstance(address, np.ndarray):
        if (address != address[0]).any():
            raise MachineFault("CTAs in lockstep name different mbarriers in one instruction")
        return int(address[0])
    return int(address)


def barrier_target(instr: Instr, table: SlotTable) -> Callable[[Strand], tuple[int, np.ndarray | None]]:
    """A function (strand) -> (local shared address of an mbarrier, rows of the CTAs it lies in; None for all).

    A shared::cluster address may name another CTA of the cluster; two CTAs may name the same one.
    """
    operand = next(o for o in instr.operands if isinstance(o, Address))
    address = shared_address_of(operand, table)

    def run(strand: Strand) -> tuple[int, np.ndarray | None]:
        value = address(strand.regs)
        if isinstance(value, np.ndarray):
            value = strand.pick(value, strand.threads()[0])
        if isinstance(value, int) and strand.cohort.cluster_size == 1 and value <= OFFSET:
            return value, strand.rows
        return _same(value & OFFSET), named_rows(strand, value >> RANK_SHIFT)

    return run


def named_rows(strand: Strand, field: int | np.ndarray) -> np.ndarray | None:
    """Rows that the rank field of a shared::cluster address names, one per CTA of the strand; None: all, in order."""
    cohort = strand.cohort
    rows = cohort.rows_or_all(strand.rows)
    own = cohort.place.rank[rows]
    rank = np.broadcast_to(field, own.shape)
    if (rank >= cohort.cluster_size).any():
        raise MachineFault(
            f"a shared::cluster address names CTA {int(rank.max())} of a cluster of {cohort.cluster_size}"
        )
    named = rows - own + rank
    return None if len(named) == cohort.ctas and (named == np.arange(cohort.ctas)).all() else named


def amount_of(strand: Strand, slot: int) -> int | np.ndarray:
    """A count or byte operand: an int, or one number per CTA."""
    value = strand.regs[slot]
    return strand.pick(value, strand.threads()[0]) if isinstance(value, np.ndarray) else value


@op("mbarrier.init", result=False)
def init(instr: Instr, table: SlotTable) -> Run:
    """mbarrier.init [addr], count."""
    address = barrier_address(instr, table)
    count = table.slot(instr.operands[1], 32)

    def run(strand: Strand) -> None:
        where = address(strand)
        n = amount_of(strand, count)
        low, high = int(np.min(n)), int(np.max(n))
        if low < 1 or high > MAX_COUNT:
            raise MachineFault(f"mbarrier.init: the count must be in 1..{MAX_COUNT}, got {low if low < 1 else high}")
        if where % 8:
            raise MachineFault(f"mbarrier.init: shared address {where:#x} is not aligned to 8 bytes")
        cohort = strand.cohort
        if where + 8 > cohort.shared.size:
            raise MachineFault(
                f"mbarrier.init: shared address {where:#x} is outside the CTA's {cohort.shared.size:#x} bytes"
            )
        rows = active_rows(strand)
        if rows is None and isinstance(n, int):
            cohort.barriers[where] = MBarrier(where, n)
        else:
            barrier = cohort.barriers.setdefault(where, MBarrier(where, high))
            counts = n if isinstance(n, int) or isinstance(strand.count, int) else n[strand.count > 0]
            barrier.reset(cohort.ctas, cohort.rows_or_all(rows), counts)
        cohort.shared.written.mark(slice(where, where + 8), rows)
        if cohort.observer is not None:
            cohort.observer.init(strand, instr, where)

    return run


@op("mbarrier.arrive", "mbarrier.arrive.expect_tx", "mbarrier.arrive.noComplete")
@op("mbarrier.arrive_drop", "mbarrier.arrive_drop.expect_tx", "mbarrier.arrive_drop.noComplete")
def arrive(instr: Instr, table: SlotTable) -> Run:
    """mbarrier.arrive{_drop}{.expect_tx, .noComplete} state, [addr] {, count | tx_count}.

    One arrival (or ``count``) per active thread; .expect_tx raises the transaction count first. arrive_drop also
    expects fewer arrivals in later phases.
    """
    target = barrier_target(instr, table)
    name = instr.form.name
    drop = name.startswith("mbarrier.arrive_drop")
    bytes_slot = table.optional(instr.args.get("tx_count"), 32)
    count_slot = table.optional(instr.args.get("count"), 32)
    state = None if isinstance(instr.operands[0], Sink) else table.slot(instr.operands[0])
    open_phase = name.endswith(".noComplete")

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        where, rows = target(strand)
        barrier = cohort.barrier(where, name)
        if state is not None:
            strand.write(state, _register(barrier.state(strand.rows)))
        if bytes_slot is not None:
            barrier.add_tx(cohort.ctas, rows, amount_of(strand, bytes_slot) * strand.count)
        count = 1 if count_slot is None else amount_of(strand, count_slot)
        before = np.array(barrier.phase) if open_phase else None
        (barrier.drop if drop else barrier.arrive)(cohort.ctas, rows, count * strand.count)
        if open_phase and np.any(barrier.phase != before):
            raise MachineFault(
                f"{name}: this arrival completes a phase of the mbarrier at shared address {where:#x}",
                hint="leave out .noComplete, whose effect is undefined where the phase completes",
            )
        if cohort.observer is not None:
            cohort.observer.arrive(strand, instr, where, rows)

    return run


def _register(value: int | np.ndarray) -> int | np.ndarray:
    """One 64-bit number per CTA as a register value."""
    return value if isinstance(value, int) else value.astype(np.uint64).reshape(-1, 1, 1)


@op("mbarrier.pending_count")
def pending_count(instr: Instr, table: SlotTable) -> Run:
    """mbarrier.pending_count d, state: the pending arrivals that a state holds."""
    return apply(instr, table, lambda state: extend(state, 64, 32, False), 64)


def _transaction(sign: int) -> Builder:
    """Builder of expect_tx and complete_tx."""

    def builder(instr: Instr, table: SlotTable) -> Run:
        address = barrier_address(instr, table)
        bytes_slot = table.slot(instr.operands[1], 32)

        def run(strand: Strand) -> None:
            cohort = strand.cohort
            where = address(strand)
            barrier = cohort.barrier(where, instr.form.name)
            barrier.add_tx(cohort.ctas, strand.rows, sign * amount_of(strand, bytes_slot) * strand.count)
            if cohort.observer is not None:
                cohort.observer.arrive(strand, instr, where, None)

        return run

    return builder


op("mbarrier.expect_tx", result=False)(_transaction(1))
op("mbarrier.complete_tx", result=False)(_transaction(-1))


@op("mbarrier.try_wait", "mbarrier.try_wait.parity", "mbarrier.test_wait", "mbarrier.test_wait.parity")
def wait(instr: Instr, table: SlotTable) -> Run:
    """mbarrier.{try,test}_wait p, [addr], phase: whether a phase, named by its parity or by a state, has completed.

    test_wait tells; try_wait suspends until it has, as the manual allows.
    """
    by_parity = "parity" in instr.mods
    blocking = "try_wait" in instr.mods
    target = table.slot(instr.operands[0])
    address = barrier_address(instr, table)
    name = instr.form.name
    phase = table.slot(instr.operands[2], 32 if by_parity else 64)

    def run(strand: Strand) -> int | None:
        where = address(strand)
        barrier = strand.cohort.barrier(where, name)
        want = amount_of(strand, phase)
        done = (barrier.completed if by_parity else barrier.passed)(strand.rows, want)
        if blocking and done is not True:
            if not np.all(done):
                first = want if isinstance(want, int) else int(want[0])
                what = f"phase parity {first}" if by_parity else f"the end of phase {first >> 32}"
                strand.waiting = f"mbarrier {where:#x}, {what}"
                return BLOCK
            done = True
        strand.write(target, done if isinstance(done, bool) else np.asarray(done).reshape(-1, 1, 1))
        cohort = strand.cohort
        if done is not False:
            cohort.counters.mbarrier_waits += warps_active(strand, None if done is True else done)
        if cohort.observer is not None and np.any(done):
            cohort.observer.wait(strand, instr, where, np.broadcast_to(done, (strand.row_count,)))
        return None

    return run


@op("mbarrier.inval", result=False)
def inval(instr: Instr, table: SlotTable) -> Run:
    """mbarrier.inval [addr]: the memory may be used for something else."""
    address = barrier_address(instr, table)

    def run(strand: Strand) -> None:
        where = address(strand)
        cohort = strand.cohort
        barrier = cohort.barrier(where, "mbarrier.inval")
        rows = active_rows(strand)
        barrier.gone.update(range(cohort.ctas) if rows is None else rows.tolist())
        notify_shared(strand, instr, "st", where, 8)
        if len(barrier.gone) == cohort.ctas:
            del cohort.barriers[where]

    return run
