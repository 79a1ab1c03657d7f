"""CTAs that share a tile: every step of the K loop is done once, and sums are read between two meetings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from convc.compiler.tile.program import TileProgram, walk
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.split import AddSums, ClusterArrive, ClusterWait, ShareLoop, StageSums

MEETINGS = ["wrote", "arrive", "wait", "read", "arrive", "wait"]
"""What every warp of the epilogue does, in order; the others do the same without sums."""


def every_step_once(program: TileProgram) -> Iterator[str]:
    """Every CTA begins at its own number and goes on by the number of CTAs, in every role."""
    parts = program.launch.cluster[2]
    if program.launch.grid[2] != parts:
        yield f"the grid has {program.launch.grid[2]} CTAs along its third axis, a cluster {parts}"
    for role in program.all_roles:
        for loop in (step for step in walk(role.steps) if isinstance(step, ShareLoop)):
            if (loop.first, loop.stride) != ("part", parts):
                yield f"{loop.id} goes by {loop.stride} from {loop.first} on, {parts} CTAs share a tile"
            if loop.limit < parts or loop.count != -(-loop.limit // parts):
                yield f"{loop.id} counts {loop.count} steps of {loop.limit}, {parts} CTAs share a tile"


def sums_between_meetings(program: TileProgram) -> Iterator[str]:
    """Each warp arrives and waits twice; sums are written before the first time, and read before the second."""
    if program.launch.cluster[2] == 1:
        return
    names: dict[type[Step], str] = {StageSums: "wrote", AddSums: "read", ClusterArrive: "arrive", ClusterWait: "wait"}
    for warp in range(program.warps):
        roles = [role for role in (*program.roles, *program.teardown) if role.first_warp <= warp <= role.last_warp]
        steps = [step for role in roles for step in walk(role.steps)]
        order = [names[type(step)] for step in steps if type(step) in names]
        sums = [name for name in order if name in ("wrote", "read")]
        wanted = MEETINGS if sums else [name for name in MEETINGS if name not in ("wrote", "read")]
        if order != wanted:
            yield f"warp {warp} shares its sums in the order {', '.join(order)}, not {', '.join(wanted)}"
    for step in (step for role in program.teardown for step in walk(role.steps) if isinstance(step, AddSums)):
        if step.parts != program.launch.cluster[2]:
            yield f"{step.id} adds {step.parts} parts of {program.launch.cluster[2]}"


SPLIT_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (every_step_once, sums_between_meetings)
