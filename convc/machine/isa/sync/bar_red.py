"""bar.red: a CTA barrier that also reduces a predicate (PTX manual, 9.7.13.1 "bar, barrier").

Every thread that arrives casts a vote; when the barrier completes, all of them get the count of true votes, or whether
all or any were true. A warp may read its result after others have arrived for the next round, so the votes belong to a
generation of the barrier and live as long as somebody waits for them. Threads of bar.sync and bar.arrive at the same
barrier are counted by it and have no vote; the manual calls that unpredictable, and a finding says where it happens.
"""

from __future__ import annotations

import numpy as np

from convc.ir.findings import Verdict
from convc.machine.base.values import array, narrow
from convc.machine.isa.operands import reader
from convc.machine.isa.registry import Run, op
from convc.machine.isa.sync.control import cta_barrier
from convc.machine.isa.threads import thread_shape
from convc.machine.state.barriers import Ballot, NamedBarrier
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.ptx import Instr

REDUCTIONS = ("popc", "and", "or")
MIXED = "warps of bar.sync or bar.arrive meet those of bar.red at one barrier: unpredictable (here they have no vote)"


def _vote(strand: Strand, barrier: NamedBarrier, value) -> list[tuple[np.ndarray, Ballot]]:
    """Cast the votes of the active threads; returns (positions of the CTAs in the strand, their ballot)."""
    shape = thread_shape(strand)
    active = np.broadcast_to(np.True_ if strand.mask is None else strand.mask, shape)
    threads = active.sum(axis=(1, 2))
    yes = (active & array(value, 1)).sum(axis=(1, 2))
    counts = np.stack([np.full_like(threads, len(strand.warps)), threads, yes])
    rows = np.arange(strand.cohort.ctas) if strand.rows is None else strand.rows
    generation = barrier.generation[rows]
    cast = []
    for number in np.unique(generation).tolist():
        ballot = barrier.ballots.get(number)
        if ballot is None:
            ballot = barrier.ballots[number] = Ballot(strand.cohort.ctas)
        chosen = np.flatnonzero(generation == number)
        ballot.counts[:, rows[chosen]] += counts[:, chosen]
        cast.append((chosen, ballot))
    return cast


@op("bar.red")
def reduce(instr: Instr, table: SlotTable) -> Run:
    """bar.red.{popc.u32, and.pred, or.pred} d, a {, b}, {!}c."""
    synchronise = cta_barrier(instr, table)
    predicate = reader(instr.args["c"], table)
    d = table.target(instr.operands[0])
    number = table.slot(instr.args["a"])
    count = table.slot(instr.args["b"]) if instr.args.get("b") is not None else None
    name = next(m for m in instr.mods if m in REDUCTIONS)

    def run(strand: Strand) -> int | None:
        if strand.ticket is None:
            barrier = strand.cohort.named_barrier(strand.regs[number])
            cast = _vote(strand, barrier, predicate(strand.regs))
        else:
            cast = strand.ticket.votes
        if synchronise(strand) == BLOCK:
            strand.ticket.votes = cast
            return BLOCK
        cohort = strand.cohort
        rows = np.arange(cohort.ctas) if strand.rows is None else strand.rows
        counts = np.empty((3, len(rows)), np.int64)
        for chosen, ballot in cast:
            counts[:, chosen] = ballot.counts[:, rows[chosen]]
        warps, threads, yes = counts
        if (warps < (cohort.warps - cohort.exited[rows] if count is None else strand.regs[count] // 32)).any():
            cohort.findings.report("barrier-mixed", MIXED, instr, Verdict.review)
        result = {"popc": yes.astype(np.uint32), "and": yes == threads, "or": yes > 0}[name]
        if d is not None:
            strand.write(d, narrow(result.reshape(-1, 1, 1)))
        return None

    return run
