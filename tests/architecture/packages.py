"""The packages of convc as a graph, read from the imports: who leans on whom, and how high each stands.

A package here is a package or a module in a folder of convc. What leads into it from outside (``__init__``,
``__main__``) and the number of the version are no packages.
"""

from __future__ import annotations

import ast
import functools
from graphlib import TopologicalSorter
from pathlib import Path

from tests.architecture.parsed import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]

Graph = dict[str, set[str]]
"""Package -> packages that it imports."""


def packages(folder: Path) -> list[str]:
    """Names of the packages in a folder, in order of the alphabet."""
    found = {path.name for path in folder.iterdir() if (path / "__init__.py").is_file()}
    found |= {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    return sorted(found)


def imports(folder: Path) -> Graph:
    """The packages of a folder, each with those that any of its files imports, inside functions and for types too."""
    names = packages(folder)
    graph: Graph = {}
    for name in names:
        files = sorted((folder / name).rglob("*.py")) or [folder / f"{name}.py"]
        imported = {package for path in files for package in _imported_packages(path, folder)}
        graph[name] = imported & set(names) - {name}
    return graph


def purpose(folder: Path, name: str) -> str:
    """What a package is for: the first sentences of its docstring."""
    package = folder / name / "__init__.py"
    source = package if package.is_file() else folder / f"{name}.py"
    text = ast.get_docstring(tree_of(source)) or ""
    return " ".join(text.split("\n\n")[0].split())


def floors(graph: Graph) -> dict[str, int]:
    """The length of the longest way down from each package; CycleError names the packages of a circle."""
    height: dict[str, int] = {}
    for package in TopologicalSorter(graph).static_order():
        height[package] = 1 + max((height[below] for below in graph[package]), default=-1)
    return height


def reduced(graph: Graph) -> Graph:
    """The graph without the arrows that a longer way replaces."""
    below: Graph = {}
    for package in TopologicalSorter(graph).static_order():
        below[package] = graph[package].union(*(below[other] for other in graph[package]))
    return {package: {o for o in others if not any(o in below[p] for p in others)} for package, others in graph.items()}


def _imported_packages(path: Path, folder: Path) -> set[str]:
    """First names inside a folder's package of all modules that a file imports."""
    prefix = f"{folder.relative_to(ROOT).as_posix().replace('/', '.')}."
    return {name.removeprefix(prefix).split(".")[0] for name in _imported(path) if name.startswith(prefix)}


@functools.cache
def _imported(path: Path) -> tuple[str, ...]:
    """Full names of all that a file imports."""
    names: list[str] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)
