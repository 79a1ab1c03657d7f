"""Lanes that a filter tap must not write: the tables of their masks, and an accumulator that is clear before all taps.

A CTA that makes one tile fills its table in the set-up. A persistent one has two: the warps of the epilogue
fill that of the next tile before they carry this one away, and the role that multiplies waits for it.
"""

from __future__ import annotations

from msgspec.structs import replace

from convc.compiler.index.shares import share
from convc.compiler.plan.coordinates import Coordinate
from convc.compiler.plan.names import ACC, NewNumber, Number
from convc.compiler.plan.records import Plan
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.sharing.indexing import row_coordinates, shared
from convc.compiler.schedules.skeleton import about, compute, number, warps_role
from convc.compiler.tile.program import Role
from convc.compiler.tile.steps.base import Compute, Loop, Step
from convc.compiler.tile.steps.lanes import ClearAcc, MaskWord
from convc.ir.expr import Const, IntExpr, Var, substitute


def masks(plan: Plan) -> tuple[Role, ...]:
    """The role of the set-up that fills the table of lane masks; none where the epilogue does."""
    if plan.launch.persistent or not plan.storage.masks:
        return ()
    lane = Compute(
        id="masks.lane", note="thread i computes the masks of lane i", dst=number("lane"), expr=Var("thread")
    )
    note = "work out which lanes a filter tap must not write"
    return (warps_role("masks", 3, note, (lane, *mask_steps(plan, "masks"))),)


def mask_steps(plan: Plan, role: str, which: str = "") -> tuple[Step, ...]:
    """Fill a table of lane masks: filter columns first, then filter rows.

    Args:
        role: who does it: four warps, whose thread i is at lane i.
        which: what the number of the tile's pixels carries at its end, as do the names of the steps.
    """
    coordinates = row_coordinates(plan)
    rows, columns = plan.pipeline.taps
    steps: list[Step] = []
    first = 0
    for rank in range(plan.tiling.ctas):  # the first CTA of a pair multiplies for both, and knows where both are
        first_tile = Var(number(f"tile_m{which}"))
        tile = share("tile of a pair", "tile_m", tile_m=first_tile, rank=Const(rank))
        for mask, name, count in ((coordinates.column_mask, "s", columns), (coordinates.line_mask, "r", rows)):
            if mask is not None:
                end = f"{which}_{rank}" if rank else which
                var = number(name + end)
                known: dict[str, IntExpr] = {"tile_m": tile, name: Var(var)}
                if which:
                    known["lane"] = Var("thread")
                moved = replace(mask, name=Number(mask.name + end), value=substitute(mask.value, known))
                steps.append(_mask_loop(role, moved, var, Var(var) if name == "s" else None, count, first))
                first += count
    return tuple(steps)


def _mask_loop(role: str, mask: Coordinate, var: NewNumber, column: IntExpr | None, count: int, first: int) -> Loop:
    """A mask for every filter column, or row, in the table from entry `first` on."""
    body = (
        compute(mask, role),
        MaskWord(id=f"{role}.{var}_word", note="32 lanes per word", value=mask.name, entry=var, first=first),
    )
    return Loop(id=f"{role}.{var}", note=f"one mask for every {var}", var=var, count=count, body=about(column, *body))


def clear(plan: Plan) -> tuple[Role, ...]:
    """Roles of the set-up that set the accumulator to zero, where its first tap does not write every lane.

    With persistent CTAs, the epilogue does.
    """
    zero = zero_step(plan)
    if zero is None or plan.launch.persistent:
        return ()
    return (
        warps_role("clear", 3, "clear the accumulator", (zero,)),
        core_of(plan.arch).cleared(plan),
    )


def zero_step(plan: Plan) -> ClearAcc | None:
    """The step that sets the accumulator to zero; None where the first tap writes every lane."""
    if not shared(plan).clear:
        return None
    return ClearAcc(
        id="clear.zero", note="the first tap does not write masked lanes", acc=ACC, columns=plan.tiling.block_n
    )
