"""Waits for an mbarrier on whose answer nothing depends: they order nothing (`convc.machine.execute.answers`).

What was meant to be ordered by one is found as a race; the wait itself is for review, as compilers leave some behind.
"""

from __future__ import annotations

from collections.abc import Iterator

from convc.ir.findings import Finding, Verdict
from convc.machine.state.program import Program

MESSAGE = (
    "nothing depends on whether the phase was over: the wait may return before it is, and orders nothing; where it is "
    "meant to, repeat it until its predicate is true"
)


def unheard(program: Program, file: str) -> Iterator[Finding]:
    """A finding for each such wait."""
    for index in sorted(program.unheard):
        instr = program.kernel.body[index]
        yield Finding(
            verdict=Verdict.review,
            rule="wait-answer-unread",
            message=MESSAGE,
            file=file,
            line=instr.span.line,
            step=instr.step,
        )
