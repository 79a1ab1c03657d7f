"""The files of Python that the tests of architecture look at, each parsed once.

The trees of all files are a hundred megabytes: `conftest.py` drops them behind the last test of this folder.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(path)))


def forget() -> None:
    """Drop all trees."""
    tree_of.cache_clear()
    nodes_of.cache_clear()
