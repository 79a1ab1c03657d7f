"""Which test runs each instruction form: read from the texts of a checkout's ``tests`` folder.

A test *uses* a form if an instruction's name in its text fits one of the form's rows. Where the text is a template
(``bfi.b{n}``), what stands outside the braces must be modifiers of the row or begin some, and the literals that are
missing must be no more than the braces. That is quick and a little generous.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from convc.ptx.grammar import match_head
from convc.ptx.tables import Row, choices, opcodes, rows_of

ONLY_READ = ("unit/ptx/", "ptx_cases/", "support/", "unit/machine/test_form_table.py")
"""Texts that are parsed but not run, by the start of their path."""

FIRST_CHOICE = "unit/machine/test_"
"""Tests of single instructions, by the start of their path."""

SPELLED_IN_PIECES = {
    "float.fma.mixed": "unit/machine/test_forms_float.py",
    "int.sub.cc": "unit/machine/test_forms_integer.py",
    "int.subc": "unit/machine/test_forms_integer.py",
}
"""Forms that a test runs although no single text has their name: the opcode or the type comes from elsewhere."""


def opening(row: Row) -> list[str]:
    """The opcode and the literals that begin a row."""
    return [row.form.opcode, *(value for item in row.items[: row.fixed] for value in item.values)]


def heads_in(text: str) -> set[str]:
    """Names of instructions in a text, ``add.u32`` or a template like ``add.{type}``."""
    opcode = "|".join(sorted(opcodes(), key=len, reverse=True))
    dotted = rf"(?<![\w.%$])((?:{opcode})(?:\.[\w:]+|\.?\{{[^{{}}\n]*\}}[\w:]*)+)"
    bare = rf"(?<![\w.%$])({opcode})(?= [^;\n]*;|;)"
    return {head for found in re.findall(f"{dotted}|{bare}", text) for head in found if head}


@cache
def forms_of(head: str) -> frozenset[str]:
    """The forms that an instruction's name, or a template of names, may be."""
    if "{" not in head:
        return frozenset(match.form.name for match in match_head(head))
    opcode, *parts = re.split(r"\.|(?=\{)", re.sub(r"\{[^{}]*\}", "{}", head))
    plain = {part for part in parts if part and "{" not in part}
    found = set()
    for row in rows_of(opcode):
        values = {part for choice in choices(row.items) for parts in choice.values.values() for part in parts}
        missing = set(opening(row)[1:]) - plain
        begins = all(any(value.startswith(part) for value in values) for part in plain)
        if begins and len(missing) <= head.count("{"):
            found.add(row.form.name)
    return frozenset(found)


def uses(tests: Path) -> dict[str, dict[str, set[str]]]:
    """For every form, the files that use it (their paths inside ``tests``) and its names there."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in sorted([*tests.rglob("*.py"), *tests.rglob("*.ptx")]):
        name = path.relative_to(tests).as_posix()
        if name.startswith(ONLY_READ):
            continue
        for head in heads_in(path.read_text(encoding="utf-8")):
            for form in forms_of(head):
                found[form][name].add(head)
    return found


def cases(tests: Path) -> dict[str, list[str]]:
    """For every form, the files that run it: tests of single instructions first, then those with most spellings."""
    found = {form: [file] for form, file in SPELLED_IN_PIECES.items()}
    for form, files in uses(tests).items():
        found[form] = sorted(files, key=lambda name: (not name.startswith(FIRST_CHOICE), -len(files[name]), name))
    return found
