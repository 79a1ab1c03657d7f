"""The PTX reader: text in, a `Module` of resolved instructions out.

Start at `parse`. What it returns is described in `syntax`; what it understands is data, `forms/*.txt`, one row for
each instruction of the PTX manual (see docs/add_a_form.md). `printer` writes a module back as text.

What it offers is imported when it is first asked for, since the compiler packs descriptors and reads no text.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convc.ptx.parser import parse
    from convc.ptx.printer import format_instr, format_module
    from convc.ptx.syntax import (
        Address,
        Arguments,
        Form,
        Func,
        Guard,
        Imm,
        Instr,
        Kernel,
        Label,
        Module,
        NotPred,
        Operand,
        Pair,
        Prototype,
        Reg,
        Sink,
        Special,
        Symbol,
        Targets,
        TensorAddress,
        Variable,
        Vector,
    )

__all__ = [
    "Address",
    "Arguments",
    "Form",
    "Func",
    "Guard",
    "Imm",
    "Instr",
    "Kernel",
    "Label",
    "Module",
    "NotPred",
    "Operand",
    "Pair",
    "Prototype",
    "Reg",
    "Sink",
    "Special",
    "Symbol",
    "Targets",
    "TensorAddress",
    "Variable",
    "Vector",
    "format_instr",
    "format_module",
    "parse",
]

_HOME = {"parse": "parser", "format_instr": "printer", "format_module": "printer"}
"""The module of each name in ``__all__`` that `syntax` does not have."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'convc.ptx' has no attribute {name!r}")
    home = importlib.import_module(f"convc.ptx.{_HOME.get(name, 'syntax')}")
    found = globals()[name] = getattr(home, name)
    return found
