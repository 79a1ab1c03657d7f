"""Findings of a launch: where the simulator says what it noticed.

Every package that notices something is handed a `FindingSink`, so that none has to know the cohort that owns it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convc.errors import DeadlockError, EndlessError, MachineError
from convc.ir.findings import Finding, Verdict
from convc.ptx import Instr


def failure(error: MachineError, file: str, when: str = "") -> Finding:
    """The end of a launch that failed, as a finding; ``file``: the text's name, ``when``: said behind the message."""
    rule = "hang" if isinstance(error, DeadlockError) else "fault"
    verdict = Verdict.error
    if isinstance(error, EndlessError):
        rule = "instruction-limit"
        verdict = Verdict.incomplete
    where = f" [{error.where}]" if error.where and error.warp is None else ""
    return Finding(
        verdict=verdict,
        rule=rule,
        message=error.message + where + when,
        file=error.span.file if error.span else file,
        line=error.span.line if error.span else 0,
        step=error.step,
        cta=error.cta,
        warp=error.warp,
        lanes=error.lanes,
    )


Found = dict[tuple[str, int | None], Finding]
"""Findings by rule and index of the instruction (None: the launch as a whole)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Who did it, as far as that is known.

    Attributes:
        row: the CTA, as its row in the cohort.
        warp: number of the warp in the CTA. lanes: of that warp.
    """

    row: int
    warp: int | None = None
    lanes: tuple[int, ...] = ()


class FindingSink:
    """Takes the findings of one cohort.

    Args:
        found: the findings of the launch so far, which this sink adds to.
        file: name of the kernel's text, for findings about no instruction.
        numbers: int (ctas,): linear number in the grid of the CTA in each row of the cohort.
    """

    def __init__(self, found: Found, file: str, numbers: np.ndarray) -> None:
        self._found = found
        self._file = file
        self._numbers = numbers

    def report(
        self,
        rule: str,
        message: str,
        instr: Instr | None,
        verdict: Verdict = Verdict.error,
        who: Who | None = None,
    ) -> None:
        """Record a finding, once per rule and instruction: the first one stands for all that follow."""
        key = (rule, None if instr is None else instr.index)
        if key in self._found:
            return
        self._found[key] = Finding(
            verdict=verdict,
            rule=rule,
            message=message,
            file=self._file if instr is None else instr.span.file,
            line=0 if instr is None else instr.span.line,
            step=None if instr is None else instr.step,
            cta=None if who is None else int(self._numbers[who.row]),
            warp=None if who is None else who.warp,
            lanes=() if who is None else who.lanes,
        )
