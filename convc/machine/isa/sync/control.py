"""Branches, exits, CTA barriers, elect, fences (PTX manual, "Control Flow", "Parallel Synchronization")."""

from __future__ import annotations

import numpy as np

from convc.machine.isa.registry import Run, op
from convc.machine.isa.warp.shuffle_vote import expect_named
from convc.machine.state.barriers import Ticket
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.ptx import Instr


@op("bra", result=False)
def bra(instr: Instr, table: SlotTable) -> Run:
    """bra: jump; a predicate that differs between warps or CTAs splits the strand, between lanes it parts them."""
    return _jump(instr, instr.operands[0].target)


def _jump(instr: Instr, target: int):
    here = instr.index
    if instr.guard is None:
        return lambda strand: target
    slot = instr.guard.slot
    negate = instr.guard.negate

    def run(strand: Strand) -> int | None:
        predicate = strand.regs[slot]
        if not isinstance(predicate, np.ndarray):
            return target if bool(predicate) != negate else None
        return branch(strand, ~predicate if negate else predicate, here, target)

    return run


def branch(strand: Strand, taken: np.ndarray, here: int, target: int) -> int | None:
    """Take a branch whose predicate is an array: uniform, or after splitting off what goes another way."""
    kind, taken = _alike(strand, _kinds(strand, taken), taken, here)
    match kind:
        case 0:
            return None
        case 1:
            return target
        case _:
            return strand.diverge(here, target, taken)


def by_whole_warps(run, guard, here: int):
    """A guarded instruction that warps execute as one and may wait in: warps without a lane for it go on at once."""
    slot = guard.slot
    negate = guard.negate

    def guarded(strand: Strand) -> int | None:
        chosen = strand.regs[slot]
        if not isinstance(chosen, np.ndarray):
            return run(strand) if bool(chosen) != negate else None
        chosen = ~chosen if negate else chosen
        kind, chosen = _alike(strand, _kinds(strand, chosen) > 0, chosen, here)
        if strand.mask is None and chosen.all():
            return run(strand)
        return strand.under(chosen, run) if kind else None

    return guarded


def _alike(strand: Strand, kind: np.ndarray, value: np.ndarray, here: int) -> tuple[int, np.ndarray]:
    """Split off the CTAs and warps of another kind (rows, warps) than the first, to execute ``here`` by themselves.

    Returns the kind of those that stay, and their part of a register's ``value``.
    """
    if (kind != kind[:1]).any():
        same = (kind == kind[:1]).all(axis=1)
        strand.pc = here
        strand.split_rows(same)
        value = value[same] if value.shape[0] > 1 else value
    if (kind[0] != kind[0, 0]).any():
        same = kind[0] == kind[0, 0]
        strand.pc = here
        strand.split_warps(same)
        value = value[:, same] if value.shape[1] > 1 else value
    return int(kind[0, 0]), value


def _kinds(strand: Strand, taken: np.ndarray) -> np.ndarray:
    """Per (CTA, warp): 0 no active lane jumps, 1 all do, 2 lanes differ. Warps without active lanes count as 0."""
    if strand.mask is None:
        some, every = taken.any(axis=2), taken.all(axis=2)
    else:
        some, every = (taken & strand.mask).any(axis=2), (taken | ~strand.mask).all(axis=2)
    kind = np.where(some, np.where(every, 1, 2), 0)
    return np.broadcast_to(kind, (kind.shape[0], len(strand.warps)))


@op("ret", "exit", result=False)
def leave(instr: Instr, table: SlotTable) -> Run:
    """ret and exit from a kernel: a jump behind the last instruction, where the active lanes retire."""
    return _jump(instr, len(table.kernel.body))


@op("elect.sync")
def elect(instr: Instr, table: SlotTable) -> Run:
    """elect.sync d|p, membermask: one active lane (the switch ``elect`` says which) gets p = true, d is its number."""
    pair = instr.operands[0]
    lane_slot = _slot(pair.first)
    predicate_slot = _slot(pair.second)
    lanes = np.arange(32).reshape(1, 1, 32)
    members = table.slot(instr.args["membermask"], 32)

    def run(strand: Strand) -> None:
        expect_named(strand, strand.regs[members], instr)
        highest = strand.cohort.launch.switches.elect == "highest"
        if strand.mask is None:
            leader = 31 if highest else 0
            chosen = lanes == leader
        else:
            full = np.broadcast_to(strand.mask, (strand.mask.shape[0], len(strand.warps), 32))
            number = (31 - full[:, :, ::-1].argmax(axis=2) if highest else full.argmax(axis=2))[:, :, None]
            leader = number.astype(np.uint32)
            chosen = (lanes == number) & full
        if lane_slot is not None:
            strand.write(lane_slot, leader)
        if predicate_slot is not None:
            strand.write(predicate_slot, chosen)

    return run


def _slot(operand) -> int | None:
    return getattr(operand, "slot", None)


@op("bar.sync", "bar.arrive", result=False)
def cta_barrier(instr: Instr, table: SlotTable) -> Run:
    """bar.sync / barrier.cta.sync: block until all warps of the CTA (or the given number of threads) have arrived."""
    number = table.slot(instr.args["a"])
    threads = table.slot(instr.args["b"]) if instr.args.get("b") is not None else None
    arrive_only = instr.form.name == "bar.arrive"

    def run(strand: Strand) -> int | None:
        regs = strand.regs
        cohort = strand.cohort
        index = regs[number]
        barrier = cohort.named_barrier(index)
        rows = slice(None) if strand.rows is None else strand.rows
        if strand.ticket is None:
            strand.ticket = Ticket(barrier.generation[rows].copy())
            barrier.arrived[rows] += len(strand.warps)
            if cohort.observer is not None:
                cohort.observer.cta_barrier(strand, instr, index, leave=False)
        warps = -(-(cohort.launch.block[0] * cohort.launch.block[1] * cohort.launch.block[2]) // 32)
        expected = warps - cohort.exited if threads is None else np.full(cohort.ctas, regs[threads] // 32)
        full = barrier.arrived >= expected
        full &= barrier.arrived > 0
        barrier.generation[full] += 1
        barrier.arrived[full] = 0
        if arrive_only or (barrier.generation[rows] > strand.ticket.generation).all():
            if cohort.observer is not None and not arrive_only:
                cohort.observer.cta_barrier(strand, instr, index, leave=True)
            strand.ticket = None
            return None
        strand.waiting = f"CTA barrier {index} ({int(barrier.arrived[0])} of {int(expected[0])} warps there)"
        return BLOCK

    return run


@op("fence", "fence.mbarrier_init", "fence.proxy", "fence.sync_restrict", "fence.proxy.restrict", result=False)
def fence(instr: Instr, table: SlotTable) -> Run:
    """Fences order accesses; the machine performs them in order anyway, and only tells the observer."""
    return notify_fence(instr)


def notify_fence(instr: Instr):
    """An instruction that changes nothing but what is ordered."""

    def run(strand: Strand) -> None:
        if strand.cohort.observer is not None:
            strand.cohort.observer.fence(strand, instr)

    return run


@op("bar.warp.sync", result=False)
def warp_barrier(instr: Instr, table: SlotTable) -> Run:
    """bar.warp.sync membermask: lanes of a warp run side by side already."""
    members = table.slot(instr.args["membermask"], 32)

    def run(strand: Strand) -> None:
        expect_named(strand, strand.regs[members], instr)

    return run


@op("prefetch", "prefetch.tensormap", "prefetchu", "nanosleep", "setmaxnreg", "griddepcontrol", result=False)
def no_effect(instr: Instr, table: SlotTable) -> Run:
    """Prefetches and hints change nothing that the machine computes."""
    return lambda strand: None
