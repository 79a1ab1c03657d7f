"""From a plan to a tile program: a schedule written down step by step.

    load   copies operand tiles into shared memory as stages become free
    mma    multiplies what has landed into the accumulator, and gives stages back
    epilogue  when the accumulator is complete: read it, add the bias, round, write

What happens in these is the schedule's; the acts around them are the same for all.
"""

from __future__ import annotations

from convc.compiler.plan.names import RANK
from convc.compiler.plan.records import Plan
from convc.compiler.schedules import skeleton
from convc.compiler.schedules.all import schedule_of
from convc.compiler.schedules.cache_hints import hinted
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.loop_check import check_loops, check_shares, check_walk
from convc.compiler.schedules.persistent import walking
from convc.compiler.schedules.split import PART, finished, sharing_k
from convc.compiler.schedules.tile_order import CTA, placed
from convc.compiler.schedules.unrolling import around_rings
from convc.compiler.tile.program import Range, TileProgram


def build(plan: Plan) -> TileProgram:
    """The program of a plan."""
    core = core_of(plan.arch)
    roles = schedule_of(plan.schedule).roles(plan)
    check_loops(plan, roles)
    place: dict[str, int] = {"tile_m": plan.launch.tiles[0], "tile_n": plan.launch.tiles[1]}
    places = plan.launch.order.places
    if places is not None:
        place = {CTA: plan.launch.grid[0]}
    if plan.launch.parts > 1:
        roles = sharing_k(plan, roles)
        check_shares(plan, roles)
        place[PART] = plan.launch.parts
    roles = core.joined(roles)
    if plan.launch.persistent:
        roles = walking(plan, roles)
        check_walk(plan, roles)
        place = {CTA: plan.launch.grid[0]}
    roles = around_rings(roles)
    warps = plan.launch.warps
    if plan.tiling.ctas > 1:
        place[RANK] = plan.tiling.ctas
    extents = {
        **place,
        "warp": warps,
        "thread": plan.launch.threads,
    }
    teardown = core.teardown(plan)
    return TileProgram(
        name=plan.problem.name,
        title=plan.problem.describe(),
        schedule=plan.schedule.title,
        arch=plan.arch.name,
        ptx_version=plan.arch.ptx_version,
        warps=warps,
        params=(*skeleton.maps_of(plan), *skeleton.pointers(plan)),
        inputs=tuple(Range(name=skeleton.number(name), low=0, high=extent - 1) for name, extent in extents.items()),
        setup=placed(plan, core.setup(plan, roles)),
        roles=hinted(plan, placed(plan, core.main(plan, roles))),
        teardown=placed(plan, finished(plan, teardown) if plan.launch.parts > 1 else teardown),
        storage=plan.storage,
        launch=skeleton.launch(plan),
        pair=plan.tiling.ctas,
        multicast=plan.tiling.multicast,
        ordered=None if places is None else plan.launch.tiles,
        order=plan.launch.order.name,
        table=() if places is None else places.table,
    )
