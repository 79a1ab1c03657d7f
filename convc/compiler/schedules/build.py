"""From a plan to a tile program: a schedule written down step by step.

    load   copies operand tiles into shared memory as stages become free
    mma    multiplies what has landed into the accumulator, and gives stages back
    store  when the accumulator is complete: read it, add the bias, round, write

The three acts around these are the same for all schedules (`convc.compiler.schedules.kernel`); each schedule has a
module of its own.
"""

from __future__ import annotations

from convc.compiler.plan.records import Plan
from convc.compiler.schedules import kernel, reload, scaled, stationary
from convc.compiler.schedules import roles as reuse
from convc.compiler.tile.steps.base import Range, TileProgram


def build(plan: Plan) -> TileProgram:
    """The program of a plan."""
    grid, before, after = plan.launch.grid, (), ()
    match plan.schedule:
        case "reload":
            epilogue = kernel.store(plan, scaled.carry_factors(plan), scaled.scale_sums(plan, kernel.chunk_of(plan)))
            roles = kernel.main(reload.load(plan), reload.multiply(plan), epilogue)
        case "stationary":
            roles = kernel.main(reuse.load(plan), stationary.multiply(plan), stationary.store(plan))
        case _:
            roles = kernel.main(reuse.load(plan), reuse.multiply(plan), kernel.store(plan))
            before, after = reuse.masks(plan), reuse.clear(plan)
    return TileProgram(
        name=plan.problem.name,
        title=plan.problem.describe(),
        schedule=plan.title,
        arch=plan.arch.name,
        ptx_version=plan.arch.ptx_version,
        warps=kernel.WARPS,
        params=(*kernel.maps_of(plan), *kernel.pointers(plan)),
        inputs=(
            Range(name="tile_m", low=0, high=grid[0] - 1),
            Range(name="tile_n", low=0, high=grid[1] - 1),
            Range(name="warp", low=0, high=kernel.WARPS - 1),
            Range(name="thread", low=0, high=32 * kernel.WARPS - 1),
        ),
        setup=kernel.setup(plan, before, after),
        roles=roles,
        teardown=kernel.teardown(plan),
        storage=plan.storage,
        launch=kernel.launch(plan),
    )
