"""The rooms of convc as a graph, read from the imports: who leans on whom, and how high each stands.

A room is a package or a module in a folder of convc. What leads into the package from outside (``__init__``,
``__main__``) and the number of the version are no rooms.
"""

from __future__ import annotations

import ast
import functools
from graphlib import TopologicalSorter
from pathlib import Path

from tests.architecture.parsed import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]

Graph = dict[str, set[str]]
"""Room -> rooms that it imports."""


def rooms(folder: Path) -> list[str]:
    """Names of the rooms in a folder, in order of the alphabet."""
    found = {path.name for path in folder.iterdir() if (path / "__init__.py").is_file()}
    found |= {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    return sorted(found)


def imports(folder: Path) -> Graph:
    """The rooms of a folder, each with those that any of its files imports, inside functions and for types too."""
    names = rooms(folder)
    graph: Graph = {}
    for name in names:
        files = sorted((folder / name).rglob("*.py")) or [folder / f"{name}.py"]
        imported = {room for path in files for room in _imported_rooms(path, folder)}
        graph[name] = imported & set(names) - {name}
    return graph


def purpose(folder: Path, room: str) -> str:
    """What a room is for: the first sentences of its docstring."""
    package = folder / room / "__init__.py"
    source = package if package.is_file() else folder / f"{room}.py"
    text = ast.get_docstring(tree_of(source)) or ""
    return " ".join(text.split("\n\n")[0].split())


def floors(graph: Graph) -> dict[str, int]:
    """The length of the longest way down from each room; CycleError names the rooms of a circle."""
    height: dict[str, int] = {}
    for room in TopologicalSorter(graph).static_order():
        height[room] = 1 + max((height[below] for below in graph[room]), default=-1)
    return height


def reduced(graph: Graph) -> Graph:
    """The graph without the arrows that a longer way replaces."""
    below: Graph = {}
    for room in TopologicalSorter(graph).static_order():
        below[room] = graph[room].union(*(below[other] for other in graph[room]))
    return {room: {o for o in others if not any(o in below[p] for p in others)} for room, others in graph.items()}


def _imported_rooms(path: Path, folder: Path) -> set[str]:
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
