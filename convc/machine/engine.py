"""The run loop: strands take turns until all CTAs of a cohort have exited, or nothing can go on."""

from __future__ import annotations

import numpy as np

from convc.errors import ConvcError, DeadlockError, MachineFault
from convc.findings import Verdict
from convc.machine.cohort import Cohort, Launch
from convc.machine.program import Program
from convc.machine.strand import DONE, Strand

MAX_INSTRUCTIONS = 2_000_000_000
"""PTX instructions one strand may execute before the machine calls it an endless loop."""


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
    while cohort.strands:
        moved = False
        for current in list(cohort.strands):
            moved |= _run(current)
        cohort.strands = [s for s in cohort.strands if not s.done]
        if not moved and cohort.strands:
            raise _deadlock(cohort)
    cohort.core.seal()
    _leftovers(cohort)
    launch.stats.ctas += ctas


def _run(strand: Strand) -> bool:
    """Run a strand until it blocks or exits; True when it executed anything."""
    ops = strand.program.ops
    pc = strand.pc
    executed = 0
    try:
        while True:
            result = ops[pc](strand)
            if result is None:
                pc += 1
            elif result >= 0:
                pc = result
            else:
                break
            executed += 1
            if executed > MAX_INSTRUCTIONS:
                raise MachineFault("the kernel does not end", hint="is there a loop whose exit condition never holds?")
    except ConvcError as error:
        if error.span is None and pc < len(strand.program.kernel.body):
            error.span = strand.program.kernel.body[pc].span
        error.where = error.where or _who(strand)
        raise
    strand.pc = pc
    strand.cohort.core.seal()
    strand.cohort.stats.instructions += executed * len(strand.warps) * strand.row_count
    return executed > 0 or result == DONE


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
    instr = body[cohort.strands[0].pc]
    return DeadlockError(
        "the kernel hangs: no warp can go on\n    " + "\n    ".join(lines),
        span=instr.span,
        hint="compare what each waits for with the arrivals and bytes that the other roles give",
    )


def _leftovers(cohort: Cohort) -> None:
    """What a kernel must have put back before it exits."""
    for base, columns in cohort.tensor.allocated.items():
        cohort.report(
            "tensor-memory-leak",
            f"{columns} columns of tensor memory at column {base} were not freed before exit",
            None,
            Verdict.error,
        )
