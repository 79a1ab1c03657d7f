"""The spelling of the steps of CTAs that share the K loop of a tile."""

from __future__ import annotations

from convc.compiler.emit.fragments.base import Names, RoleContext, fragment
from convc.compiler.emit.operands import braces
from convc.compiler.tile.steps.split import AddSums, StageSums

QUAD = 4
"""Columns of a 16-byte access."""


@fragment.register
def _(step: StageSums, context: RoleContext) -> Names:
    tile = context.storage.smem_tile(step.tile)
    pieces = [
        (tile.offset + index * tile.row_bytes, braces(f"%v{QUAD * index + i}" for i in range(QUAD)))
        for index in range(step.columns // QUAD)
    ]
    return {"first": step.first, "lane": step.lane, "column_bytes": tile.row_bytes // QUAD, "pieces": pieces}


@fragment.register
def _(step: AddSums, context: RoleContext) -> Names:
    """All loads go out before the first sum is needed; those of part 0 bring the values themselves."""
    tile = context.storage.smem_tile(step.tile)
    loads: list[tuple[int, list[tuple[int, str]]]] = []
    for part in range(step.parts):
        names = [f"%v{i}" if part == 0 else f"%part{step.columns * (part - 1) + i}" for i in range(step.columns)]
        pieces = [
            (tile.offset + quad * tile.row_bytes, braces(names[QUAD * quad : QUAD * (quad + 1)]))
            for quad in range(step.columns // QUAD)
        ]
        loads.append((part, pieces))
    add = "add.s32" if step.dtype == "s32" else "add.rn.f32"
    lines = [
        f"{add} %v{i}, %v{i}, %part{step.columns * part + i};"
        for part in range(step.parts - 1)
        for i in range(step.columns)
    ]
    return {
        "first": step.first,
        "lane": step.lane,
        "column_bytes": tile.row_bytes // QUAD,
        "row": step.row,
        "row_bits": context.numbers[step.row].bits,
        "row_guarded": step.row_limit is not None,
        "row_limit": step.row_limit or 0,
        "values": [f"%v{i}" for i in range(step.columns)],
        "guard": "" if step.row_limit is None else "@%row_in ",
        "others": step.columns * (step.parts - 1),
        "loads": loads,
        "lines": lines,
    }
