"""The page about dtypes is true: its block runs, and the files that name e5m2 are those that it lists."""

from __future__ import annotations

import ast
import re

from pages import DOCS, module_of, text_of

from convc.cli.choice import DTYPES
from convc.ir import dtypes
from convc.ir.element_types import ELEMENT_TYPES

MOST_OF_THE_COMPILER = 5
JUDGES = ("convc/machine/", "convc/auditor/", "convc/atoms/")


def listed() -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", text_of("add_a_dtype.md"), re.MULTILINE))


def naming(name: str) -> set[str]:
    """Files whose code has the name of a type, docstrings left aside."""
    found = set()
    for path in DOCS.parent.rglob("*.py"):
        text = path.read_text("utf-8")
        if name in text and any(
            isinstance(node, ast.Constant) and node.value == name for node in ast.walk(ast.parse(text))
        ):
            found.add(path.relative_to(DOCS.parents[1]).as_posix())
    return found


def test_the_block_of_the_page_runs(tmp_path):
    assert module_of("add_a_dtype.md", tmp_path).row is dtypes.E5M2


def test_few_files_name_a_type():
    assert naming("e5m2") == listed()
    assert len([file for file in listed() if not file.startswith(JUDGES)]) <= MOST_OF_THE_COMPILER


def test_names_are_read_off_the_table():
    assert (*dtypes.BY_NAME.values(),) == dtypes.DTYPES
    for dtype in dtypes.DTYPES:
        assert (dtype.name in dtypes.OPERANDS) == bool(dtype.kind)
        assert (dtype.name in dtypes.OUTPUTS) == dtype.result
        if not dtype.scaled and not dtype.parts:
            assert dtype.bits == ELEMENT_TYPES[dtype.name].bits


def test_the_command_line_has_the_operands_that_are_no_parts():
    assert set(DTYPES) == set(dtypes.FLOAT_OPERANDS) - set(dtypes.SPLIT_OPERANDS)
