"""From a plan to a tile program: a schedule written down step by step.

    load   copies operand tiles into shared memory as stages become free
    mma    multiplies what has landed into the accumulator, and gives stages back
    epilogue  when the accumulator is complete: read it, add the bias, round, write

What happens in these is the schedule's; the acts around them are the same for all.

Loops whose text names the stages of a ring one by one, where the tensor core would wait for instructions.

The place in a ring costs a dozen instructions a stage: two addresses of barriers, one or two of operands, a step, and a
test for the end of the ring. A stage of four MMAs hides them. One of a single MMA, as of a depthwise filter or of few
input channels, does not: there the text has the body of the loop as often as it takes to come around the ring, and
every stage is a constant in its copy.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from convc.compiler.plan.names import RANK
from convc.compiler.plan.records import Plan
from convc.compiler.schedules import skeleton
from convc.compiler.schedules.all import schedule_of
from convc.compiler.schedules.base import Roles
from convc.compiler.schedules.cores.all import core_of
from convc.compiler.schedules.features.cache_hints import hinted
from convc.compiler.schedules.features.persistent import with_persistent
from convc.compiler.schedules.features.split import PART, finished, sharing_k
from convc.compiler.schedules.features.tile_order import CTA, placed
from convc.compiler.schedules.loop_check import check_loops, check_persistent, check_shares
from convc.compiler.tile.program import Range, TileProgram, executions, walk
from convc.compiler.tile.steps.base import Loop, Repeat, Step
from convc.compiler.tile.steps.mma import Multiply
from convc.compiler.tile.steps.rings import Advance


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
        roles = with_persistent(plan, roles)
        check_persistent(plan, roles)
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


HIDDEN_BY = 4
"""Tensor instructions a stage that keep the tensor core busy while the next stage is found (N = 64)."""

MOST_COPIES = 16
"""Copies of what is innermost in a role: text that has to be read, and to fit in the instruction cache."""


def around_rings(roles: Roles) -> Roles:
    """The roles, of which the one that multiplies goes around its rings in the text where stages hold few MMAs.

    The one that loads has to set up each copy anyhow, which takes longer than to find the stage.
    """
    multiplied = sum(step.atoms * times for step, times in executions(roles.multiply) if isinstance(step, Multiply))
    moves = Counter[str]()
    for step, times in executions(roles.multiply):
        if isinstance(step, Advance):
            moves[step.state] += times
    if multiplied >= HIDDEN_BY * max(moves.values(), default=0):
        return roles
    return dataclasses.replace(roles, multiply=_around(roles.multiply))


def _around(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """A role whose stages are known wherever it is; as it was where that takes too much text, or is not so."""
    loops = (step for step in walk(steps) if isinstance(step, Loop))
    stages = {step.state: step.stages for loop in loops for step in walk(loop.body) if isinstance(step, Advance)}
    written = tuple(_copied(step, stages) for step in steps)
    fits = max((_copies(step) for step in written), default=1) <= MOST_COPIES
    return written if fits and all(_comes_back(step, stages) for step in written) else steps


def _copied(step: Step, stages: Mapping[str, int]) -> Step:
    """A loop with as many copies of its body as bring all rings back to where they were, or with all of its turns."""
    if not isinstance(step, Repeat):
        return step
    body = tuple(_copied(one, stages) for one in step.body)
    if not isinstance(step, Loop) or step.written_out:
        return replace(step, body=body)
    turns = math.lcm(*(count // math.gcd(count, _moved(body, state)) for state, count in stages.items()))
    return replace(step, body=body, copies=min(turns, step.count))


def _copies(step: Step) -> int:
    """How often the text has the innermost steps of a loop, those behind the last whole turn included."""
    if not isinstance(step, Repeat):
        return 1
    inside = max(map(_copies, step.body), default=1)
    return inside * (step.copies + step.count % step.copies) if isinstance(step, Loop) else inside


def _comes_back(step: Step, stages: Mapping[str, int]) -> bool:
    """Whether a loop over tiles begins each at the same stage."""
    if not isinstance(step, Repeat) or isinstance(step, Loop):
        return True
    return all(_moved(step.body, state) % count == 0 for state, count in stages.items())


def _moved(steps: tuple[Step, ...], state: str) -> int:
    """Stages that steps move a state on."""
    return sum(times for step, times in executions(steps) if isinstance(step, Advance) and step.state == state)
