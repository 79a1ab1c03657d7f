"""The run loop: strands take turns until all CTAs of a cohort have exited, or nothing can go on."""

from __future__ import annotations

import numpy as np

from convc.errors import ConvcError, DeadlockError, MachineError
from convc.ir.findings import Verdict
from convc.machine.base.values import Value
from convc.machine.execute.decode import Program, Run, registers_of
from convc.machine.isa.threads import first_active_warp
from convc.machine.state.cohort import Cohort, Launch
from convc.machine.state.observer import Observer
from convc.machine.state.pending_registers import finish
from convc.machine.state.strand import DONE, Strand

TURN = 1 << 16
"""Instructions after which a strand lets others run at its next backward jump, and is watched for spinning."""


def run_cohort(launch: Launch, program: Program, first: int, ctas: int) -> None:
    """Run ``ctas`` CTAs from linear number ``first`` to their end."""
    cohort = Cohort(launch, first, ctas, program.shared_bytes(launch.dynamic_shared))
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    warps = np.arange(-(-threads // 32))
    strand = Strand(cohort, program, None, warps, program.registers(cohort, warps))
    if threads % 32:
        lanes = (warps[:, None] * 32 + np.arange(32)[None, :])[None] < threads
        strand.set_mask(lanes)
    cohort.strands.append(strand)
    observer, ops = launch.observer, program.ops if cohort.pending.eager else _dependent(program)
    if observer is not None:
        ops = [_observed(program, pc, ops, observer) for pc in range(len(program.ops))]
        observer.begin(cohort)
    while cohort.strands:
        turn = list(cohort.strands)
        cohort.pending.between_turns()
        moved = [_run(current, ops) for current in turn]
        moved.append(len(cohort.strands) > len(turn))  # a split is progress: the new strand has not run yet
        cohort.strands = [s for s in cohort.strands if not s.done]
        if not any(moved) and cohort.strands and not cohort.pending.perform_one():
            raise _deadlock(cohort)
    while cohort.pending.perform_one():
        pass
    cohort.core.perform(cohort.core.take())
    _leftovers(cohort)
    if observer is not None:
        observer.end(cohort)
    launch.counters.ctas += ctas
    launch.pool.keep(cohort.shared.bytes)
    launch.pool.keep(cohort.tensor.cells)


def _observed(program: Program, pc: int, ops: list[Run], observer: Observer) -> Run:
    """Operation ``pc``, announced to an observer."""
    if pc == len(program.kernel.body):
        return ops[pc]
    instr = program.kernel.body[pc]

    def run(strand: Strand) -> int | None:
        observer.step(strand, instr)
        return ops[pc](strand)

    return run


def _dependent(program: Program) -> list[Run]:
    """The operations, each after the tcgen05.ld under way that fill a register which it names."""
    body = program.kernel.body
    names = [
        {r.slot for operand in instr.operands for r in registers_of(operand)}
        | (set() if instr.guard is None else {instr.guard.slot})
        for instr in body
    ]
    filled = set().union(*(names[pc] for pc, instr in enumerate(body) if instr.form.name == "tcgen05.ld"))
    if not filled:
        return program.ops
    return [_filled(program, pc, frozenset(filled & named)) for pc, named in enumerate([*names, set()])]


def _filled(program: Program, pc: int, names: frozenset[int]) -> Run:
    """Operation ``pc``, after the loads under way that fill a register of ``names``."""

    def run(strand: Strand) -> int | None:
        if names and strand.loads:
            strand.loads = finish(strand, strand.loads, names)
        return program.ops[pc](strand)

    return run


def _run(strand: Strand, ops: list[Run]) -> bool:
    """Run a strand until it blocks, exits, or has had its turn; True when it got anywhere."""
    pc = strand.pc
    executed, watch = 0, None
    moved = True
    try:
        while True:
            result = ops[pc](strand)
            if result is None:
                pc += 1
            elif result >= 0:
                if executed > TURN and result <= pc:
                    if watch is None:
                        watch = (result, strand.regs.copy())
                    elif watch[0] == result:
                        moved = not _same(watch[1], strand.regs)
                        pc = result
                        break
                    elif executed > 2 * TURN:
                        pc = result
                        break
                pc = result
            else:
                moved = executed > 0 or result == DONE
                break
            executed += 1
    except ConvcError as error:
        if error.span is None and pc < len(strand.program.kernel.body):
            error.span = strand.program.kernel.body[pc].span
        error.where = error.where or _who(strand)
        if isinstance(error, MachineError):
            _site(error, strand, pc)
            if strand.row_count > 1:  # any of them may be the one
                error.cta = error.warp = None
                error.lanes = ()
            elif len(strand.warps) > 1:
                error.warp, error.lanes = None, ()
        raise
    strand.pc = pc
    if not moved and executed:
        strand.waiting = "something to change: it spins in a loop that changes nothing"
    strand.cohort.core.seal()
    strand.cohort.counters.instructions += executed * len(strand.warps) * strand.row_count
    return moved


def _site(error: MachineError, strand: Strand, pc: int) -> None:
    """Note the step, and a warp of the strand."""
    who = first_active_warp(strand)
    error.cta, error.warp, error.lanes = strand.cohort.number(who["row"]), who["warp"], who["lanes"]
    body = strand.program.kernel.body
    error.step = body[pc].step if pc < len(body) else None


def _same(before: list[Value], after: list[Value]) -> bool:
    """Whether a trip round a loop left every register as it was."""
    return all(
        a is b or (np.array_equal(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a == b)
        for a, b in zip(before, after, strict=True)
    )


def _who(strand: Strand) -> str:
    rows = range(strand.cohort.ctas) if strand.rows is None else strand.rows
    first, last = strand.cohort.number(rows[0]), strand.cohort.number(rows[-1])
    ctas = f"CTA {first}" if strand.row_count == 1 else f"CTAs {first}..{last}"
    warps = ", ".join(str(int(w)) for w in strand.warps)
    return f"{ctas}, warp{'s' if len(strand.warps) > 1 else ''} {warps}"


def _deadlock(cohort: Cohort) -> DeadlockError:
    """Describe where every strand stands and the state of every barrier."""
    lines = []
    body = cohort.strands[0].program.kernel.body
    for strand in cohort.strands:
        instr = body[strand.pc]
        step = f" (step {instr.step})" if instr.step else ""
        lines.append(f"{_who(strand)}: {instr.span.file}:{instr.span.line}{step}: waits for {strand.waiting}")
    row = 0 if cohort.strands[0].rows is None else int(cohort.strands[0].rows[0])
    for address, barrier in sorted(cohort.barriers.items()):
        lines.append(f"mbarrier {address:#x} in CTA {cohort.number(row)}: {barrier.describe(row)}")
    first = cohort.strands[0]
    error = DeadlockError(
        "the kernel hangs: no warp can go on\n    " + "\n    ".join(lines),
        span=body[first.pc].span,
        hint="compare what each waits for with the arrivals and bytes that the other roles give",
    )
    _site(error, first, first.pc)
    return error


def _leftovers(cohort: Cohort) -> None:
    """What a kernel must have put back before it exits."""
    cohort.bulk_groups.report_leftovers(cohort)
    for base, columns in cohort.tensor.allocated.items():
        cohort.report(
            "tensor-memory-leak",
            f"{columns} columns of tensor memory at column {base} were not freed before exit",
            None,
            Verdict.error,
            row=int((cohort.tensor.owner == base).any(axis=1).argmax()),
        )
