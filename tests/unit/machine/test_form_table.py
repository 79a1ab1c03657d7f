"""Every form of the table is run, rewritten or refused with a reason; the page, the cases and the tests say the same.

What counts as a neighbour or as a use is decided by spelling, which is quick and a little generous:

* a rejected spelling is a *neighbour* of a form if it begins with the opcode and the literals that begin one of the
  form's rows and stand in its name (``mbarrier.inval`` of ``mbarrier.inval{.space}.b64 [addr]``);
* what a test uses: `support.form_cases`.
"""

from __future__ import annotations

import fnmatch
import re
from functools import cache
from pathlib import Path

import pytest
from support.form_cases import SPELLED_IN_PIECES, cases, forms_of, opening, uses
from support.forms_page import EVIDENCE, PAGE, evidence, page, sections, status
from support.ptxas import around
from tma_programs import matrix_programs, recordings

from convc.errors import UnmodelledError
from convc.machine.execute.decode import decode
from convc.machine.execute.inline import REWRITTEN
from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import NO_RESULT, OPS, REFUSED, TRAITS, Traits, op
from convc.ptx import parse
from convc.ptx.grammar import forms
from convc.ptx.tables import Row, opcodes, rows_of

TESTS = Path(__file__).parents[2]
CASES = TESTS / "ptx_cases" / "syntax"
NAMES = {form.name for form in forms()}
INTERNAL = {"dropped.printf"}
"""Forms that no text has: the simulator puts them where a call of vprintf was."""

MODELLED = (NAMES & set(OPS) | set(REWRITTEN)) - set(REFUSED)

NO_CASE_OF_ITS_OWN = {"call", "call.indirect"}
"""Forms that accepted.txt cannot have, because a call needs a function beside the kernel: unit/ptx/test_parser.py."""


def statements(name: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in (CASES / name).read_text(encoding="ascii").splitlines())
    return [line for line in lines if line]


def test_the_page_is_what_the_tables_say(request):
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page(), encoding="ascii")
    assert PAGE.read_text(encoding="ascii") == page(), "write it again: pytest --update-golden"
    assert all(where for where in sections().values())


def test_no_form_comes_without_its_traits():
    with pytest.raises(TypeError, match="traits"):
        op("int.new")  # pyright: ignore[reportCallIssue] - what is tested
    assert TRAITS.keys() == OPS.keys()


def test_forms_that_run_early_look_at_no_data_and_touch_registers_alone():
    early = forms_with(Traits.EARLY)
    assert early <= forms_with(Traits.BLIND)
    assert not early & NO_RESULT - {"tcgen05.wait"}
    assert not [name for name in early if name.startswith(("ld", "st", "atom", "red", "cp.", "mbarrier.", "bar"))]
    families = ("int.add", "int.sub", "int.min", "int.max", "int.neg", "int.abs", "logic.and", "logic.shl")
    assert early.issuperset(families)


def test_every_form_has_a_builder_or_a_reason():
    without = NAMES - set(OPS) - set(REFUSED) - set(REWRITTEN)
    assert not without, f"give each a builder under convc/machine/isa, or a reason in REFUSED: {sorted(without)}"
    assert not set(REWRITTEN) & (set(OPS) | set(REFUSED))
    assert all(REFUSED.values())


def test_no_table_names_a_form_that_does_not_exist():
    for table in (OPS, REFUSED, REWRITTEN, NO_RESULT):
        assert set(table) - INTERNAL <= NAMES


@cache
def accepted() -> dict[str, list[bool]]:
    """For every form, whether the simulator decodes each of its accepted spellings."""
    found: dict[str, list[bool]] = {}
    for statement in statements("accepted.txt"):
        module = parse(around(statement))
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
    else:
        assert all(taken), f"the page says {status(name)!r}, but a spelling in accepted.txt is refused"


def beginning(row: Row) -> list[str]:
    """The opening of a row up to the last word that the form's name has too."""
    words, named = opening(row), row.form.name.split(".")
    return words[: max(at for at, word in enumerate(words) if at == 0 or word in named) + 1]


def test_every_form_has_a_rejected_neighbour():
    heads = [re.sub(r"^@!?%\w+\s+", "", text).split()[0].rstrip(";").split(".") for text in statements("rejected.txt")]
    rows = [row for opcode in opcodes() for row in rows_of(opcode)]
    near = {row.form.name for row in rows for head in heads if head[: len(beginning(row))] == beginning(row)}
    assert near == NAMES


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
    used = uses(TESTS)
    assert len({head for files in used.values() for heads in files.values() for head in heads}) > 400
    unused = MODELLED - set(used) - set(SPELLED_IN_PIECES)
    assert not unused, f"no test has a text with {sorted(unused)}"
    assert not set(used) & set(SPELLED_IN_PIECES), "these have a text of their own now"
    assert set(cases(TESTS)) >= MODELLED
    assert all((TESTS / path).is_file() for path in SPELLED_IN_PIECES.values())


def test_evidence_is_of_forms_that_exist():
    patterns = [pattern for names in EVIDENCE.values() for pattern in names]
    assert not [pattern for pattern in patterns if not fnmatch.filter(NAMES, pattern)]
    assert {evidence(name) for name in NAMES} == {"documented", "refused", *EVIDENCE}


def test_what_is_called_recorded_is_in_a_recorded_program():
    texts = {recording.program["text"] for recording in (*recordings(), *recordings("warpgroups_h200.npz"))}
    texts |= {program["text"] for program in matrix_programs() if not program["name"].startswith("align")}
    kernels = [kernel for text in texts for kernel in parse(text).kernels]
    ran = {instr.form.name for kernel in kernels for instr in kernel.body}
    missing = {name for name in NAMES if evidence(name) == "recorded"} - ran
    assert not missing, f"no program of tests/recordings has {sorted(missing)}"
