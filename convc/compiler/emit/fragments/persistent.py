"""The spelling of the steps of a CTA that makes several tiles, and of loops that each CTA begins elsewhere."""

from __future__ import annotations

from convc.compiler.emit.fragments.base import Names, RoleContext, fragment, label_of
from convc.compiler.emit.operands import barriers, stage
from convc.compiler.tile.steps.base import Strided
from convc.compiler.tile.steps.persistent import (
    AnswerRead,
    AskTile,
    FetchLoop,
    Release,
    ReleaseLast,
    ReleaseRead,
    TakeTile,
)


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
