"""No circle among the files of convc and benchmarks, imports for types included.

An import of a package is one of the file that it runs, its ``__init__``. So a module must not import the package that
it is in, where that package's ``__init__`` imports the module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.parsed import nodes_of

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("convc", "benchmarks")


def sources() -> dict[str, Path]:
    """Every file by the full name of its module; that of a package's ``__init__`` is the package's."""
    found = {}
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of ours that a file names in its imports, wherever they stand."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else node.module


def circles(arrows: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """Strongly connected components of more than one module, or of one that imports itself (Tarjan 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in sorted(arrows[name]):
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            first = stack.index(name)
            if len(stack) - first > 1 or name in arrows[name]:
                found.append(frozenset(stack[first:]))
            del stack[first:]

    for name in arrows:
        if name not in number:
            visit(name)
    return found


def test_a_circle_is_found():
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"e"}, "f": {"a"}}
    assert set(circles(arrows)) == {frozenset("abc"), frozenset("e")}


def test_an_import_of_a_package_is_one_of_its_init():
    known = sources()
    assert known["convc.ptx"].name == "__init__.py"
    assert "convc.ptx" in set(imported(known["convc.explain.inspect"], known))
    assert "convc.ptx.parser" in set(imported(known["benchmarks.check"], known))


def test_no_files_import_one_another():
    known = sources()
    found = set(circles({name: set(imported(path, known)) for name, path in known.items()}))
    shown = "\n".join(", ".join(sorted(circle)) for circle in found)
    assert not found, f"each of these imports the others, over one or more steps:\n{shown}"
