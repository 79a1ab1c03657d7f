"""mbarrier instructions (PTX manual, "mbarrier"); the object itself is in `convc.machine.memory.mbarrier`."""

from __future__ import annotations

import functools

import numpy as np

from convc.errors import MachineFault
from convc.ir.findings import Verdict
from convc.machine.base.values import Value, fixed, narrow
from convc.machine.isa.observe import notify_shared
from convc.machine.isa.operands import apply, shared_address_of
from convc.machine.isa.registry import BLIND, ORDINARY, PURE, WHOLE_WARPS, Builder, Run, Traits, op
from convc.machine.isa.scalar.integer import extend
from convc.machine.isa.sync.parties import Party, act, parties_of
from convc.machine.isa.threads import active_lanes, active_rows, first_active_warp, thread_shape, warps_active
from convc.machine.memory.mbarrier import MAX_COUNT, Arrival, Count, MBarrier
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.ptx import Instr, Sink

NOBODY = fixed(np.zeros((1, 1), bool))
"""Whose wait is over (CTAs, warps), where nobody's is."""


@op("mbarrier.init", traits=BLIND, result=False)
def init(instr: Instr, table: SlotTable) -> Run:
    """mbarrier.init [addr], count."""
    parties = parties_of(instr, table, own=True)
    count = table.slot(instr.operands[1], 32)

    def run(strand: Strand) -> None:
        found = parties(strand, [strand.regs[count]])
        _check_alone(strand, instr, found)
        for party in found:
            act(strand, party, functools.partial(_init, instr=instr, party=party))

    return run


def _init(strand: Strand, instr: Instr, party: Party) -> None:
    cohort = strand.cohort
    where = party.where
    rows = active_rows(strand)
    (count,) = party.amounts
    if isinstance(count, np.ndarray) and isinstance(strand.count, np.ndarray):
        count = count[strand.count > 0]
    low, high = (count, count) if isinstance(count, int) else (int(np.min(count)), int(np.max(count)))
    if low < 1 or high > MAX_COUNT:
        raise MachineFault(f"mbarrier.init: the count must be in 1..{MAX_COUNT}, got {low if low < 1 else high}")
    if where % 8:
        raise MachineFault(f"mbarrier.init: shared address {where:#x} is not aligned to 8 bytes")
    if where + 8 > cohort.shared.size:
        raise MachineFault(
            f"mbarrier.init: shared address {where:#x} is outside the CTA's {cohort.shared.size:#x} bytes"
        )
    known = cohort.barriers.get(where)
    if known is not None and known.among(rows):
        cohort.findings.report(
            "mbarrier-init-again",
            f"the mbarrier at shared address {where:#x} is initialised a second time, which is undefined: "
            "initialise it once, or use mbarrier.inval first",
            instr,
            who=first_active_warp(strand, party.lanes),
        )
    if rows is None and isinstance(count, int):
        cohort.barriers[where] = MBarrier(where, count)
    else:
        barrier = known or cohort.barriers.setdefault(where, MBarrier(where, high, range(cohort.ctas)))
        barrier.reset(cohort.ctas, cohort.rows_or_all(rows), count)
    cohort.shared.written.mark(slice(where, where + 8), rows)
    if cohort.observer is not None:
        cohort.observer.init(strand, instr, where)


def _check_alone(strand: Strand, instr: Instr, found: list[Party]) -> None:
    """Report an mbarrier that several threads of a CTA initialise by one instruction."""
    if len({party.where for party in found}) == len(found) and all(_one_thread(party.lanes) for party in found):
        return  # nearly always
    seen: dict[int, np.ndarray] = {}
    for party in found:
        if party.lanes is None and strand.active is not None:
            return
        lanes = active_lanes(strand) if party.lanes is None else party.lanes
        threads = np.broadcast_to(lanes, (len(lanes), len(strand.warps), 32)).sum(axis=(1, 2))
        seen[party.where] = seen.get(party.where, 0) + threads
        if (seen[party.where] > 1).any():
            strand.cohort.findings.report(
                "mbarrier-init-again",
                f"{int(seen[party.where].max())} threads of a CTA initialise the mbarrier at shared address "
                f"{party.where:#x} by one instruction, which is undefined: let one thread do it",
                instr,
                who=first_active_warp(strand, lanes),
            )


def _one_thread(lanes: np.ndarray | None) -> bool:
    """Whether lanes are one of each CTA, the same in all."""
    return lanes is not None and len(lanes) == 1 and int(np.count_nonzero(lanes)) == 1


@op("mbarrier.arrive", "mbarrier.arrive.expect_tx", traits=BLIND)
@op("mbarrier.arrive.noComplete", traits=ORDINARY)
@op("mbarrier.arrive_drop", "mbarrier.arrive_drop.expect_tx", "mbarrier.arrive_drop.noComplete", traits=ORDINARY)
def arrive(instr: Instr, table: SlotTable) -> Run:
    """mbarrier.arrive{_drop}{.expect_tx, .noComplete} state, [addr] {, count | tx_count}.

    One arrival (or ``count``) per active thread; .expect_tx raises the transaction count first. arrive_drop also
    expects fewer arrivals in later phases.
    """
    parties = parties_of(instr, table, own=False)
    name = instr.form.name
    drop = name.startswith("mbarrier.arrive_drop")
    bytes_slot = table.optional(instr.args.get("tx_count"), 32)
    count_slot = table.optional(instr.args.get("count"), 32)
    state = None if isinstance(instr.operands[0], Sink) else table.slot(instr.operands[0])
    open_phase = name.endswith(".noComplete")

    def one(strand: Strand, party: Party) -> None:
        cohort = strand.cohort
        count, tx = party.amounts
        arrival = Arrival(count, None if bytes_slot is None else tx, drop)
        barrier = cohort.barrier(party.where, name, party.homes, strand.count)
        fewest = count if isinstance(count, int) else int(np.min(count))
        if fewest < 1:
            raise MachineFault(f"{name}: the count must be at least 1, got {fewest}")
        if state is not None:
            _write_states(strand, state, barrier.found_by_each(party.homes, strand.count, count))
        before = np.array(barrier.phase) if open_phase else None
        phases = barrier.arrive_each(cohort.ctas, party.homes, strand.count, arrival)
        if open_phase and np.any(barrier.phase != before):
            raise MachineFault(
                f"{name}: this arrival completes a phase of the mbarrier at shared address {party.where:#x}",
                hint="remove .noComplete, which is undefined where the phase completes",
            )
        if phases > 1:
            _report_overrun(strand, instr, party.where, phases)
        if cohort.observer is not None:
            cohort.observer.arrive(strand, instr, party.where, party.homes)

    def run(strand: Strand) -> None:
        regs = strand.regs
        count = 1 if count_slot is None else regs[count_slot]
        found = parties(strand, [count, 0 if bytes_slot is None else regs[bytes_slot]])
        if len(found) == 1 and found[0].lanes is None:
            one(strand, found[0])
            return
        for party in found:
            act(strand, party, functools.partial(one, party=party))

    return run


def _report_overrun(strand: Strand, instr: Instr, where: int, phases: int) -> None:
    """Say that an instruction has completed phases that cannot have been waited for."""
    strand.cohort.findings.report(
        "mbarrier-overrun",
        f"the arrivals of one instruction span {phases} phases of the mbarrier at shared address {where:#x}: "
        "they exceed the count of mbarrier.init",
        instr,
        Verdict.review,
        first_active_warp(strand),
    )


def _write_states(strand: Strand, slot: int, states: Count) -> None:
    """Give each active thread the state in which it finds the barrier; ``states``: (rows | 1, threads) or one."""
    if isinstance(states, int):
        strand.write(slot, states)
        return
    lanes = active_lanes(strand)
    full = np.broadcast_to(lanes, (max(len(lanes), len(states)), len(strand.warps), 32))
    place = np.maximum(full.reshape(len(full), -1).cumsum(axis=1) - 1, 0)
    each = np.take_along_axis(np.broadcast_to(states, (len(full), states.shape[1])), place, axis=1)
    strand.write(slot, each.reshape(full.shape))


@op("mbarrier.pending_count", traits=PURE)
def pending_count(instr: Instr, table: SlotTable) -> Run:
    """mbarrier.pending_count d, state: the pending arrivals that a state holds."""
    return apply(instr, table, lambda state: extend(state, 64, 32, False), 64)


def _transaction(sign: int) -> Builder:
    def builder(instr: Instr, table: SlotTable) -> Run:
        own = instr.slots.get("space") != "shared::cluster"
        parties = parties_of(instr, table, own=own)
        bytes_slot = table.slot(instr.operands[1], 32)

        def one(strand: Strand, party: Party) -> None:
            cohort = strand.cohort
            barrier = cohort.barrier(party.where, instr.form.name, party.homes, strand.count)
            barrier.add_tx_each(cohort.ctas, party.homes, strand.count, sign * party.amounts[0])
            if cohort.observer is not None:
                cohort.observer.arrive(strand, instr, party.where, None if own else party.homes)

        def run(strand: Strand) -> None:
            for party in parties(strand, [strand.regs[bytes_slot]]):
                act(strand, party, functools.partial(one, party=party))

        return run

    return builder


op("mbarrier.expect_tx", traits=ORDINARY, result=False)(_transaction(1))
op("mbarrier.complete_tx", traits=ORDINARY, result=False)(_transaction(-1))


def _threads(strand: Strand, party: Party) -> Count:
    """How many threads of a party wait: one number, or int64 (rows,)."""
    if party.lanes is None:
        return strand.count
    return np.broadcast_to(party.lanes, thread_shape(strand)).sum(axis=(1, 2))


def _over(strand: Strand, party: Party, name: str, by_parity: bool) -> bool | np.ndarray:
    """Whether the phase that a party names is over; one for each CTA where they differ."""
    barrier = strand.cohort.barrier(party.where, name, party.homes, _threads(strand, party))
    done = (barrier.completed if by_parity else barrier.passed)(strand.rows, party.amounts[0])
    if done is True:  # nearly always
        return True
    if isinstance(done, np.ndarray) and isinstance(strand.count, np.ndarray):
        done = done | (strand.count == 0)
    if not np.all(done):
        at = int(np.argmin(done))
        first = int(np.broadcast_to(party.amounts[0], (strand.row_count,))[at])
        what = f"phase parity {first}" if by_parity else f"the end of phase {first}"
        strand.waiting = f"mbarrier {party.where:#x}, {what}"
    return done if isinstance(done, bool) else np.asarray(done)


def _tell(strand: Strand, instr: Instr, party: Party, done: bool | np.ndarray) -> None:
    if strand.cohort.observer is not None and np.any(done):
        reached = np.broadcast_to(done, (strand.row_count,))
        strand.cohort.observer.wait(strand, instr, party.where, reached)


def _count_waits(strand: Strand, done: bool | np.ndarray) -> None:
    """Count the warps that found their phase completed."""
    if done is True or np.any(done):
        some = done if isinstance(done, np.ndarray) and not done.all() else None
        strand.cohort.counters.mbarrier_waits += warps_active(strand, some)


def _all_through(strand: Strand, address: Value, parity: Value) -> bool | None:
    """Whether a phase is over, where all threads name one mbarrier of their CTA and one parity, and all CTAs agree."""
    cohort = strand.cohort
    if type(parity) is not int or type(address) is not int or cohort.cluster_size > 1:
        return None
    barrier = cohort.barriers.get(address)
    if barrier is None or barrier.gone or type(barrier.phase) is not int:
        return None
    return (barrier.phase ^ parity) & 1 == 1


@op("mbarrier.try_wait", traits=WHOLE_WARPS | Traits.TRY_WAIT)
@op("mbarrier.try_wait.parity", traits=BLIND | WHOLE_WARPS | Traits.TRY_WAIT)
@op("mbarrier.test_wait", "mbarrier.test_wait.parity", traits=Traits.TEST_WAIT | Traits.POLLING)
def wait(instr: Instr, table: SlotTable) -> Run:
    """mbarrier.{try,test}_wait p, [addr], phase: whether a phase, named by its parity or by a state, has completed.

    test_wait tells; try_wait suspends until it has, as the manual allows: a warp until it has for all of its lanes. One
    whose answer goes nowhere tells too, and orders nothing.
    """
    by_parity = "parity" in instr.mods
    heard = instr.index not in table.unheard
    blocking = heard and "try_wait" in instr.mods
    target = table.slot(instr.operands[0])
    parties = parties_of(instr, table, own=True)
    name = instr.form.name
    phase = table.slot(instr.operands[2], 32 if by_parity else 64)
    address = shared_address_of(instr.operands[1], table)

    def together(strand: Strand, party: Party, suspend: bool) -> int | None:
        done = _over(strand, party, name, by_parity)
        if done is not True and suspend and not np.all(done):
            strand.ready = np.reshape(done, (-1, 1))
            return BLOCK
        strand.write(target, narrow(np.reshape(done, (-1, 1, 1))) if isinstance(done, np.ndarray) else done)
        _count_waits(strand, done)
        if heard:
            _tell(strand, instr, party, done)
        return None

    def apart(strand: Strand, found: list[Party], suspend: bool) -> int | None:
        active = np.broadcast_to(active_lanes(strand), thread_shape(strand))
        answers = [_over(strand, party, name, by_parity) for party in found]
        done = np.zeros(active.shape, bool)
        for party, answer in zip(found, answers, strict=True):
            done |= party.lanes & np.reshape(answer, (-1, 1, 1))
        if suspend and not (done | ~active).all():
            strand.ready = np.asarray((done | ~active).all(axis=2))
            return BLOCK
        strand.write(target, narrow(done | ~active) if done[active].all() else done)
        strand.cohort.counters.mbarrier_waits += int(np.count_nonzero((done & active).any(axis=2)))
        for party, answer in zip(found, answers, strict=True) if heard else ():
            act(strand, party, functools.partial(_tell, instr=instr, party=party, done=answer))
        return None

    def run(strand: Strand) -> int | None:
        value = strand.regs[phase]
        where = address(strand.regs)
        through = _all_through(strand, where, value) if by_parity else None
        if through and strand.cohort.observer is None:  # nearly always
            strand.write(target, True)
            strand.cohort.counters.mbarrier_waits += warps_active(strand)
            return None
        suspend = blocking and strand.late != instr.index
        strand.late = None
        if through is False and suspend:
            strand.waiting = f"mbarrier {where:#x}, phase parity {value}"
            strand.ready = NOBODY
            return BLOCK
        if not by_parity:
            value = value >> np.uint64(32) if isinstance(value, np.ndarray) else value >> 32
        found = parties(strand, [value])
        return together(strand, found[0], suspend) if found[0].lanes is None else apart(strand, found, suspend)

    return run


@op("mbarrier.inval", traits=ORDINARY, result=False)
def inval(instr: Instr, table: SlotTable) -> Run:
    """mbarrier.inval [addr]: the memory may be used for something else."""
    parties = parties_of(instr, table, own=True)

    def one(strand: Strand, party: Party) -> None:
        cohort = strand.cohort
        rows = active_rows(strand)
        barrier = cohort.barrier(party.where, "mbarrier.inval", rows)
        barrier.gone.update(range(cohort.ctas) if rows is None else rows.tolist())
        notify_shared(strand, instr, "st", party.where, 8)
        if len(barrier.gone) == cohort.ctas:
            del cohort.barriers[party.where]

    def run(strand: Strand) -> None:
        for party in parties(strand, []):
            act(strand, party, functools.partial(one, party=party))

    return run
