"""Spelling of the steps that depend on the type of sums and results."""

from __future__ import annotations

from typing import Any

from convc.compiler.emit.operands import quads
from convc.compiler.tile.steps.quantise import Requantise, RequantiseLane
from convc.ir import dtypes


def bias_type(dtype: str) -> dict[str, str]:
    """How numbers of the sums' type are declared and added."""
    return {"type": dtype, "add": "add.s32" if dtype == "s32" else "add.rn.f32"}


def values_per_word(out: str) -> int:
    """Values of an output type in 32 bits."""
    return 32 // dtypes.BY_NAME[out].bits


def conversion(out: str) -> str:
    """The instruction that turns one 32-bit value into the output type."""
    return f"cvt.sat.{out}.s32" if dtypes.BY_NAME[out].integer else f"cvt.rn.{out}.f32"


def convert_names(out: str, count: int) -> dict[str, Any]:
    """The words of `Convert`: each with its instructions, high values first."""
    per_word = values_per_word(out)
    lines = []
    for word, first in enumerate(range(0, count, per_word)):
        to = f"%h{word}"
        if per_word == 2:
            lines.append(f"cvt.rn.{out}x2.f32 {to}, %v{first + 1}, %v{first};")
        else:
            lines.append(f"cvt.pack.sat.{out}.s32.b32 {to}, %v{first + 3}, %v{first + 2}, 0;")
            lines.append(f"cvt.pack.sat.{out}.s32.b32 {to}, %v{first + 1}, %v{first}, {to};")
    return {"lines": lines}


def requantise_names(step: Requantise | RequantiseLane) -> dict[str, Any]:
    """Values, and where their multipliers lie: one for all, or four at a time."""
    names = {"buffer": step.buffer, "channel": step.channel, "zero_point": step.zero_point}
    if isinstance(step, RequantiseLane):
        return names | {"values": [f"%v{i}" for i in range(step.columns)], "offset": 4 * step.first}
    return names | {"quads": quads(step.columns, step.first)}
