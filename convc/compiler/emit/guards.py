"""Under which predicates a lane touches global memory: where it stores results, and where it reads a residual.

A lane that has an output pixel moves 16 bytes of channels at a time, one that has a channel moves one pixel at a time;
either way a piece is guarded by its row, by its channel, by both, or by nothing, as the plan left it.
"""

from __future__ import annotations

from typing import Any

from convc.compiler.tile.steps.epilogue import LaneAccess, RowAccess
from convc.ir import dtypes

PIECE_BYTES = 16
"""Bytes that one lane moves with one instruction."""


def row_pieces(step: RowAccess) -> list[tuple[str, str, int]]:
    """(test, guard, byte offset) of each 16 bytes of the lane's row; the test is "" where the guard needs none."""
    per_piece = PIECE_BYTES // dtypes.BY_NAME[step.out].bytes
    row = step.row_limit is not None
    pieces: list[tuple[str, str, int]] = []
    for index in range(step.columns // per_piece):
        test = ""
        guard = "@%row_in " if row else ""
        if step.channel_limit is not None:
            limit = step.channel_limit - per_piece * index
            both, also = (".and", ", %row_in") if row else ("", "")
            test = f"setp.lt{both}.s32 %in, %{step.channel}, {limit}{also};"
            guard = "@%in "
        pieces.append((test, guard, PIECE_BYTES * index))
    return pieces


def row_names(step: RowAccess, bits: int) -> dict[str, Any]:
    """The names that templates around pieces of a row take; `bits` is the width of the row's number."""
    return {
        "buffer": step.buffer,
        "at": step.at,
        "row": step.row,
        "row_bits": bits,
        "row_guarded": step.row_limit is not None,
        "row_limit": step.row_limit or 0,
        "channel_guarded": step.channel_limit is not None,
    }


def lane_pieces(step: LaneAccess, bits: int) -> list[tuple[str, str, str]]:
    """(number of the row, test, guard) of each column; the numbers are `bits` wide."""
    guard = ""
    if step.row_limit is not None:
        guard = "@%in "
    elif step.channel_limit is not None:
        guard = "@%channel_in "
    pieces: list[tuple[str, str, str]] = []
    for name in step.rows:
        both = f", %{name}, {step.row_limit}"
        test = f"setp.lt.s{bits} %in{both};"
        if step.channel_limit is not None:
            test = f"setp.lt.and.s{bits} %in{both}, %channel_in;"
        pieces.append((name, test, guard))
    return pieces


def lane_names(step: LaneAccess, bits: int) -> dict[str, Any]:
    """The names that templates around elements of a lane take; `bits` is the width of the rows' numbers."""
    element = dtypes.BY_NAME[step.out].bytes
    return {
        "buffer": step.buffer,
        "packed": element < 4,
        "bits": 8 * element,
        "element_bytes": element,
        "row_bytes": step.row_bytes,
        "row_product": "mul.wide.s32" if bits == 32 else "mul.lo.s64",
        "k": step.channel,
        "channel_guarded": step.channel_limit is not None,
        "channel_limit": step.channel_limit or 0,
        "row_guarded": step.row_limit is not None,
    }
