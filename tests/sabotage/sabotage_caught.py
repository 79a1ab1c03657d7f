"""Whether somebody notices that a kernel was changed: a checker, the simulator, or who compares results."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from sabotage_kernels import subject

from convc.auditor.run import audit_kernel
from convc.errors import ConvcError
from convc.ir.findings import Finding, Verdict
from convc.machine import RunOptions, RunResult, run
from convc.ptx import parse
from convc.sanitizer.run import Checked, check_kernel

ORDERS = range(1, 9)
"""Seeds of the orders in which asynchronous work is performed to see whether an excuse holds."""


@cache
def right(name: str) -> Checked:
    """What the unchanged kernel does. Kernels of other compilers may need a review."""
    kernel = subject(name)
    checked = check_kernel(kernel.text, kernel.launch, kernel.inputs)
    errors = {finding.rule for finding in checked.findings if finding.verdict > Verdict.review}
    assert errors <= set(kernel.alarms)
    assert checked.verdict is Verdict.clean or not kernel.ours
    return checked


def caught(name: str, text: str) -> bool:
    """Whether anything is noticed: an error, a finding, or another result."""
    kernel, before = subject(name), right(name)
    try:
        result = run(text, kernel.launch, kernel.inputs)
        if worse(result.findings, before) or differs(result, before):
            return True
        return worse(check_kernel(text, kernel.launch, kernel.inputs).findings, before)
    except ConvcError:
        return True


def upheld(name: str, text: str) -> bool:
    """Whether two who are not asked otherwise see no harm either in a change that went unnoticed.

    The auditor, which reads the text by the manual and shares no code with the checkers, accuses it of nothing else
    than the kernel; and asynchronous work performed in more orders leaves every byte as it was.
    """
    kernel, before = subject(name), right(name)
    if accusations(name, text) - accusations(name, kernel.text):
        return False
    orders = (RunOptions(policy="seeded", seed=seed) for seed in ORDERS)
    return not any(differs(run(text, kernel.launch, kernel.inputs, options=each), before) for each in orders)


def accusations(name: str, text: str) -> set[tuple[str, int]]:
    """Rules and lines that the auditor accuses."""
    return {(each.rule, each.line) for each in audit_kernel(text, subject(name).launch).findings}


def worse(findings: tuple[Finding, ...], before: Checked) -> bool:
    """Whether there is a finding that the unchanged kernel does not have. Lines keep their numbers."""
    known = {(finding.rule, finding.line, finding.verdict) for finding in before.findings}
    return any((f.rule, f.line, f.verdict) not in known for f in findings if f.verdict >= Verdict.review)


def differs(result: RunResult, before: Checked) -> bool:
    """Whether any byte of any buffer is another."""
    return any(
        not np.array_equal(array.view(np.uint8), before.result.buffers[name].view(np.uint8))
        for name, array in result.buffers.items()
    )


def inside(step: str) -> str:
    """The pattern of a step from its beginning to where the next pattern is found in it: one group."""
    return rf"(//@ step={step} (?s:(?!//@ step=).)*?)"


def with_mistake(name: str, pattern: str, wrong: str) -> str:
    """The text of a kernel with a mistake wherever a pattern is found; it must still be a kernel."""
    text, count = re.subn(pattern, wrong, subject(name).text)
    assert count, f"{name} has no {pattern}"
    assert text != subject(name).text
    parse(text)
    return text
