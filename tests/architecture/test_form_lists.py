"""Properties of PTX forms are traits, declared where the builder of a form is (`convc/machine/isa/registry.py`).

A list of names elsewhere goes wrong silently: a new form is missing from it, and a prefix takes in forms that were not
meant ("mov" begins movmatrix, and "set" setmaxnreg). So there are none, but for those below.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from convc.ptx.tables import opcodes, rows_of
from convc.timing import costs
from tests.architecture.parsed import nodes_of

PACKAGE = Path(__file__).resolve().parents[2] / "convc"

FORMS = {row.name for opcode in opcodes() for row in rows_of(opcode)}
FAMILIES = {name[:end] for name in FORMS for end, letter in enumerate(name) if letter == "."}
WORDS = FORMS | FAMILIES | {f"{family}." for family in FAMILIES}

OTHERWISE = {"ld", "st", "atom", "mma", "cp", "shift", "tcgen05", "wgmma", "float", "int", "set", "mean", "discard"}
"""Words that mean something else, too: kinds of accesses and works, generations of tensor cores, types of arrays."""

OWN = ("machine/isa", "auditor")
"""Packages that may list forms: where they are defined, and the auditor, which shares no table with the simulator."""

ALLOWED = {
    "atoms/matrix.py": (1, "the instructions whose fragments this reads"),
    "machine/execute/inline.py": (1, "calls, which are rewritten before decoding: these forms have no builder"),
    "machine/execute/stack.py": (1, "the stack of calls, which is rewritten before decoding: these have no builder"),
    "sanitizer/causes.py": (1, "kinds of accesses, as reports name them"),
    "sanitizer/halves.py": (1, "the two shifts, which move elements in opposite directions"),
    "sanitizer/racecheck.py": (1, "kinds of accesses, as reports name them"),
    "timing/costs.py": (4, "the table of costs: parameters of a chip, of which isa knows nothing"),
    "timing/forms.py": (1, "divisions, which ptxas writes in another way where the divisor is a constant"),
}
"""How many lists or prefixes of form names a file has, and why they are no traits. Where there are fewer, lower it."""


def is_list(node: ast.AST) -> bool:
    """A display of names, most of them of forms; or a test for the beginning of a name."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
        of_form = ast.unparse(node.func.value).endswith(("form.name", "item.name"))
        texts = set[str]().union(*map(texts_of, node.args))
        return bool(texts if of_form else texts & WORDS - OTHERWISE)
    if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
        texts = texts_of(node)
        forms = texts & WORDS
        return len(forms) >= 2 and 2 * len(forms) >= len(texts) and not forms <= OTHERWISE
    return False


def texts_of(node: ast.AST) -> set[str]:
    match node:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.Dict(keys=parts):
            return {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        case _:
            return set()


def lists_of(path: Path) -> Iterator[int]:
    for node in nodes_of(path):
        if is_list(node):
            yield node.lineno


def test_forms_are_listed_nowhere_but_where_they_are_defined() -> None:
    found: dict[str, list[int]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(OWN) and (lines := sorted(set(lists_of(path)))):
            found[name] = lines
    allowed = {name: count for name, (count, _) in ALLOWED.items()}
    wrong = {name: lines for name, lines in found.items() if len(lines) > allowed.get(name, 0)}
    assert not wrong, f"make these a trait of the form: {wrong}"
    assert Counter({name: len(lines) for name, lines in found.items()}) == Counter(allowed), "lower the numbers above"


def test_what_counts_as_a_list_of_forms() -> None:
    def first(text: str) -> ast.AST:
        return ast.parse(text, mode="eval").body

    for text in (
        '("mov", "selp")', '{"bar.": 1, "barrier.": 2}', 'name.startswith("mbarrier.try_wait")',
        'name.startswith(("mov", "x"))', '["tcgen05.ld", "other", "tcgen05.st"]',
    ):  # fmt: skip
        assert is_list(first(text)), text
    for text in ('("mov",)', '("mean", "mov", "median")', 'name.startswith("x")', '{"a": "mov", "b": "selp"}'):
        assert not is_list(first(text)), text


def test_the_rows_of_the_table_of_costs_are_forms_or_families_of_them() -> None:
    rows = {*costs.FREE, *costs.HOLDS, *costs.ELSEWHERE, *costs.RESULTS}
    assert {row.removesuffix(".constant") for row in rows} <= FORMS | FAMILIES
    assert {name for name in costs.HOLDS if name.startswith("float.")} <= set(costs.ELSEWHERE), "one pipe performs them"
