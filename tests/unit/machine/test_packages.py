"""The packages of the simulator: who may import whom, imports for the type checker included."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import convc

PACKAGE = Path(convc.__file__).parent
MACHINE = PACKAGE / "machine"

PACKAGES = {
    "base": "",
    "memory": "base",
    "tma": "base memory",
    "tensor_core": "base memory",
    "lazy": "base memory tma tensor_core",
    "state": "base memory tma tensor_core lazy",
    "isa": "base memory tma tensor_core lazy state",
    "execute": "base memory tma tensor_core lazy state isa",
}
"""Packages that files of a package may import besides their own; launch.py and __init__.py, at the door, may all."""

FILES = sorted(MACHINE.rglob("*.py"))


def imports_of(path: Path) -> list[str]:
    """Full names of the simulator's modules that a file imports, wherever in it."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name if file_of(name) is not None else str(node.module) for name in names]
    return [name for name in found if name.startswith("convc.machine.")]


def file_of(name: str) -> Path | None:
    """The file of a module, or None where there is no such module."""
    path = PACKAGE.parent / name.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def relative(path: Path) -> str:
    return path.relative_to(MACHINE).as_posix()


def test_every_folder_is_a_package():
    assert {path.name for path in MACHINE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(PACKAGES)


@pytest.mark.parametrize("path", [path for path in FILES if path.parent != MACHINE], ids=relative)
def test_a_package_imports_only_packages_before_it(path):
    package = path.relative_to(MACHINE).parts[0]
    for name in imports_of(path):
        other = name.split(".")[2]
        assert other in (package, *PACKAGES[package].split()), f"{package} must not import {name}"


def test_no_circle_among_the_files():
    graph = {path: {file_of(name) for name in imports_of(path)} - {path} for path in FILES}
    TopologicalSorter(graph).prepare()  # raises CycleError with the files of a circle
