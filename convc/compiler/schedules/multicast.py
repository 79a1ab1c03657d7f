"""The numbers of a CTA that loads for others of its cluster: which they are, and which part of a tile it brings.

The place of a CTA in its cluster is that of its tile among those of the cluster: ranks count along the pixels first. No
extent of a cluster is above two, so that a power of two of a place is a sum.
"""

from __future__ import annotations

from typing import TypedDict

from convc.compiler.plan.names import PEERS, A, B, Number, SmemName
from convc.compiler.plan.records import Plan, Tiling
from convc.compiler.schedules.skeleton import number
from convc.compiler.tile.steps.base import Compute, Step
from convc.ir.expr import Const, IntExpr, Var

CTAS_A = Number("ctas_a")
CTAS_B = Number("ctas_b")
AT_A = Number("at_a")
AT_B = Number("at_b")
"""For whom a CTA loads activations and filters, and at which byte of a tile its part begins."""


def place_of(tiling: Tiling) -> tuple[IntExpr, IntExpr]:
    """The place of a CTA in its cluster, along the pixels and along the channels."""
    pixels, channels = tiling.multicast
    along = Const(0) if pixels == 1 else Var("tile_m") % pixels
    across = Const(0) if channels == 1 else Var("tile_n") % channels
    return along, across


def parts_loaded(plan: Plan) -> tuple[Step, ...]:
    """The numbers of the role that loads: for whom, and which part of each tile that CTAs share."""
    pixels, channels = plan.tiling.multicast
    along, across = place_of(plan.tiling)
    row = plan.tiling.row_bytes
    found: list[Step] = []
    if channels > 1:
        column = sum(1 << pixels * other for other in range(channels))
        found += [
            _computed("load", CTAS_A, "CTAs with the same pixels", (along + 1) * column),
            _computed("load", AT_A, "where its part of the pixels begins", across * (plan.tiling.a_piece * row)),
        ]
    if pixels > 1:
        whole = (1 << pixels) - 1
        found += [
            _computed("load", CTAS_B, "CTAs with the same filters", (across * ((1 << pixels) - 1) + 1) * whole),
            _computed("load", AT_B, "where its part of the filters begins", along * (plan.tiling.b_piece * row)),
        ]
    return tuple(found)


def peers(plan: Plan) -> tuple[Step, ...]:
    """The number of the role that multiplies: whom it gives a stage back to."""
    if plan.tiling.multicast == (1, 1):
        return ()
    pixels, channels = plan.tiling.multicast
    along, across = place_of(plan.tiling)
    everyone = (1 << pixels * channels) - 1
    value: IntExpr = Const(everyone)
    if min(pixels, channels) > 1:  # the CTA with other pixels and other filters is left out
        value = (along * -1 + 2) * (across * -3 + 4) * -1 + everyone
    return (_computed("mma", PEERS, "CTAs that fill its stages", value),)


class Part(TypedDict):
    """The fields of a copy that say for whom it is, and where in the tile it begins."""

    ctas: Number | None
    at: Number | None
    bringers: int


def part_of(plan: Plan, tile: SmemName) -> Part:
    """The part of an operand tile that a CTA brings: all of it for itself alone, unless CTAs share it."""
    pixels, channels = plan.tiling.multicast
    if tile == A and channels > 1:
        return Part(ctas=CTAS_A, at=AT_A, bringers=channels)
    if tile == B and pixels > 1:
        return Part(ctas=CTAS_B, at=AT_B, bringers=pixels)
    return Part(ctas=None, at=None, bringers=1)


def _computed(role: str, name: Number, note: str, value: IntExpr) -> Compute:
    return Compute(id=f"{role}.{name}", note=note, dst=number(name), expr=value)
