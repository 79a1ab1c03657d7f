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

MAY_SKIP = {
    "tests/unit/page/conftest.py", "tests/unit/draw/conftest.py", "tests/unit/recorder/conftest.py",
    "tests/support/rotation.py",
}  # fmt: skip
"""A browser or a C compiler, which no Python package brings, is missing; or no time was left for a test."""


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_file_passes_the_ceiling():
    long = {ids(path): count for path in SOURCES if (count := len(path.read_text().splitlines())) > CEILING}
    assert not long, f"longer than {CEILING} lines: {long}; is it one package or two?"


def marked(path: Path) -> list[str]:
    """Lines of a file that say that something is not done, or not tested."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    sought = [UNFINISHED] if ids(path) in MAY_SKIP else [UNFINISHED, SKIPPED]
    return [f"{ids(path)}:{number}: {line.strip()}" for number, line in lines if any(s.search(line) for s in sought)]


def test_nothing_is_left_unfinished():
    assert [line for path in CODE for line in marked(path)] == []


def unsafe(node: ast.AST) -> bool:
    """Whether a node makes code, or a command of a shell, out of text or bytes."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
        return bool(names & UNSAFE_MODULES)
    if isinstance(node, ast.Call):
        given = {word.arg: word.value for word in node.keywords if isinstance(word.value, ast.Constant)}
        asked = any(word in given and given[word].value is not False for word in ("allow_pickle", "shell"))
        return asked or getattr(node.func, "id", getattr(node.func, "attr", "")) in UNSAFE_CALLS
    return False


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("eval(x)", True),
        ("sympy.sympify(x)", True),
        ("numpy.load(x, allow_pickle=True)", True),
        ("numpy.load(x, allow_pickle=False)", False),
        ("run(x, shell=True)", True),
        ("from pickle import loads", True),
        ("import os, marshal", True),
        ("print(x)", False),
    ],
)
def test_unsafe_code_would_be_seen(text, found):
    assert any(map(unsafe, ast.walk(ast.parse(text)))) == found


def test_no_text_becomes_code():
    assert [f"{ids(path)}:{node.lineno}" for path in SOURCES for node in nodes_of(path) if unsafe(node)] == []


def test_every_module_teaches_its_concept():
    assert [ids(path) for path in SOURCES if not ast.get_docstring(tree_of(path))] == []


def test_the_top_level_holds_only_what_was_agreed():
    listed = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False
    ).stdout.splitlines()
    tops = {name.split("/")[0] for name in listed if not name.startswith(".") or name.startswith(".ci/")}
    agreed = {"pyproject.toml", "convc", "templates", "models", "tests", "benchmarks", "typings"}
    usual = {"README.md", "Makefile", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", ".ci"}
    assert tops <= agreed | usual, f"unexpected at the top: {tops - agreed - usual}"
