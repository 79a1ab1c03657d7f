"""Barriers of a CTA and of a warp, and fences (PTX manual, "bar, barrier", "bar.warp.sync", "membar, fence").

bar.red also reduces a predicate. Every thread that arrives casts a vote; when the barrier completes, all of them get
the count of true votes, or whether all or any were true. A warp may read its result after others have arrived for the
next round, so the votes belong to a generation of the barrier and live as long as somebody waits for them. Threads of
bar.sync and bar.arrive at the same barrier are counted by it and have no vote; the manual calls that unpredictable, and
a finding says where it happens.
"""

from __future__ import annotations

import numpy as np

from convc.ir.findings import Verdict
from convc.machine.base.values import Value, array, narrow
from convc.machine.isa.operands import reader, uniform
from convc.machine.isa.registry import Run, op
from convc.machine.isa.threads import thread_shape
from convc.machine.isa.warp.shuffle_vote import expect_named
from convc.machine.state.barriers import Ballot, NamedBarrier, Ticket
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.ptx import Instr

REDUCTIONS = ("popc", "and", "or")
MIXED = "warps of bar.sync or bar.arrive meet those of bar.red at one barrier: unpredictable (here they have no vote)"


@op("bar.sync", "bar.arrive", result=False)
def cta_barrier(instr: Instr, table: SlotTable) -> Run:
    """bar.sync / barrier.cta.sync: block until all warps of the CTA (or the given number of threads) have arrived."""
    number = table.slot(instr.args["a"])
    threads = table.optional(instr.args.get("b"))
    arrive_only = instr.form.name == "bar.arrive"

    def run(strand: Strand) -> int | None:
        regs = strand.regs
        cohort = strand.cohort
        index = uniform(regs[number], "the number of a barrier")
        barrier = cohort.named_barrier(index)
        rows = slice(None) if strand.rows is None else strand.rows
        ticket = strand.ticket
        if ticket is None:
            ticket = strand.ticket = Ticket(barrier.generation[rows].copy())
            barrier.arrived[rows] += len(strand.warps)
            if cohort.observer is not None:
                cohort.observer.cta_barrier(strand, instr, index, leave=False)
        if threads is None:
            expected = cohort.warps - cohort.exited
        else:
            expected = np.full(cohort.ctas, uniform(regs[threads], "the threads of a barrier") // 32)
        full = barrier.arrived >= expected
        full &= barrier.arrived > 0
        barrier.generation[full] += 1
        barrier.arrived[full] = 0
        if arrive_only or (barrier.generation[rows] > ticket.generation).all():
            if cohort.observer is not None and not arrive_only:
                cohort.observer.cta_barrier(strand, instr, index, leave=True)
            strand.ticket = None
            return None
        strand.waiting = f"CTA barrier {index} ({int(barrier.arrived[0])} of {int(expected[0])} warps there)"
        return BLOCK

    return run


@op("bar.red")
def reduce(instr: Instr, table: SlotTable) -> Run:
    """bar.red.{popc.u32, and.pred, or.pred} d, a {, b}, {!}c."""
    synchronise = cta_barrier(instr, table)
    predicate = reader(instr.args["c"], table)
    d = table.target(instr.operands[0])
    number = table.slot(instr.args["a"])
    count = table.optional(instr.args.get("b"))
    name = next(m for m in instr.mods if m in REDUCTIONS)

    def run(strand: Strand) -> int | None:
        cohort = strand.cohort
        if strand.ticket is None:
            barrier = cohort.named_barrier(uniform(strand.regs[number], "the number of a barrier"))
            votes = _vote(strand, barrier, predicate(strand.regs))
        else:
            votes = strand.ticket.votes
        if synchronise(strand) == BLOCK:
            if strand.ticket is not None:
                strand.ticket.votes = votes
            return BLOCK
        rows = cohort.rows_or_all(strand.rows)
        counts = np.empty((3, len(rows)), np.int64)
        for chosen, ballot in votes:
            counts[:, chosen] = ballot.counts[:, rows[chosen]]
        warps, threads, yes = counts
        expected = cohort.warps - cohort.exited[rows] if count is None else np.asarray(strand.regs[count]) // 32
        if (warps < expected).any():
            cohort.findings.report("barrier-mixed", MIXED, instr, Verdict.review)
        result = {"popc": yes.astype(np.uint32), "and": yes == threads, "or": yes > 0}[name]
        if d is not None:
            strand.write(d, narrow(result.reshape(-1, 1, 1)))
        return None

    return run


def _vote(strand: Strand, barrier: NamedBarrier, value: Value) -> list[tuple[np.ndarray, Ballot]]:
    """Cast the votes of the active threads; returns (positions of the CTAs in the strand, their ballot)."""
    shape = thread_shape(strand)
    active = np.broadcast_to(np.True_ if strand.mask is None else strand.mask, shape)
    threads = active.sum(axis=(1, 2))
    yes = (active & array(value, 1)).sum(axis=(1, 2))
    counts = np.stack([np.full_like(threads, len(strand.warps)), threads, yes])
    rows = strand.cohort.rows_or_all(strand.rows)
    generation = barrier.generation[rows]
    votes: list[tuple[np.ndarray, Ballot]] = []
    for number in np.unique(generation).tolist():
        ballot = barrier.ballots.get(number)
        if ballot is None:
            ballot = barrier.ballots[number] = Ballot(strand.cohort.ctas)
        chosen = np.flatnonzero(generation == number)
        ballot.counts[:, rows[chosen]] += counts[:, chosen]
        votes.append((chosen, ballot))
    return votes


@op("bar.warp.sync", result=False)
def warp_barrier(instr: Instr, table: SlotTable) -> Run:
    """bar.warp.sync membermask: lanes of a warp run side by side already."""
    members = table.slot(instr.args["membermask"], 32)

    def run(strand: Strand) -> None:
        expect_named(strand, strand.regs[members], instr)

    return run


@op("fence", "fence.mbarrier_init", "fence.proxy", "fence.sync_restrict", "fence.proxy.restrict", result=False)
@op("fence.proxy.tensormap", "tcgen05.fence", result=False)
def fence(instr: Instr, table: SlotTable) -> Run:
    """Fences order accesses; the machine performs them in order anyway, and only tells the observer."""
    return lambda strand: notify_fence(strand, instr)


def notify_fence(strand: Strand, instr: Instr) -> None:
    """Tell the observer of an instruction that changes nothing but what is ordered."""
    if strand.cohort.observer is not None:
        strand.cohort.observer.fence(strand, instr)
