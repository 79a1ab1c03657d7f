"""The spelling of the step that looks a tile's place up."""

from __future__ import annotations

from convc.compiler.emit.fragments.base import TABLE, Names, RoleContext, fragment
from convc.compiler.tile.steps.order import LookUp


@fragment.register
def _(step: LookUp, context: RoleContext) -> Names:
    return {"dst": step.dst, "index": step.index, "table": TABLE}
