"""The run loop: strands take turns until all CTAs of a cohort have exited, or nothing can go on."""

from __future__ import annotations

import math

import numpy as np

from convc.errors import ConvcError, DeadlockError, EndlessError, MachineError, MachineFault
from convc.ir.findings import Verdict
from convc.machine.base.findings import Who
from convc.machine.base.values import Value
from convc.machine.execute import culprit
from convc.machine.execute.decode import DecodedKernel
from convc.machine.execute.facts import registers_of
from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Run, Traits
from convc.machine.isa.threads import first_active_warp
from convc.machine.state.cohort import Cohort
from convc.machine.state.launch import Launch
from convc.machine.state.observer import Observer
from convc.machine.state.pending_registers import finish
from convc.machine.state.replay import key_of, replay, start_recording, stop_recording
from convc.machine.state.strand import DONE, Strand
from convc.ptx import Instr

TURN = 1 << 16
"""Instructions after which a strand lets others run at its next backward jump, and is watched for spinning."""


def run_cohort(launch: Launch, decoded: DecodedKernel, first: int, ctas: int, observer: Observer | None = None) -> None:
    """Run ``ctas`` CTAs from linear number ``first`` to their end; ``observer`` is told of everything that happens."""
    cohort = Cohort(launch, first, ctas, decoded.shared_bytes(launch.dynamic_shared), observer)
    packed = observer is None and cohort.lazy is not None  # an observer is told of every instruction
    ops = decoded.packed if packed else decoded.ops
    if not cohort.pending.eager:
        if packed not in decoded.dependent:
            decoded.dependent[packed] = _dependent(decoded, ops)
        ops = decoded.dependent[packed]
    if observer is not None:
        ops = [_observed(decoded, pc, ops, observer) for pc in range(len(decoded.ops))]
        observer.begin(cohort)
    try:
        with np.errstate(all="ignore"):  # for all instructions at once: on an SM nothing traps
            _run_or_repeat(cohort, decoded, ops, first)
        if observer is not None:
            observer.end(cohort)
    finally:
        cohort.release()
    launch.counters.ctas += ctas


def _run_or_repeat(cohort: Cohort, decoded: DecodedKernel, ops: list[Run], first: int) -> None:
    """Run all of a cohort, or replay an earlier launch where there is one that it may take."""
    may = cohort.unobserved_deferral is not None and decoded.repeats
    key = key_of(cohort.launch, first, cohort.ctas) if may else None
    kept = decoded.kept.get(first)
    if key is not None and kept is not None and kept.key == key:
        replay(kept, cohort)
        return
    if key is not None:
        start_recording(cohort)
    _run_all(cohort, ops, _first_strand(cohort, decoded))
    if key is not None:
        stop_recording(key, cohort, decoded.kept, first)


def _run_all(cohort: Cohort, ops: list[Run], first: Strand) -> None:
    """Run everything to its end, work that no wait covers included."""
    try:
        _take_turns(cohort, ops, first)
    finally:
        first.running.clear()  # strands and this list know each other
    while cohort.pending.perform_one():
        pass
    cohort.core.perform(cohort.core.take())
    _report_leftovers(cohort)


def _first_strand(cohort: Cohort, decoded: DecodedKernel) -> Strand:
    """All warps of all CTAs, at the first instruction."""
    threads = math.prod(cohort.launch.block)
    warps = np.arange(cohort.warps)
    running: list[Strand] = []
    strand = Strand(cohort, decoded, running, None, warps, decoded.slots.fresh_values(cohort, warps))
    if threads % 32:
        strand.set_mask((warps[:, None] * 32 + np.arange(32))[None] < threads)
    running.append(strand)
    return strand


def _take_turns(cohort: Cohort, ops: list[Run], first: Strand) -> None:
    """Run a strand, and those that split off from it, one after the other until all have ended."""
    running = first.running
    while running:
        turn = list(running)
        cohort.pending.between_turns()
        moved = [_run(strand, ops) for strand in turn]
        moved.append(len(running) > len(turn))  # a split is progress: the new strand has not run yet
        if any(strand.executed > cohort.launch.max_instructions for strand in turn):
            raise _endless(cohort, turn)
        running[:] = [strand for strand in running if not strand.done]
        stuck = running and not any(moved)
        if stuck and not (cohort.pending.perform_one() or _part_ready(running) or _give_up(running)):
            raise _deadlock(cohort, running)


def _part_ready(running: list[Strand]) -> bool:
    """Part one strand of which only some warps or CTAs still have to wait, so that the others go on.

    A strand waits for its slowest warp as long as another strand can go on: parting for good costs more than waiting.

    Returns:
        Whether there was such a strand.
    """
    for strand in running:
        if strand.ready is None:
            continue
        ready = np.broadcast_to(strand.ready, (strand.row_count, len(strand.warps)))
        some = np.logical_or.reduce(ready, axis=1)
        if not some.any():
            continue
        if not some.all():
            strand.split_rows(some)
            return True
        if (ready != ready[:1]).any():
            strand.split_rows(np.logical_and.reduce(ready == ready[:1], axis=1))
            return True
        if not ready.all():
            strand.split_warps(ready[0])
            return True
    return False


def _give_up(running: list[Strand]) -> bool:
    """Let one mbarrier.try_wait return though its phase is not over, as the hardware does some time.

    A loop that looks ahead at a phase which it has to bring about itself goes on by that. One that repeats the wait is
    back before any other wait has succeeded, and hangs.

    Returns:
        Whether there was such a wait.
    """
    for strand in running:
        instr = strand.program.kernel.body[min(strand.pc, len(strand.program.kernel.body) - 1)]
        done = strand.cohort.counters.mbarrier_waits
        if instr.form.name in forms_with(Traits.TRY_WAIT) and strand.gave_up.get(strand.pc) != done:
            strand.gave_up[strand.pc] = done
            strand.late = strand.pc
            return True
    return False


def _observed(decoded: DecodedKernel, pc: int, ops: list[Run], observer: Observer) -> Run:
    """Operation ``pc``, announced to an observer."""
    if pc == len(decoded.kernel.body):
        return ops[pc]
    instr = decoded.kernel.body[pc]

    def run(strand: Strand) -> int | None:
        observer.step(strand, instr)
        return ops[pc](strand)

    return run


def _dependent(decoded: DecodedKernel, ops: list[Run]) -> list[Run]:
    """The operations, each after the tcgen05.ld under way that fill a register which it names.

    A segment (`convc.machine.execute.segments`) is no exception: it is not tried while any is under way.
    """
    body = decoded.kernel.body
    names = [{r.slot for operand in instr.operands for r in registers_of(operand)} for instr in body]
    for instr, named in zip(body, names, strict=True):
        if instr.guard is not None:
            named.add(instr.guard.slot)
    loads = [pc for pc, instr in enumerate(body) if instr.form.name == "tcgen05.ld"]
    filled = frozenset(slot for pc in loads for slot in names[pc])
    if not filled:
        return ops
    return [_filled(ops, pc, filled & named) for pc, named in enumerate([*names, set()])]


def _filled(ops: list[Run], pc: int, names: frozenset[int]) -> Run:
    """Operation ``pc`` of a list that may change, after the loads under way that fill a register of ``names``."""

    def run(strand: Strand) -> int | None:
        if names and strand.loads:
            strand.loads = finish(strand, strand.loads, names)
        return ops[pc](strand)

    return run


def _run(strand: Strand, ops: list[Run]) -> bool:
    """Run a strand until it blocks, exits, or has had its turn; True when it got anywhere."""
    pc = strand.pc
    executed = 0
    watch: tuple[int, list[Value]] | None = None
    moved = True
    strand.ready = None
    strand.waiting = ""
    turn = min(TURN, strand.cohort.launch.max_instructions)
    try:
        while True:
            result = ops[pc](strand)
            if result is None:
                pc += 1
            elif result >= 0:
                if result <= pc and executed + strand.skipped > turn:
                    # A long run: from here on watch one loop. When it comes round with every register as it was, it
                    # spins; otherwise another one may have a turn.
                    if watch is None:
                        watch = (result, strand.regs.copy())
                    elif watch[0] == result:
                        moved = not _same(watch[1], strand.regs)
                        pc = result
                        break
                    elif executed + strand.skipped > 2 * turn:
                        pc = result
                        break
                pc = result
            else:
                moved = executed > 0 or result == DONE
                break
            executed += 1
    except ConvcError as error:
        _locate(error, strand, pc)
        raise
    strand.pc = pc
    if not moved and executed:
        strand.waiting = "a change in memory: it spins in a loop without side effects"
    strand.cohort.core.seal()
    executed += strand.skipped
    strand.cohort.counters.instructions += executed * len(strand.warps) * strand.row_count
    strand.executed += executed
    strand.skipped = 0
    return moved


def _locate(error: ConvcError, strand: Strand, pc: int) -> None:
    """Say where an error happened: instruction, and CTA, warp and lanes as far as they are known."""
    body = strand.program.kernel.body
    instr = body[pc] if pc < len(body) else None
    error.span = error.span or (None if instr is None else instr.span)
    if isinstance(error, MachineFault):
        error.step = None if instr is None else instr.step
        _accuse(error, strand, instr)
    elif isinstance(error, MachineError):
        _site(error, strand, pc)
    error.where = error.where or _describe(strand)


def _accuse(fault: MachineFault, strand: Strand, instr: Instr | None) -> None:
    """Say which CTA, warp and lanes made a fault, as far as it is certain."""
    found = None
    row: int | None = None
    own = instr is not None and fault.span is instr.span  # else of work deferred before
    if instr is not None and own:
        found = culprit.find(strand, strand.program.ops[instr.index], fault, instr.form.name)
    if found is not None:
        fault.message = found[0].message
        row = found[1].row
        fault.warp = found[1].warp
        fault.lanes = found[1].lanes
    else:
        row, fault.warp, fault.lanes = culprit.suspects(
            strand, instr.guard if instr is not None and own else None, fault
        )
    fault.cta = None if row is None else strand.cohort.number(row)
    if fault.cta is not None:
        fault.where = fault.where or _place(fault)


def _place(error: MachineError) -> str:
    """The CTA of an error, and its warp and lanes where they are known, for people."""
    parts = [f"CTA {error.cta}"]
    if error.warp is not None:
        parts.append(f"warp {error.warp}")
        first = error.lanes[0]
        last = error.lanes[-1]
        if first == last:
            parts.append(f"lane {first}")
        elif last - first == len(error.lanes) - 1:
            parts.append(f"lanes {first}..{last}")
        else:
            parts.append(f"lanes {', '.join(map(str, error.lanes))}")
    return ", ".join(parts)


def _site(error: MachineError, strand: Strand, pc: int) -> None:
    who = first_active_warp(strand)
    error.cta = strand.cohort.number(who.row)
    error.warp = who.warp
    error.lanes = who.lanes
    body = strand.program.kernel.body
    error.step = body[pc].step if pc < len(body) else None


def _same(before: list[Value], after: list[Value]) -> bool:
    """Whether a trip round a loop left every register as it was."""
    return all(
        a is b or (np.array_equal(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a == b)
        for a, b in zip(before, after, strict=True)
    )


def _describe(strand: Strand) -> str:
    rows = range(strand.cohort.ctas) if strand.rows is None else strand.rows
    first = strand.cohort.number(rows[0])
    last = strand.cohort.number(rows[-1])
    ctas = f"CTA {first}" if strand.row_count == 1 else f"CTAs {first}..{last}"
    warps = ", ".join(str(int(w)) for w in strand.warps)
    return f"{ctas}, warp{'s' if len(strand.warps) > 1 else ''} {warps}"


def _deadlock(cohort: Cohort, strands: list[Strand]) -> DeadlockError:
    """Describe where every strand stands and the state of every barrier."""
    first = strands[0]
    lines = _stands(strands)
    row = 0 if first.rows is None else int(first.rows[0])
    for address, barrier in sorted(cohort.barriers.items()):
        lines.append(f"mbarrier {address:#x} in CTA {cohort.number(row)}: {barrier.describe(row)}")
    errors = [f for f in cohort.launch.findings.values() if f.verdict is Verdict.error]
    lines += [f"before that: {f.file}:{f.line}: {f.message}" for f in errors]
    error = DeadlockError(
        "the kernel hangs: no warp can continue\n    " + "\n    ".join(lines),
        span=first.program.kernel.body[first.pc].span,
        hint="compare what each warp waits for with the arrivals and bytes of the other roles",
    )
    _site(error, first, first.pc)
    return error


def _endless(cohort: Cohort, strands: list[Strand]) -> EndlessError:
    """Describe where every strand stands when one of them has executed too much."""
    longest = max(strands, key=lambda strand: strand.executed)
    most = cohort.launch.max_instructions
    body = longest.program.kernel.body
    begin = "" if longest.done else "the kernel did not end: "
    error = EndlessError(
        f"{begin}a warp executed {longest.executed} instructions, the limit is {most}\n    "
        + "\n    ".join(_stands(strands)),
        span=body[min(longest.pc, len(body) - 1)].span,
        hint="look for what its loop waits for, or its trip count; if it needs more, raise the limit: "
        "--max-instructions N "
        "(MachineOptions.max_instructions)",
    )
    _site(error, longest, longest.pc)
    return error


def _stands(strands: list[Strand]) -> list[str]:
    """Describe where every strand stands: its line, and what it waits for, or how far it has come."""
    lines: list[str] = []
    for strand in strands:
        body = strand.program.kernel.body
        instr = body[min(strand.pc, len(body) - 1)]  # behind the last one is the exit
        step = f" (step {instr.step})" if instr.step else ""
        doing = f"waits for {strand.waiting}" if strand.waiting else f"runs, {strand.executed} instructions so far"
        lines.append(f"{_describe(strand)}: {instr.span.file}:{instr.span.line}{step}: {doing}")
    return lines


def _report_leftovers(cohort: Cohort) -> None:
    """What a kernel must have put back before it exits."""
    cohort.bulk_groups.report_leftovers(cohort.findings)
    for what, verdict in (("wgmma, descriptors included", Verdict.error), ("setmaxnreg", Verdict.rule)):
        parted = cohort.warpgroups.parted(counts=verdict is Verdict.rule)
        if parted is not None:
            message = f"the warps of warpgroup {parted[1]} executed different {what}"
            cohort.findings.report("warpgroup-apart", message, None, verdict, Who(row=parted[0]))
    alone = cohort.warpgroups.alone()
    if alone is not None:
        instr, row, warp = alone
        cohort.findings.report(
            "warpgroup-apart",
            f"warp {warp} did not execute {instr.form.name} as often as the others of its warpgroup: all four "
            "warps must",
            instr,
            Verdict.error,
            Who(row=row, warp=warp),
        )
    for base, columns in cohort.tensor.allocated.items():
        cohort.findings.report(
            "tensor-memory-leak",
            f"{columns} columns of tensor memory at column {base} were not freed before exit",
            None,
            Verdict.error,
            Who(row=int((cohort.tensor.owner == base).any(axis=1).argmax())),
        )
