"""From a kernel whose CTAs lie as their tiles do to one whose tiles are made in another order.

CTAs lie in one row, and each knows the number of its tile; every role that asks for the place of that tile works it out
first. Persistent CTAs do so in their loops.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from convc.compiler.index.order_names import ORDERS, ROWS, OrderName
from convc.compiler.index.tile_order import formulas_of, unit_of
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.cost import estimate
from convc.compiler.plan.memory_traffic import launch_bytes
from convc.compiler.plan.names import Number
from convc.compiler.plan.offer import Candidate
from convc.compiler.plan.records import Estimate, Plan
from convc.compiler.plan.tile_order import Bytes, TileOrder, choose_order, in_rows
from convc.compiler.schedules.skeleton import number
from convc.compiler.tile.program import Role, walk
from convc.compiler.tile.steps.base import Compute, LookUp, Step
from convc.compiler.tile.uses import reads
from convc.errors import PlanError
from convc.ir.expr import IntExpr, Var, substitute
from convc.ir.tile_order import ENTRY, TILE

CTA = Number("cta")


def requested_order(options: ScheduleOptions) -> OrderName | None:
    """The order that a user asks for; None: the planner's choice."""
    return next((order for order in ORDERS if order == options.rasterization_order), None)


def order_for(best: Candidate, asked: OrderName | None) -> TileOrder:
    """Choose the order of a candidate's tiles; PlanError where the one that is asked for cannot be."""
    tiled = best.tiled
    if tiled.tiling.multicast != (1, 1):
        if asked in (None, ROWS):
            return in_rows(bytes_of(best))
        raise PlanError(
            f"rasterization_order {asked} leaves no rows and columns of tiles to a cluster whose CTAs share loads"
        )
    at_once = tiled.ctas or tiled.arch.rates.sms * best.cost.beside // tiled.parts
    return choose_order(tiled.grid, tiled.tiling.ctas, at_once, bytes_of(best), asked)


def bytes_of(best: Candidate) -> Bytes:
    """Count what a candidate's launch reads and writes."""
    return launch_bytes(best.tiled.layout, best.tiled.arch.rates)


def reordered(best: Candidate, order: TileOrder) -> Estimate:
    """The estimate of a candidate, with what memory moves in an order, where L2 does not hold all and that is known."""
    if not order.traffic or not best.cost.memory_bytes:
        return best.cost
    return estimate(replace(best.tiled, traffic=order.traffic[0].memory_bytes), best.work)


def place_steps(plan: Plan, role: str, tile: IntExpr, which: str = "") -> tuple[Step, ...]:
    """The steps that find the place of a tile by its number, in the plan's order.

    `which` is what the steps and numbers carry at their end, where a role asks for several tiles.
    """
    places = plan.launch.order.places
    rows, columns = plan.launch.tiles
    looked_up = {TILE: tile, ENTRY: Var(number(f"{ENTRY}{which}"))}
    found = tuple(substitute(expr, looked_up) for expr in formulas_of(places, plan.launch.tiles))
    looked: tuple[Step, ...] = ()
    if places is not None and places.table:
        unit = number(f"unit{which}")
        entry = number(f"{ENTRY}{which}")
        each = substitute(unit_of(places.together), {TILE: tile})
        looked = (
            Compute(id=f"{role}.unit{which}", note="tiles with one entry", dst=unit, expr=each),
            LookUp(id=f"{role}.entry{which}", note="the place of these tiles", dst=entry, index=unit),
        )
    axes = (("tile_m", "pixels of the tile", rows), ("tile_n", "channels of the tile", columns))
    return (
        *looked,
        *(
            Compute(
                id=f"{role}.{name}{which}",
                note=note,
                dst=number(f"{name}{which}"),
                expr=expr,
                below=None if places is None else extent,
            )
            for (name, note, extent), expr in zip(axes, found, strict=True)
        ),
    )


def needed_by(places: tuple[Step, ...], steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Those of the steps that find a place whose numbers other steps read, or these."""
    asked = {name for step in walk(steps) for name in reads(step)}
    kept: list[Step] = []
    for step in reversed(places):
        if isinstance(step, Compute | LookUp) and step.dst in asked:
            kept.insert(0, step)
            asked.update(reads(step))
    return tuple(kept)


def placed(plan: Plan, act: tuple[Role, ...]) -> tuple[Role, ...]:
    """The roles of an act; those that ask for the place of their CTA's tile work it out first."""
    if plan.launch.order.places is None or plan.launch.persistent:
        return act
    return tuple(_placed(plan, act))


def _placed(plan: Plan, act: tuple[Role, ...]) -> Iterator[Role]:
    for role in act:
        places = needed_by(place_steps(plan, role.name, Var(CTA)), role.steps)
        yield replace(role, steps=(*places, *role.steps))
