"""The style that no linter checks, held as ceilings by package, and what docstrings promise.

A ceiling is a count that may only fall: where there are fewer, lower its number here. Packages without a row have none
left, and get none.
"""

from __future__ import annotations

import ast
import functools
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.parsed import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "convc"

LONGEST_BODY = 60
"""Most lines of a function's body, its docstring left out."""

SPLIT = ("compiler", "machine")
"""Packages that are large enough to count their own packages one by one."""

PAIRS = {
    "machine/isa": 1,
}
"""`a, b = x.f, g(y)`: two assignments in one statement. One that swaps, or steps a pair on, is none."""

CHAINS = {
    "compiler/index": 2,
}
"""`a if p else b if q else c`."""

REPEATS: dict[str, int] = {}
"""A text, tuple or list times what is true or false: a condition that looks like a product."""

UNFORMATTED = {"machine/state": 1}
"""`# fmt: skip` and `# fmt: off` on anything but a table: a module-level assignment of a literal."""

UNSAID = {
    "compiler/index": 16,
    "frontend": 6,
    "ir": 12,
    "host_layout": 16,
    "machine": 3,
    "machine/base": 6,
    "machine/execute": 1,
    "machine/isa": 10,
    "machine/memory": 3,
    "machine/state": 31,
    "machine/tensor_core": 7,
    "machine/tma": 9,
    "ptx": 13,
    "support": 6,
}
"""Public modules, classes and functions whose docstring is missing, or does not begin with a sentence of its own."""

LEANING = re.compile(r"(The same|See|What|Which|Who|Whom|Whose|Where|When|Why|How)\b")
"""Beginnings of a summary that leans on another one, or asks."""


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def package_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    deep = parts[0] in SPLIT and len(parts) > 2
    return "/".join(parts[: 2 if deep else 1])


# ---- what is counted: each gives the lines of its finds ------------------------------------------------------------


def pairs(path: Path) -> Iterator[int]:
    for node in nodes_of(path):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and not steps(target, value):
            yield node.lineno


def steps(target: ast.Tuple, value: ast.Tuple) -> bool:
    """Whether a new value is made from an old one of the pair: such assignments only work together."""
    names = {ast.unparse(each) for each in target.elts}
    places = (ast.Name, ast.Attribute, ast.Subscript)
    return any(isinstance(part, places) and ast.unparse(part) in names for part in ast.walk(value))


def chains(path: Path) -> Iterator[int]:
    for node in nodes_of(path):
        if isinstance(node, ast.IfExp) and isinstance(node.orelse, ast.IfExp):
            yield node.lineno


def repeats(path: Path) -> Iterator[int]:
    for node in nodes_of(path):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = ((node.left, node.right), (node.right, node.left))
            if any(is_display(one) and is_flag(other) for one, other in sides):
                yield node.lineno


def is_display(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    return isinstance(node, ast.JoinedStr | ast.Tuple | ast.List)


def is_flag(node: ast.expr) -> bool:
    """What can only be true or false; a name may be a number, and is taken for one."""
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("bool", "isinstance")
    return isinstance(node, ast.Compare | ast.BoolOp) or negated or called


def unformatted(path: Path) -> Iterator[int]:
    if "fmt: " not in path.read_text(encoding="utf-8"):
        return  # to look for comments takes longer than to parse
    tables = [
        range(node.lineno, node.end_lineno + 1)
        for node in tree_of(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_table(node.value)
    ]
    with tokenize.open(path) as file:
        comments = [token for token in tokenize.generate_tokens(file.readline) if token.type == tokenize.COMMENT]
    for comment in comments:
        line = comment.start[0]
        if re.search(r"fmt: (skip|off)", comment.string) and not any(line in table for table in tables):
            yield line


def is_table(node: ast.expr | None) -> bool:
    """A literal, or a literal that is handed to one call: ``frozenset({...})``, ``grammar("...")``."""
    if isinstance(node, ast.Call):
        return len(node.args) == 1 and is_table(node.args[0])
    return isinstance(node, ast.Dict | ast.List | ast.Set | ast.Tuple | ast.Constant | ast.DictComp | ast.ListComp)


def long_functions(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[ast.get_docstring(node) is not None :]
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            if lines > LONGEST_BODY:
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}, {lines} lines"


def unsaid(path: Path) -> Iterator[int]:
    """Whatever has no docstring, or one whose first line is no sentence that stands alone."""
    for node in public(tree_of(path)):
        first = (ast.get_docstring(node) or "").partition("\n")[0]
        inherited = not first and node in overriding(tree_of(path))
        if not inherited and (not first.endswith(".") or "?" in first or LEANING.match(first)):
            yield getattr(node, "lineno", 1)


@functools.cache
def classes() -> dict[str, list[ast.ClassDef]]:
    """All classes of the package by name."""
    found: dict[str, list[ast.ClassDef]] = {}
    for path in sources():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def says(name: str, method: str) -> bool:
    """Whether a class of that name, or one that it derives from, says what a method does."""
    for node in classes().get(name, []):
        own = [child for child in node.body if isinstance(child, ast.FunctionDef) and child.name == method]
        if any(ast.get_docstring(child) for child in own):
            return True
        if any(says(base.id, method) for base in node.bases if isinstance(base, ast.Name)):
            return True
    return False


def overriding(tree: ast.Module) -> set[ast.AST]:
    """Methods that do what a class above says."""
    return {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for child in node.body
        if isinstance(child, ast.FunctionDef)
        and any(says(base.id, child.name) for base in node.bases if isinstance(base, ast.Name))
    }


def public(node: ast.AST) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef]:
    """The module, its public classes and functions, and the public methods of those classes."""
    yield node
    for child in node.body:
        if not isinstance(child, ast.ClassDef | ast.FunctionDef) or child.name.startswith("_"):
            continue
        if any(isinstance(each, ast.Name) and each.id == "overload" for each in child.decorator_list):
            continue
        if isinstance(child, ast.ClassDef):
            yield from public(child)
        else:
            yield child


# ---- the tests -----------------------------------------------------------------------------------------------------


COUNTED = {
    "pairs": (pairs, PAIRS),
    "chains": (chains, CHAINS),
    "repeats": (repeats, REPEATS),
    "unformatted": (unformatted, UNFORMATTED),
    "unsaid": (unsaid, UNSAID),
}


@pytest.mark.parametrize("what", COUNTED)
def test_no_package_passes_its_ceiling(what):
    count, ceilings = COUNTED[what]
    found: dict[str, list[str]] = {}
    for path in sources():
        lines = [f"{path.relative_to(ROOT)}:{line}" for line in count(path)]
        found.setdefault(package_of(path), []).extend(lines)
    over = {package: lines for package, lines in found.items() if len(lines) > ceilings.get(package, 0)}
    said = (f"{package}, {ceilings.get(package, 0)} allowed: {lines}" for package, lines in over.items())
    assert not over, "\n".join(said)
    unknown = set(ceilings) - set(found)
    assert not unknown, f"packages that there are not: {unknown}"


def test_no_function_is_too_long_to_read():
    assert [line for path in sources() for line in long_functions(path)] == [], f"longer than {LONGEST_BODY} lines"


def found_in(check, text: str, tmp_path: Path) -> list:
    path = tmp_path / "taste.py"
    path.write_text(text)
    return list(check(path))


@pytest.mark.parametrize(
    ("check", "text", "count"),
    [
        (pairs, "a, b = x.f, g(y)", 1),
        (pairs, "a, b = b, a", 0),
        (pairs, "low, high = low + 1, f(low)", 0),
        (pairs, "a, b = f()", 0),
        (chains, "a = 1 if p else 2 if q else 3", 1),
        (chains, "a = (1 if p else 2) if q else 3", 0),
        (repeats, "a = 'text' * (b > 0)", 1),
        (repeats, "a = bool(b) * (2,)", 1),
        (repeats, "a = '  ' * depth", 0),
        (unformatted, "f(1,\n  2)  # fmt: skip", 1),
        (unformatted, "A = {1: 2,\n  3: 4}  # fmt: skip", 0),
        (unsaid, "'A module.'\ndef f():\n    'Do it.'\nclass C:\n    def g(self): 'See f.'", 2),
        (unsaid, "'A module.'\ndef _f(): ...\ndef g(): 'The same, back.'\ndef h(): 'What it is.'", 2),
        (unsaid, "'A module: no sentence'", 1),
    ],
)
def test_what_is_counted(check, text, count, tmp_path):
    assert len(found_in(check, text, tmp_path)) == count
