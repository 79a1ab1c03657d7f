"""The changes of a schedule's loops that a plan makes (`convc.derive.changes`), with its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from convc.compiler.index.formulas import Change
from convc.compiler.index.tile_order import order_of
from convc.compiler.plan.records import Plan


def changes_of(plan: Plan) -> Iterator[Change]:
    """Every change, in the order in which they are made."""
    order = plan.launch.order
    if order.places is not None or plan.launch.persistent:
        together = plan.tiling.ctas if order.places is not None else 1
        yield order_of(order.name, plan.launch.tiles, together=together, groups=order.groups).change
