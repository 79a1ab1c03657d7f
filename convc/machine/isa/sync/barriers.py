"""Barriers of a CTA and of a warp, and fences (PTX manual, "bar, barrier", "bar.warp.sync", "membar, fence").

bar.red also reduces a predicate. Every thread that arrives casts a vote; when the barrier completes, all of them get
the count of true votes, or whether all or any were true. A warp may read its result after others have arrived for the
next round, so the votes belong to a generation of the barrier and live as long as a warp waits for them. Threads of
bar.sync and bar.arrive at the same barrier are counted by it and have no vote; the manual calls that unpredictable, and
a finding says where it happens.
"""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault
from convc.ir.findings import Verdict
from convc.machine.base.values import Value, array, narrow
from convc.machine.isa.operands import reader
from convc.machine.isa.registry import BLIND, ORDINARY, WHOLE_WARPS, Run, Traits, op
from convc.machine.isa.threads import active_warps, first_active_warp, per_warp, thread_shape
from convc.machine.isa.warp.shuffle_vote import expect_named
from convc.machine.state.barriers import ELSEWHERE, Ballot, Meeting, NamedBarrier, Ticket
from convc.machine.state.cohort import Cohort
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.ptx import Instr

BARRIERS = 16
"""CTA barriers that a CTA has."""

REDUCTIONS = ("popc", "and", "or")
MIXED = "warps use bar.sync or bar.arrive, and bar.red, at one barrier: unpredictable (here the first have no vote)"


@op("bar.sync", "bar.arrive", traits=BLIND | WHOLE_WARPS | Traits.BARRIER | Traits.ONCE, result=False)
def cta_barrier(instr: Instr, table: SlotTable) -> Run:
    """bar.sync / barrier.cta.sync: block until all warps of the CTA (or the given number of threads) have arrived.

    Every warp has a barrier and a count of its own; a fault where lanes of a warp differ in them.
    """
    number = table.slot(instr.args["a"])
    threads = table.optional(instr.args.get("b"))
    arrive_only = instr.form.name == "bar.arrive"

    def run(strand: Strand) -> int | None:
        if strand.ticket is None:
            count = None if threads is None else strand.regs[threads]
            if _all_at_once(strand, strand.regs[number], count):
                return None
            strand.ticket = _arrive_alike(strand, strand.regs[number], count)
            if strand.ticket is None:
                strand.ticket = _arrive(strand, instr, strand.regs[number], count)
            _notify(strand, instr, leave=False)
        if arrive_only or _wait(strand):
            if not arrive_only:
                _notify(strand, instr, leave=True)
            strand.ticket = None
            return None
        return BLOCK

    return run


def _notify(strand: Strand, instr: Instr, leave: bool) -> None:
    if strand.cohort.observer is not None:
        strand.cohort.observer.cta_barrier(strand, instr, leave)


def _all_at_once(strand: Strand, number: Value, threads: Value | None) -> bool:
    """Whether all warps of all CTAs arrive together at an empty barrier: then it is over, and none waits."""
    cohort = strand.cohort
    if isinstance(number, np.ndarray) or number >= BARRIERS or isinstance(threads, np.ndarray):
        return False
    if strand.rows is not None or strand.mask is not None or len(strand.warps) < cohort.warps:
        return False
    plain = cohort.observer is None and threads in (None, 32 * cohort.warps)
    return plain and cohort.named_barrier(number).pass_together(0 if threads is None else cohort.warps)


def _arrive_alike(strand: Strand, number: Value, threads: Value | None) -> Ticket | None:
    """All warps of the strand, the same in all CTAs, arrive where all CTAs are alike; None where it is not so.

    As nearly always. `_arrive` does the same for each CTA and warp by itself.
    """
    cohort = strand.cohort
    if isinstance(number, np.ndarray) or number >= BARRIERS or isinstance(threads, np.ndarray):
        return None
    if strand.rows is not None or strand.mask is not None:
        return None
    if threads is None:
        counted = 0
        plain = not cohort.exited.any()
    else:
        counted, rest = divmod(threads, 32)
        plain = counted > 0 and not rest
    if not plain:
        return None
    barrier = cohort.named_barrier(number)
    generation = barrier.arrive_alike(len(strand.warps), cohort.warps, counted)
    if generation is None:
        return None
    expected = np.full(cohort.ctas, counted) if counted else None
    return Ticket([Meeting(number, barrier, np.full((cohort.ctas, len(strand.warps)), generation), expected)])


def _arrive(strand: Strand, instr: Instr, number: Value, threads: Value | None) -> Ticket:
    cohort = strand.cohort
    rows = cohort.rows_or_all(strand.rows)
    joining = np.broadcast_to(active_warps(strand), (strand.row_count, len(strand.warps)))
    numbers = per_warp(strand, number, "the number of a barrier")
    counts = 0 if threads is None else per_warp(strand, threads, "the threads of a barrier")
    meetings: list[Meeting] = []
    for index, count, chosen in _alike(numbers, counts, joining):
        if index >= BARRIERS:
            raise MachineFault(f"{instr.form.name}: a CTA has barriers 0 to {BARRIERS - 1}, not {index}")
        if threads is not None and (count % 32 or not count):
            raise MachineFault(f"{instr.form.name}: the threads of a barrier must be a multiple of 32, got {count}")
        barrier = cohort.named_barrier(index)
        expected = None if threads is None else np.full(len(rows), count // 32)
        wanted = _living(cohort, rows) if expected is None else expected
        _check(strand, instr, barrier, chosen, expected)
        meetings.append(Meeting(index, barrier, barrier.arrive(rows, chosen, wanted), expected))
    return Ticket(meetings)


def _alike(
    numbers: int | np.ndarray, counts: int | np.ndarray, joining: np.ndarray
) -> list[tuple[int, int, np.ndarray]]:
    """(number, count, warps that have both, bool (rows, warps)) for each pair among the warps that are ``joining``."""
    if isinstance(numbers, int) and isinstance(counts, int):
        return [(numbers, counts, joining)]
    pairs = np.stack(np.broadcast_arrays(numbers, counts, joining)[:2])
    distinct, member = np.unique(pairs[:, joining], axis=1, return_inverse=True)
    found: list[tuple[int, int, np.ndarray]] = []
    for place, (number, count) in enumerate(distinct.T.tolist()):
        chosen = np.zeros_like(joining)
        chosen[joining] = member.reshape(-1) == place
        found.append((number, count, chosen))
    return found


def _living(cohort: Cohort, rows: np.ndarray) -> np.ndarray:
    """int64 (rows,): the warps of CTAs that have not exited."""
    return cohort.warps - cohort.exited[rows]


def _check(
    strand: Strand, instr: Instr, barrier: NamedBarrier, chosen: np.ndarray, expected: np.ndarray | None
) -> None:
    """Report more warps than the barrier has room for, and warps that give it different counts."""
    rows = strand.cohort.rows_or_all(strand.rows)
    before = barrier.arrived[rows]
    if expected is None:
        barrier.expected[rows] = 0
        return
    arriving = chosen.sum(axis=1)
    over = before + arriving > expected
    if over.any():
        at = int(over.argmax())
        number = 32 * int(before[at] + arriving[at])
        strand.cohort.findings.report(
            "barrier-overflow",
            f"{number} threads reach a CTA barrier whose count is {32 * int(expected[at])}: the surplus waits for "
            "the next round; let only these threads reach it, or raise the count",
            instr,
            who=first_active_warp(strand, over[:, None, None] & chosen[:, :, None]),
        )
    other = (before > 0) & (arriving > 0) & (barrier.expected[rows] > 0) & (barrier.expected[rows] != expected)
    if other.any():
        at = int(other.argmax())
        strand.cohort.findings.report(
            "barrier-counts",
            f"warps give different thread counts to one CTA barrier: {32 * int(barrier.expected[rows][at])} and "
            f"{32 * int(expected[at])} threads; use the same count in all",
            instr,
            who=first_active_warp(strand, other[:, None, None] & chosen[:, :, None]),
        )
    barrier.expected[rows] = np.where(arriving > 0, expected, barrier.expected[rows])


def _wait(strand: Strand) -> bool:
    """Whether all warps of the strand may leave the barriers that they wait at; says who waits where they may not."""
    cohort = strand.cohort
    rows = cohort.rows_or_all(strand.rows)
    ready = np.ones((1, 1), bool)
    for meeting in strand.ticket.meetings if strand.ticket is not None else ():
        # Where all arrivals were alike, each has completed what it could, and only an exit completes more.
        if meeting.expected is None and (meeting.barrier.alike is None or cohort.exited.any()):
            meeting.barrier.settle(rows, _living(cohort, rows))
        over = meeting.over(rows)
        if not over.all():
            at = int((~over).any(axis=1).argmax())
            alike = meeting.barrier.alike
            there = int(meeting.barrier.arrived[rows[at]]) if alike is None else alike[0]
            wanted = _living(cohort, rows) if meeting.expected is None else meeting.expected
            strand.waiting = f"CTA barrier {meeting.index} ({there} of {int(wanted[at])} warps there)"
        ready = ready & over
    if ready.all():
        return True
    strand.ready = ready
    return False


@op("bar.red", traits=WHOLE_WARPS | Traits.BARRIER | Traits.ONCE)
def reduce(instr: Instr, table: SlotTable) -> Run:
    """bar.red.{popc.u32, and.pred, or.pred} d, a {, b}, {!}c."""
    predicate = reader(instr.args["c"], table)
    d = table.target(instr.operands[0])
    number = table.slot(instr.args["a"])
    threads = table.optional(instr.args.get("b"))
    name = next(m for m in instr.mods if m in REDUCTIONS)

    def run(strand: Strand) -> int | None:
        ticket = strand.ticket
        if ticket is None:
            count = None if threads is None else strand.regs[threads]
            ticket = strand.ticket = _arrive(strand, instr, strand.regs[number], count)
            ticket.votes = _vote(strand, ticket, predicate(strand.regs))
            _notify(strand, instr, leave=False)
        if not _wait(strand):
            return BLOCK
        _notify(strand, instr, leave=True)
        counts = _outcome(strand, ticket)
        if _missing(strand, ticket, counts[0]).any():
            strand.cohort.findings.report("barrier-mixed", MIXED, instr, Verdict.review)
        strand.ticket = None
        _, voters, yes = counts
        result = {"popc": yes.astype(np.uint32), "and": yes == voters, "or": yes > 0}[name]
        if d is not None:
            strand.write(d, narrow(result[:, :, None]))
        return None

    return run


def _vote(strand: Strand, ticket: Ticket, value: Value) -> list[tuple[np.ndarray, Ballot]]:
    """Cast the votes of the active threads; returns (warps of the strand, bool (rows, warps), and their ballot)."""
    active = np.broadcast_to(np.True_ if strand.mask is None else strand.mask, thread_shape(strand))
    threads = active.sum(axis=2)
    yes = (active & array(value, 1)).sum(axis=2)
    rows = strand.cohort.rows_or_all(strand.rows)
    votes: list[tuple[np.ndarray, Ballot]] = []
    for meeting in ticket.meetings:
        for number in np.unique(meeting.generation[meeting.generation != ELSEWHERE]).tolist():
            ballot = meeting.barrier.ballots.get(number)
            if ballot is None:
                ballot = meeting.barrier.ballots[number] = Ballot(strand.cohort.ctas)
            chosen = meeting.generation == number
            cast = [chosen.sum(axis=1), (threads * chosen).sum(axis=1), (yes * chosen).sum(axis=1)]
            ballot.counts[:, rows] += np.stack(cast)
            votes.append((chosen, ballot))
    return votes


def _outcome(strand: Strand, ticket: Ticket) -> np.ndarray:
    """int64 (3, rows, warps): warps and threads that voted where each warp did, and their true votes."""
    rows = strand.cohort.rows_or_all(strand.rows)
    counts = np.zeros((3, strand.row_count, len(strand.warps)), np.int64)
    for chosen, ballot in ticket.votes:
        counts = np.where(chosen, ballot.counts[:, rows, None], counts)
    return counts


def _missing(strand: Strand, ticket: Ticket, voters: np.ndarray) -> np.ndarray:
    """bool (rows, warps): where fewer warps have voted than had to arrive."""
    rows = strand.cohort.rows_or_all(strand.rows)
    missing = np.zeros(voters.shape, bool)
    for meeting in ticket.meetings:
        wanted = _living(strand.cohort, rows) if meeting.expected is None else meeting.expected
        missing |= (meeting.generation != ELSEWHERE) & (voters < wanted[:, None])
    return missing


@op("bar.warp.sync", traits=BLIND | Traits.ONCE, result=False)
def warp_barrier(instr: Instr, table: SlotTable) -> Run:
    """bar.warp.sync membermask: lanes of a warp run side by side already, so that only the observer is told."""
    members = table.slot(instr.args["membermask"], 32)

    def run(strand: Strand) -> None:
        expect_named(strand, strand.regs[members], instr)
        notify_fence(strand, instr)

    return run


@op("fence.mbarrier_init", "fence.proxy", "tcgen05.fence", traits=BLIND, result=False)
@op("fence", "fence.proxy.tensormap", traits=Traits.FENCE, result=False)
@op("fence.sync_restrict", "fence.proxy.restrict", traits=ORDINARY, result=False)
def fence(instr: Instr, table: SlotTable) -> Run:
    """Fences order accesses; the simulator performs them in order anyway, and only tells the observer."""
    return lambda strand: notify_fence(strand, instr)


def notify_fence(strand: Strand, instr: Instr) -> None:
    """Tell the observer of an instruction that changes nothing but what is ordered."""
    if strand.cohort.observer is not None:
        strand.cohort.observer.fence(strand, instr)
