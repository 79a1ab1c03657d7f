"""FORMS.md: every instruction form that the reader knows, and whether the machine runs it.

Made from the tables themselves, so that it cannot say anything else than they do: the rows of `convc/ptx/forms`, the
builders registered under `convc/machine/ops`, and the reasons in `convc.machine.ops.registry`.

    python -m convc.machine.forms_page      # write FORMS.md again
"""

from __future__ import annotations

import re
from pathlib import Path

import convc.machine.program  # noqa: F401 - registers every builder
from convc.machine.inline import REWRITTEN
from convc.machine.ops.registry import LIMITED, OPS, REFUSED
from convc.ptx.grammar import forms

PAGE = Path(__file__).with_name("FORMS.md")

HEAD = """\
# The PTX forms and the machine

Every form of `convc/ptx/forms/*.txt`, where the PTX manual (PTX ISA 9.0) describes it, and whether the machine runs it.
A kernel with a refused form is read, printed and checked, but nothing of it is run. How sure we are of what the machine
does is the subject of [FIDELITY.md](FIDELITY.md).

Generated: `python -m convc.machine.forms_page` writes this file, `tests/unit/machine/test_form_table.py` compares it.

"""


def status(name: str) -> str:
    """What the machine does with a form, in the words of the page."""
    if name in REFUSED:
        return f"refused: {REFUSED[name]}"
    if name in REWRITTEN:
        return f"modelled: {REWRITTEN[name]}"
    if name in LIMITED:
        return f"modelled: {LIMITED[name]}"
    return "modelled" if name in OPS else "refused: no builder"


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


def page() -> str:
    """The text of FORMS.md."""
    found = sections()
    refused = sum(status(name).startswith("refused") for name in found)
    lines = [f"{len(found)} forms: {len(found) - refused} modelled, {refused} refused.", ""]
    lines += ["| form | PTX manual | machine |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {', '.join(where)} | {status(name)} |" for name, where in sorted(found.items())]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="ascii")
