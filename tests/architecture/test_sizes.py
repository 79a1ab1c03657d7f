"""Files stay small enough to read, and nothing unfinished or unsafe stays in them."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.parsed import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]
CEILING = 400
SOURCES = sorted((ROOT / "convc").rglob("*.py"))
CODE = sorted(p for top in ("convc", "tests", "benchmarks", "models") for p in (ROOT / top).rglob("*.py"))

UNSAFE_CALLS = {"eval", "exec", "sympify", "parse_expr", "lambdify", "system", "popen"}
UNSAFE_MODULES = {"pickle", "marshal", "shelve"}

UNFINISHED = re.compile(r"TO[D]O|FIX[M]E|XX[X]|HA[C]K|NotImplemented[E]rror")
SKIPPED = re.compile(r"pytest\.(mark\.)?(ski[p]|xfai[l])|importorski[p]")
"""Each with one letter in brackets, so that this file does not find itself."""

MAY_SKIP = {"tests/unit/page/conftest.py"}
"""Its fixture needs a browser, which no Python package brings."""


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_file_passes_the_ceiling():
    long = {ids(path): count for path in SOURCES if (count := len(path.read_text().splitlines())) > CEILING}
    assert not long, f"longer than {CEILING} lines: {long}; is it one room or two?"


@pytest.mark.parametrize("path", CODE, ids=ids)
def test_nothing_is_left_unfinished(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        assert not UNFINISHED.search(line), f"{ids(path)}:{number}: {line.strip()}"
        assert ids(path) in MAY_SKIP or not SKIPPED.search(line), f"{ids(path)}:{number}: {line.strip()}"


@pytest.mark.parametrize("path", SOURCES, ids=ids)
def test_no_text_becomes_code(path):
    for node in nodes_of(path):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            assert name not in UNSAFE_CALLS, f"{ids(path)}:{node.lineno}: {name}()"
            given = {word.arg: word.value for word in node.keywords if isinstance(word.value, ast.Constant)}
            for word in ("allow_pickle", "shell"):
                assert word not in given or given[word].value is False, f"{ids(path)}:{node.lineno}: {word}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not names & UNSAFE_MODULES, f"{ids(path)}:{node.lineno}"


@pytest.mark.parametrize("path", SOURCES, ids=ids)
def test_every_module_teaches_its_concept(path):
    assert ast.get_docstring(tree_of(path)), "no module docstring"


def test_the_top_level_holds_only_what_was_agreed():
    listed = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False
    ).stdout.splitlines()
    tops = {name.split("/")[0] for name in listed if not name.startswith(".") or name.startswith(".ci/")}
    agreed = {"pyproject.toml", "convc", "templates", "models", "tests", "benchmarks"}
    usual = {"README.md", "Makefile", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", ".ci"}
    assert tops <= agreed | usual, f"unexpected at the top: {tops - agreed - usual}"
