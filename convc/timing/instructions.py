"""An instruction by its text, as far as its time asks: its class, how a copy walks, the shape of a product."""

from __future__ import annotations

import re

from convc.machine.isa.operands import modifier
from convc.ptx import Imm, Instr
from convc.timing.tensor_core import MmaShape


def class_of(instr: Instr) -> str:
    """Give the form's name; of a division by a constant another one, which multiplies."""
    name = instr.form.name
    if name in ("int.div", "int.rem") and isinstance(instr.operands[2], Imm):
        return f"{name}.constant"
    return name


def mode_of(instr: Instr) -> str:
    """Say how a copy walks through memory: bulk, tile or im2col."""
    mode = instr.slots.get("mode") or "tile"
    if "tensor" not in instr.form.name:
        return "bulk"
    return "im2col" if mode.startswith("im2col") else "tile"


def warpgroup_shape(instr: Instr) -> MmaShape:
    """Give the shape of a wgmma."""
    rows, columns, _ = map(int, re.findall(r"\d+", modifier(instr, "shape")))
    return MmaShape(m=rows, n=columns)
