"""The numbers of a CTA that loads for others of its cluster: which they are, and which part of a tile it brings.

The place of a CTA in its cluster is that of its tile among those of the cluster: ranks count along the pixels first. No
extent of a cluster is above two, so that a power of two of a place is a sum.
"""

from __future__ import annotations

from typing import TypedDict

from convc.compiler.index.shares import all_but_one, share
from convc.compiler.plan.names import PEERS, A, B, Number, SmemName
from convc.compiler.plan.records import Plan, Tiling
from convc.compiler.schedules.skeleton import number
from convc.compiler.tile.steps.base import Compute, Step
from convc.ir.expr import Const, IntExpr

CTAS_A = Number("ctas_a")
CTAS_B = Number("ctas_b")
AT_A = Number("at_a")
AT_B = Number("at_b")
"""For whom a CTA loads activations and filters, and at which byte of a tile its part begins."""


def place_of(tiling: Tiling) -> tuple[IntExpr, IntExpr]:
    """The place of a CTA in its cluster, along the pixels and along the channels."""
    pixels, channels = tiling.multicast
    along, across = (
        share("place in a cluster", name, PIXELS=pixels, CHANNELS=channels) for name in ("along", "across")
    )
    return along, across


def _in_cluster(tiling: Tiling, result: str) -> IntExpr:
    """What the place of a CTA says about the tiles of its cluster."""
    pixels, channels = tiling.multicast
    along, across = place_of(tiling)
    sizes = {
        "COLUMN": sum(1 << pixels * other for other in range(channels)),
        "WHOLE": (1 << pixels) - 1,
        "A_PIECE": tiling.a_piece,
        "PIECE": tiling.b_piece,
        "ROW_BYTES": tiling.row_bytes,
    }
    shared = SETS.get(result)
    if shared is not None:
        bit = share("cluster", f"bit_{shared}", **sizes, along=along, across=across)
        return share("set of CTAs", shared, **sizes, bit=bit)
    return share("cluster", result, **sizes, along=along, across=across)


def parts_loaded(plan: Plan) -> tuple[Step, ...]:
    """The numbers of the role that loads: for whom, and which part of each tile that CTAs share."""
    pixels, channels = plan.tiling.multicast
    numbers: list[tuple[Number, str]] = []
    if channels > 1:
        numbers += [(CTAS_A, "CTAs with the same pixels"), (AT_A, "where its part of the pixels begins")]
    if pixels > 1:
        numbers += [(CTAS_B, "CTAs with the same filters"), (AT_B, "where its part of the filters begins")]
    return tuple(_computed("load", name, note, _in_cluster(plan.tiling, name)) for name, note in numbers)


def peers(plan: Plan) -> tuple[Step, ...]:
    """The number of the role that multiplies: whom it gives a stage back to."""
    if plan.tiling.multicast == (1, 1):
        return ()
    pixels, channels = plan.tiling.multicast
    value: IntExpr = Const((1 << pixels * channels) - 1)
    if min(pixels, channels) > 1:
        value = all_but_one(_in_cluster(plan.tiling, "row"), _in_cluster(plan.tiling, "column"), value)
    return (_computed("mma", PEERS, "CTAs that fill its stages", value),)


SETS: dict[str, str] = {CTAS_A: "a", CTAS_B: "b"}
"""Numbers that are sets of CTAs, by what those share."""


class CopyPart(TypedDict):
    """The fields of a copy that say for whom it is, and where in the tile it begins."""

    ctas: Number | None
    at: Number | None
    bringers: int


def part_of(plan: Plan, tile: SmemName) -> CopyPart:
    """The part of an operand tile that a CTA brings: all of it for itself alone, unless CTAs share it."""
    pixels, channels = plan.tiling.multicast
    if tile == A and channels > 1:
        return CopyPart(ctas=CTAS_A, at=AT_A, bringers=channels)
    if tile == B and pixels > 1:
        return CopyPart(ctas=CTAS_B, at=AT_B, bringers=pixels)
    return CopyPart(ctas=None, at=None, bringers=1)


def _computed(role: str, name: Number, note: str, value: IntExpr) -> Compute:
    return Compute(id=f"{role}.{name}", note=note, dst=number(name), expr=value)
