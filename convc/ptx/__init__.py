"""The PTX reader: text in, a `Module` of resolved instructions out.

Start at `parse`. What it returns is described in `syntax`; what it understands is data, `forms/*.txt`, one row for
each instruction of the PTX manual (see docs/add_a_form.md). `printer` writes a module back as text.
"""

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
