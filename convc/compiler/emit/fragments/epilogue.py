"""Names and numbers of the templates of `convc.compiler.tile.steps.epilogue`."""

from __future__ import annotations

import math
import struct
from typing import Any

from convc.compiler.emit.guards import PIECE_BYTES, lane_names, lane_pieces, row_names, row_pieces
from convc.compiler.emit.operands import braces
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.epilogue import (
    AddLaneResidual,
    AddRowResidual,
    ApplyClip,
    ApplyLeakyRelu,
    ApplyRelu,
    ApplySigmoid,
    ApplySilu,
)
from convc.ir import dtypes


def epilogue_names(step: Step) -> dict[str, Any] | None:
    """What the template of a step is filled in with; None: the step is of another kind."""
    match step:
        case ApplyRelu():
            return {"values": _values(step.columns)}
        case ApplyLeakyRelu():
            return {"values": _values(step.columns), "alpha": float_literal(step.alpha)}
        case ApplyClip(low=low, high=high):
            return {
                "values": _values(step.columns),
                "low_bound": low is not None,
                "high_bound": high is not None,
                "low": float_literal(low or 0.0),
                "high": float_literal(high or 0.0),
            }
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
    """Sixteen bytes a piece, each with the registers that take them, and what is done with those."""
    per_piece = PIECE_BYTES // dtypes.BY_NAME[step.out].bytes
    words = [f"%res{i}" for i in range(4)]
    names = row_names(step)
    return names | {
        "guarded": names["row_guarded"] or names["channel_guarded"],
        "packed": step.out != "f32",
        "words": words,
        "pieces": [
            (*piece, braces(words), _added(step.out, words, per_piece * index))
            for index, piece in enumerate(row_pieces(step))
        ],
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
    """One value a column."""
    names = lane_names(step)
    return names | {
        "type": step.out,
        "guarded": names["row_guarded"] or names["channel_guarded"],
        "read": "%half" if names["packed"] else "%wide",
        "pieces": [(*piece, f"%v{index}") for index, piece in enumerate(lane_pieces(step))],
    }
