"""The spelling of the steps of a CTA that makes several tiles, and of loops that each CTA begins elsewhere."""

from __future__ import annotations

from convc.compiler.emit.fragments.base import TABLE, Names, RoleContext, fragment, label_of
from convc.compiler.emit.operands import barriers, braces, stage
from convc.compiler.tile.steps.base import Strided
from convc.compiler.tile.steps.order import LookUp
from convc.compiler.tile.steps.persistent import (
    AnswerRead,
    AskTile,
    FetchLoop,
    Release,
    ReleaseLast,
    ReleaseRead,
    TakeTile,
)
from convc.compiler.tile.steps.split import AddSums, StageSums


@fragment.register
def _(step: Strided, context: RoleContext) -> Names:
    """All but what is in the loop, which the kernel writes (`convc.compiler.emit.kernel`)."""
    return {
        "var": step.var,
        "first": step.first,
        "stride": step.stride,
        "limit": step.limit,
        "label": f"{label_of(step)}_next",
    }


@fragment.register
def _(step: Release, context: RoleContext) -> Names:
    ring = context.storage.ring(step.ring)
    space = ".shared::cta" if ring.at == "own" else ".shared::cluster"
    return {
        "stage": stage(ring.state),
        "offset": ring.offset,
        "barriers": barriers(ring),
        "space": space,
        "fence": context.orders_tensor_memory(ring),
    }


@fragment.register
def _(step: ReleaseRead, context: RoleContext) -> Names:
    ring = context.storage.ring(step.ring)
    return {
        "stage": stage(ring.state),
        "offset": ring.offset,
        "barriers": barriers(ring),
        "space": ".shared::cta" if ring.at == "own" else ".shared::cluster",
        "first": step.first,
        "last": step.last,
    }


@fragment.register
def _(step: ReleaseLast, context: RoleContext) -> Names:
    ring = context.storage.ring(step.ring)
    return {"stage": stage(ring.state), "last": ring.stages - 1, "offset": ring.offset, "ctas": step.ctas or ""}


@fragment.register
def _(step: FetchLoop, context: RoleContext) -> Names:
    """All but what is in the loop, which the kernel writes (`convc.compiler.emit.kernel`)."""
    return {"var": step.var, "first": step.first, "label": f"{label_of(step)}_next"}


@fragment.register
def _(step: AskTile, context: RoleContext) -> Names:
    ring = context.storage.ring(step.ring)
    tile = context.storage.smem_tile(step.tile)
    return {
        "stage": stage(ring.state),
        "ring_offset": ring.offset,
        "stage_bytes": tile.stage_bytes,
        "tile_offset": tile.offset,
    }


@fragment.register
def _(step: TakeTile, context: RoleContext) -> Names:
    tile = context.storage.smem_tile(step.tile)
    return {"stage": stage(tile.state), "stage_bytes": tile.stage_bytes, "tile_offset": tile.offset, "var": step.var}


@fragment.register
def _(step: AnswerRead, context: RoleContext) -> Names:
    ring = context.storage.ring(step.ring)
    return {"stage": stage(ring.state), "offset": ring.offset}


@fragment.register
def _(step: LookUp, context: RoleContext) -> Names:
    return {"dst": step.dst, "index": step.index, "table": TABLE}


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
