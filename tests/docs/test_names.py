"""Every file, module and name of convc that a page, a docstring or a comment mentions is there."""

from __future__ import annotations

import ast
import importlib
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pages import DOCS

ROOT = DOCS.parents[1]
PATHS = re.compile(r"(?<![\w/.-])(?:convc|tests|templates|models|benchmarks)/[\w./*-]*[\w/*]")
PAGES = re.compile(r"(?<![\w/])docs/\w+\.\w+|(?<!\db)\]\((?!https?:)([\w./-]+)\)")
"""Links, but not pointers of CuTe such as smem_ptr[16b](unset)."""
NAMES = re.compile(r"(?<![\w/.-])convc(?:\.[A-Za-z_]\w*)+")

FILES = re.compile(r"`(?!convc/|tests/)(?:\w+/)*(\w+\.(?:py|npz))`")
TESTS = re.compile(r"(?<![\w/.])test_\w+(?![\w.])")

TEXTS = sorted([*DOCS.glob("*.md"), ROOT / "README.md", *(ROOT / "convc").rglob("*.py")])
PARTS = 4
"""Texts are read in so many tests, which several processes share."""

AN_EXAMPLE = {
    "templates/steps/apply_prelu.ptx.j2",
    "test_twice",
    "convc.sarif",
    "models/backbone.onnx",
    "convc/convc/.github/actions/check",
}
"""What a page makes, or takes for a reader's, to show how."""


def mentions(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of what a file says to people: all of a page; docstrings and comments of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from enumerate(node.value.value.splitlines(), node.lineno)
    behind = [line[line.index("#") :] for line in text.splitlines() if "#" in line]
    if not any(pattern.search(part) for part in behind for pattern in (PATHS, NAMES, PAGES)):
        return  # no comment can mention a thing, and to tokenize takes longest
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def is_there(pattern: str) -> bool:
    """Whether a path, or a pattern of paths, stands in the checkout."""
    return any(ROOT.glob(pattern.rstrip("/"))) if "*" in pattern else (ROOT / pattern).exists()


@cache
def is_name(name: str) -> bool:
    """Whether a dotted name is a module, or something in one: a value, a class, a field, a method."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        if (path / "__init__.py").is_file() or path.with_suffix(".py").is_file():
            return _has(importlib.import_module(".".join(parts[:count])), parts[count:])
    return False


def _has(thing: object, parts: list[str]) -> bool:
    for part in parts:
        if part in getattr(thing, "__annotations__", {}) and not hasattr(thing, part):
            return True
        if not hasattr(thing, part):
            return False
        thing = getattr(thing, part)
    return True


@cache
def files() -> set[str]:
    """Names of all files, without their folders."""
    tops = ("convc", "tests", "models", "benchmarks")
    return {path.name for top in tops for path in (ROOT / top).rglob("*.*") if "__pycache__" not in path.parts}


@cache
def known_tests() -> set[str]:
    """Names of all test functions and modules."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        found.add(path.stem)
        found |= set(re.findall(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    return found


def missing(path: Path) -> list[str]:
    """What a file mentions and is not there, one line each."""
    found: list[str] = []
    for line, text in mentions(path):
        wrong = [one for one in PATHS.findall(text) if not is_there(one)]
        wrong += [one for one in NAMES.findall(text) if not is_name(one)]
        if path.suffix == ".md":
            wrong += [one for one in FILES.findall(text) if one not in files()]
            wrong += [one for one in TESTS.findall(text) if one not in known_tests()]
        for match in PAGES.finditer(text):
            target = match[1] or match[0]
            folder = path.parent if match[1] else ROOT / "convc"
            if not (folder / target).exists():
                wrong.append(target)
        found += [f"{path.relative_to(ROOT)}:{line}: {one}" for one in wrong if one not in AN_EXAMPLE]
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_mentioned_is_there(part):
    assert [line for path in TEXTS[part::PARTS] for line in missing(path)] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see `convc/nothing.py` and `convc/errors.py`.", ["convc/nothing.py"]),
        ("`convc/ptx/forms/*.txt`, `convc/ptx/forms/*.csv`", ["convc/ptx/forms/*.csv"]),
        (
            "`convc.ir.problem.ConvProblem.batch`, `convc.ir.problem.ConvProblem.bach`",
            ["convc.ir.problem.ConvProblem.bach"],
        ),
        ("`convc.verify`, `convc.verifies`", ["convc.verifies"]),
        ("`convc/errors.py`, `errors.py`, `errers.py`", ["errers.py"]),
        ("test_names, test_what_is_mentioned_is_there, test_nothing_at_all", ["test_nothing_at_all"]),
        ("docs/forms.md and docs/form.md", ["docs/form.md"]),
        ("[a](https://example.org/x), [b](other.md)", ["other.md"]),
    ],
)
def test_the_test_finds_what_is_not_there(text, wrong, monkeypatch):
    monkeypatch.setattr("test_names.mentions", lambda path: [(1, text)])
    assert missing(DOCS / "page.md") == [f"convc/docs/page.md:1: {one}" for one in wrong]
