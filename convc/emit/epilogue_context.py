"""Names and numbers of the templates of `convc.tile.epilogue_steps`."""

from __future__ import annotations

import math
import struct
from typing import Any

from convc import dtypes
from convc.emit.operands import braces
from convc.tile.epilogue_steps import (
    AddLaneResidual,
    AddRowResidual,
    ApplyClip,
    ApplyLeakyRelu,
    ApplyRelu,
    ApplySigmoid,
    ApplySilu,
)
from convc.tile.steps import Step

PIECE_BYTES = 16
"""Bytes that one lane reads with one load."""


def epilogue_names(step: Step) -> dict[str, Any] | None:
    """What the template of a step is filled in with; None: the step is of another kind."""
    match step:
        case ApplyRelu():
            return {"values": _values(step.columns)}
        case ApplyLeakyRelu():
            return {"values": _values(step.columns), "alpha": float_literal(step.alpha)}
        case ApplyClip(low=low, high=high):
            return {
                "values": _values(step.columns), "low_bound": low is not None, "high_bound": high is not None,
                "low": float_literal(low or 0.0), "high": float_literal(high or 0.0),
            }  # fmt: skip
        case ApplySigmoid() | ApplySilu():
            return {"values": _values(step.columns), "minus_log2_e": float_literal(-math.log2(math.e))}
        case AddRowResidual():
            return _row_residual(step)
        case AddLaneResidual():
            return _lane_residual(step)
    return None


def float_literal(value: float) -> str:
    """A float32 number as PTX writes it: ``0f`` and its bits."""
    return f"0f{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"


def _values(columns: int) -> list[str]:
    return [f"%v{i}" for i in range(columns)]


def _row_residual(step: AddRowResidual) -> dict[str, Any]:
    """Pieces of 16 bytes: (test, guard, offset, whether guarded, registers, what is done with each)."""
    per_piece = PIECE_BYTES // dtypes.BY_NAME[step.out].bytes
    row, channel = step.row_limit is not None, step.channel_limit is not None
    words = [f"%res{i}" for i in range(4)]
    pieces = []
    for index in range(step.columns // per_piece):
        test, guard = "", "@%row_in " if row else ""
        if channel:
            limit = step.channel_limit - per_piece * index
            both, also = (".and", ", %row_in") if row else ("", "")
            test, guard = f"setp.lt{both}.s32 %in, %{step.channel}, {limit}{also};", "@%in "
        first = per_piece * index
        pieces.append((test, guard, PIECE_BYTES * index, braces(words), _added(step.out, words, first)))
    return {
        "buffer": step.buffer,
        "at": step.at,
        "row": step.row,
        "row_guarded": row,
        "row_limit": step.row_limit or 0,
        "channel_guarded": channel,
        "guarded": row or channel,
        "packed": step.out != "f32",
        "words": words,
        "pieces": pieces,
    }


def _added(out: str, words: list[str], first: int) -> list[str]:
    """The lines that add four words of residual to the values from a column on."""
    if out == "f32":
        return [f"add.rn.f32 %v{first + i}, %v{first + i}, {word};" for i, word in enumerate(words)]
    lines = []
    for i, word in enumerate(words):
        lines.append(f"mov.b32 {{%low, %high}}, {word};")
        for half, value in (("%low", f"%v{first + 2 * i}"), ("%high", f"%v{first + 2 * i + 1}")):
            lines += [f"cvt.f32.{out} %wide, {half};", f"add.rn.f32 {value}, {value}, %wide;"]
    return lines


def _lane_residual(step: AddLaneResidual) -> dict[str, Any]:
    """One value a column, each under the guards that are left."""
    channel, row = step.channel_limit is not None, step.row_limit is not None
    packed = step.out != "f32"
    read = "%half" if packed else "%wide"
    pieces = []
    for index, name in enumerate(step.rows):
        both = f", %{name}, {step.row_limit}"
        test = f"setp.lt.and.s32 %in{both}, %channel_in;" if channel else f"setp.lt.s32 %in{both};"
        guard = "@%in " if row else "@%channel_in " if channel else ""
        pieces.append((name, test, guard, f"%v{index}"))
    return {
        "buffer": step.buffer,
        "packed": packed,
        "type": step.out,
        "bits": 8 * dtypes.BY_NAME[step.out].bytes,
        "element_bytes": dtypes.BY_NAME[step.out].bytes,
        "row_bytes": step.row_bytes,
        "k": step.channel,
        "channel_guarded": channel,
        "channel_limit": step.channel_limit or 0,
        "row_guarded": row,
        "guarded": row or channel,
        "read": read,
        "pieces": pieces,
    }
