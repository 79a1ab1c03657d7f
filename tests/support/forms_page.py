"""forms.md: every instruction form that the reader knows, whether the simulator runs it, on what evidence, and its
test.

Made from the tables themselves, so that it cannot say anything else than they do: the rows of `convc/ptx/forms`, the
builders registered under `convc/machine/isa`, the reasons in `convc.machine.isa.registry`, and the texts of the tests.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from support.form_cases import cases

import convc.machine.execute.decode  # noqa: F401 - registers every builder
from convc.machine.execute.inline import REWRITTEN
from convc.machine.isa.registry import OPS, REFUSED
from convc.ptx.grammar import forms

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "convc" / "docs" / "forms.md"

EVIDENCE = {
    "recorded": (
        "barrier.cluster.*", "cp.async", "cp.async.*_group", "cp.async.wait_all", "cp.async.mbarrier.arrive",
        "cp.async.bulk.load", "cp.async.bulk.peer", "cp.async.bulk.store", "cp.async.bulk.tensor.*",
        "cp.reduce.async.bulk.*", "mapa", "tensormap.*", "wgmma.*", "wmma.*",
    ),
    "ours": ("clusterlaunchcontrol.*",),
    "tested elsewhere": ("tcgen05.cp", "tcgen05.ld", "tcgen05.mma", "tcgen05.mma.*", "tcgen05.st"),
}  # fmt: skip
"""Classes of evidence, and the forms (patterns of their names) whose main effect rests on them; others: the manual."""

HEAD = """\
# The PTX forms and the simulator

Every form of `convc/ptx/forms/*.txt`, where the PTX manual (PTX ISA 9.0) describes it, and whether the simulator runs
it. A kernel with a refused form is read, printed and checked, but nothing of it is run.

The class is that of the strongest evidence for what the form does in the main, as in [fidelity.md](fidelity.md), which
has the single rules, and those that are assumed. The case is a test that runs the form, inside `tests/` (for a recorded
form the recording); every form has a spelling in `ptx_cases/syntax/accepted.txt` too, which `ptxas` judges.

Generated: `pytest --update-golden tests/unit/machine/test_form_table.py` writes this file, without the flag it
compares.

"""


def status(name: str) -> str:
    """What the simulator does with a form, in the words of the page."""
    if name in REFUSED:
        return f"refused: {REFUSED[name]}"
    if name in REWRITTEN:
        return f"modelled: {REWRITTEN[name]}"
    return "modelled" if name in OPS else "refused: no builder"


def evidence(name: str) -> str:
    """The class of evidence of a form."""
    if status(name).startswith("refused"):
        return "refused"
    matching = (kind for kind, names in EVIDENCE.items() if any(fnmatchcase(name, pattern) for pattern in names))
    return next(matching, "documented")


def sections() -> dict[str, list[str]]:
    """The manual's sections of every form, in the order of the rows."""
    found: dict[str, list[str]] = {}
    for form in forms():
        where = found.setdefault(form.name, [])
        where += [section for section in _sections(form.section) if section not in where]
    return found


def _sections(text: str) -> list[str]:
    """``9.7.3.3 Floating Point: add, and 9.7.4.1 …`` -> the numbers, in their order."""
    return re.findall(r"\b9\.7\.\d+(?:\.\d+)*", text)


def _case(name: str, tests: dict[str, list[str]]) -> str:
    """The test to show for a form."""
    kind = evidence(name)
    recorded = [file for file in tests.get(name, ()) if file.startswith("recordings/")]
    return "" if kind == "refused" else (recorded if recorded and kind == "recorded" else tests[name])[0]


def page() -> str:
    """The text of forms.md."""
    found, tests = sections(), cases(TESTS)
    refused = sum(status(name).startswith("refused") for name in found)
    lines = [f"{len(found)} forms: {len(found) - refused} modelled, {refused} refused.", ""]
    lines += ["| form | PTX manual | class | machine | case |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{name}` | {', '.join(where)} | {evidence(name)} | {status(name)} | {_case(name, tests)} |"
        for name, where in sorted(found.items())
    ]
    return HEAD + "\n".join(lines) + "\n"
