"""Every form of the table is run, rewritten or refused with a reason; the page, the cases and the tests say the same.

What counts as a neighbour or as a use is decided by spelling, which is quick and a little generous:

* a rejected spelling is a *neighbour* of a form if it begins with the opcode and the literals that begin one of the
  form's rows and stand in its name (``mbarrier.inval`` of ``mbarrier.inval{.space}.b64 [addr]``);
* a test *uses* a form if an instruction's name in its text fits one of the form's rows. Where the text is a template
  (``bfi.b{n}``), what stands outside the braces must be modifiers of the row or begin some, and the literals that are
  missing must be no more than the braces.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from support.ptxas import DECLARATIONS, END

from convc.errors import UnmodelledError
from convc.machine.forms_page import PAGE, page, sections, status
from convc.machine.inline import REWRITTEN
from convc.machine.ops.registry import LIMITED, NO_RESULT, OPS, REFUSED
from convc.machine.program import decode
from convc.ptx import parse
from convc.ptx.grammar import forms, match_head
from convc.ptx.tables import Row, choices, opcodes, rows_of

TESTS = Path(__file__).parents[2]
CASES = TESTS / "ptx_cases" / "syntax"
ONLY_READ = (TESTS / "unit" / "ptx", TESTS / "ptx_cases")
"""Folders whose texts are parsed but not run."""

NAMES = {form.name for form in forms()}
INTERNAL = {"dropped.printf"}
"""Forms that no text has: the machine puts them where a call of vprintf was."""

MODELLED = (NAMES & set(OPS) | set(REWRITTEN)) - set(REFUSED)

SPELLED_IN_PIECES = {
    "float.sub.mixed": "test_forms_float.test_mixed_precision: the opcode is a parameter",
    "float.fma.mixed": "test_forms_float.test_mixed_precision: the opcode is a parameter",
    "int.sub.cc": "test_forms_integer: chain('sub.cc', ...) adds the type",
    "int.subc": "test_forms_integer: chain(..., 'subc') adds the type",
    "cp.reduce.async.bulk.peer": "recordings/thread_programs.py: a string of two lines",
}
"""Forms that a test runs although no single text has their name, and where."""

NO_CASE_OF_ITS_OWN = {"call"}
"""Forms that accepted.txt cannot have, because a call needs a function beside the kernel: unit/ptx/test_parser.py."""


def statements(name: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in (CASES / name).read_text(encoding="ascii").splitlines())
    return [line for line in lines if line]


def test_the_page_is_what_the_tables_say():
    assert PAGE.read_text(encoding="ascii") == page(), "write it again: python -m convc.machine.forms_page"
    assert all(where for where in sections().values())


def test_every_form_has_a_builder_or_a_reason():
    without = NAMES - set(OPS) - set(REFUSED) - set(REWRITTEN)
    assert not without, f"give each a builder under convc/machine/ops, or a reason in REFUSED: {sorted(without)}"
    assert not set(REWRITTEN) & (set(OPS) | set(REFUSED))
    assert set(LIMITED) <= MODELLED
    assert all(REFUSED.values())
    assert all(LIMITED.values())


def test_no_table_names_a_form_that_does_not_exist():
    for table in (OPS, REFUSED, LIMITED, REWRITTEN, NO_RESULT):
        assert set(table) - INTERNAL <= NAMES


@cache
def accepted() -> dict[str, list[bool]]:
    """For every form, whether the machine decodes each of its accepted spellings."""
    found: dict[str, list[bool]] = {}
    for statement in statements("accepted.txt"):
        module = parse(f"{DECLARATIONS}{statement}\n{END}")
        (kernel,) = module.kernels
        try:
            decode(module, kernel)
        except UnmodelledError:
            decodes = False
        else:
            decodes = True
        for instr in kernel.body[:-1]:
            found.setdefault(instr.form.name, []).append(decodes)
    return found


def test_every_form_has_an_accepted_spelling():
    assert NAMES - set(accepted()) == NO_CASE_OF_ITS_OWN


@pytest.mark.parametrize("name", sorted(NAMES - NO_CASE_OF_ITS_OWN))
def test_the_machine_takes_what_the_page_says(name):
    taken = accepted()[name]
    if name in REFUSED:
        assert not any(taken), "it decodes: it is not refused"
    elif name in LIMITED:
        assert any(taken), "nothing decodes: it is refused"
        assert not all(taken), "everything decodes: it is not limited, or accepted.txt lacks what is refused"
    else:
        assert all(taken), f"the page says {status(name)!r}, but a spelling in accepted.txt is refused"


def opening(row: Row) -> list[str]:
    """The opcode and the literals that begin a row."""
    return [row.form.opcode, *(value for item in row.items[: row.fixed] for value in item.values)]


def beginning(row: Row) -> list[str]:
    """The opening of a row up to the last word that the form's name has too."""
    words, named = opening(row), row.form.name.split(".")
    return words[: max(at for at, word in enumerate(words) if at == 0 or word in named) + 1]


def test_every_form_has_a_rejected_neighbour():
    heads = [re.sub(r"^@!?%\w+\s+", "", text).split()[0].rstrip(";").split(".") for text in statements("rejected.txt")]
    rows = [row for opcode in opcodes() for row in rows_of(opcode)]
    near = {row.form.name for row in rows for head in heads if head[: len(beginning(row))] == beginning(row)}
    assert near == NAMES


def heads_in(text: str) -> set[str]:
    """Names of instructions in a text, ``add.u32`` or a template like ``add.{type}``."""
    opcode = "|".join(sorted(opcodes(), key=len, reverse=True))
    dotted = rf"(?<![\w.%$])((?:{opcode})(?:\.[\w:]+|\.?\{{[^{{}}\n]*\}}[\w:]*)+)"
    bare = rf"(?<![\w.%$])({opcode})(?= [^;\n]*;|;)"
    return {head for found in re.findall(f"{dotted}|{bare}", text) for head in found if head}


def forms_of(head: str) -> set[str]:
    """The forms that an instruction's name, or a template of names, may be."""
    if "{" not in head:
        return {match.form.name for match in match_head(head)}
    opcode, *parts = re.split(r"\.|(?=\{)", re.sub(r"\{[^{}]*\}", "{}", head))
    plain = {part for part in parts if part and "{" not in part}
    found = set()
    for row in rows_of(opcode):
        values = {part for choice in choices(row.items) for parts in choice.values.values() for part in parts}
        missing = set(opening(row)[1:]) - plain
        begins = all(any(value.startswith(part) for value in values) for part in plain)
        if begins and len(missing) <= head.count("{"):
            found.add(row.form.name)
    return found


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("bfi.b{n}", {"int.bfi"}),
        ("mbarrier.inval.shared::cta.b64", {"mbarrier.inval"}),
        ("shf.{d}.{m}.b32", {"logic.shf"}),
        ("dp2a.{h}.{x}32.{y}32", {"int.dp2a"}),
        ("bfi.q{n}", set()),
        ("trap", {"trap"}),
    ],
)
def test_reading_of_templates(head, expected):
    assert forms_of(head) == expected


def test_every_modelled_form_is_used_by_a_test():
    paths = [path for end in ("py", "ptx") for path in sorted(TESTS.rglob(f"*.{end}"))]
    run = [path for path in paths if not any(path.is_relative_to(folder) for folder in ONLY_READ)]
    heads = {head for path in run if path != Path(__file__) for head in heads_in(path.read_text(encoding="utf-8"))}
    used = {name for head in heads for name in forms_of(head)}
    assert len(heads) > 400
    unused = MODELLED - used - set(SPELLED_IN_PIECES)
    assert not unused, f"no test has a text with {sorted(unused)}"
    assert not used & set(SPELLED_IN_PIECES), "these have a text of their own now"
