"""Waits for an mbarrier whose answer nobody looks at.

``mbarrier.test_wait`` and ``.try_wait`` may return before the phase is over, and say so in a predicate (PTX manual,
"mbarrier.test_wait, mbarrier.try_wait"). Those of the simulator return when it is, so that no run shows a missing loop:
this is read off the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from convc.ir.findings import Finding, Verdict
from convc.machine.state.program import Program

WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")


def unheard(program: Program, file: str) -> Iterator[Finding]:
    """A finding for each wait whose predicate no instruction reads."""
    facts = program.flow.facts
    read = 0
    for fact in facts:
        read |= fact.reads
    for instr in program.kernel.body:
        if instr.form.name.startswith(WAITS) and not facts[instr.index].writes & read:
            message = (
                "no instruction reads whether the phase was over: the wait may return before it is, "
                "repeat it until its predicate is true"
            )
            at = instr.span.line
            blocks = instr.form.name.startswith("mbarrier.try_wait")  # a test without an answer orders nothing
            yield Finding(
                verdict=Verdict.error if blocks else Verdict.review,
                rule="wait-answer-unread",
                message=message,
                file=file,
                line=at,
                step=instr.step,
            )
