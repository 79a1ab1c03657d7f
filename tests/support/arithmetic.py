"""Who does arithmetic on positions while a kernel is compiled: which functions make expressions of others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import convc
from convc.ir.expr import json_form, nodes, values

ROOT = Path(convc.__file__).parent
OWN = (nodes.__file__, values.__file__, json_form.__file__, __file__)
OPERATORS = ("__add__", "__sub__", "__mul__", "__floordiv__", "__mod__")
MADE = (nodes.Add, nodes.Mul, nodes.FloorDiv, nodes.Mod, nodes.Less, nodes.And, nodes.Select)


@contextmanager
def arithmetic() -> Iterator[set[str]]:
    """The functions of convc that do arithmetic meanwhile, as ``file: function``."""
    found: set[str] = set()

    def watched(method):
        def watching(*args, **named):
            found.add(_caller())
            return method(*args, **named)

        return watching

    before = [(nodes._Node, name, getattr(nodes._Node, name)) for name in OPERATORS]
    before += [(made, "__init__", made.__init__) for made in MADE]
    try:
        for owner, name, method in before:
            setattr(owner, name, watched(method))
        yield found
        found.discard("")
    finally:
        for owner, name, method in before:
            setattr(owner, name, method)


def _caller() -> str:
    """The nearest function that is not of the expressions themselves; a comprehension is its function's.

    `substitute` puts numbers and other expressions in the place of variables, and does no arithmetic of its own.
    """
    frame = sys._getframe(2)
    while frame.f_code.co_filename in OWN:
        if frame.f_code.co_name == "substitute":
            return ""
        frame = frame.f_back
    name = frame.f_code.co_qualname.split(".<locals>")[0]
    path = Path(frame.f_code.co_filename)
    return f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}: {name}"
