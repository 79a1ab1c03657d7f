"""CTAs that share a tile: every step of the K loop is done once, and sums are read between two meetings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from convc.compiler.tile.program import TileProgram, walk
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.split import AddSums, ClusterArrive, ClusterWait, ShareLoop, StageSums

MEETINGS = ["wrote", "arrive", "wait", "read", "arrive", "wait"]
"""What every warp does, in order: one that has no sums, or reads none, does the rest."""

QUAD_BYTES = 16
"""What a lane writes to the tile of sums at once."""


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
    writers: set[int] = set()
    readers: set[int] = set()
    names: dict[type[Step], str] = {StageSums: "wrote", AddSums: "read", ClusterArrive: "arrive", ClusterWait: "wait"}
    for warp in range(program.warps):
        roles = [role for role in (*program.roles, *program.teardown) if role.first_warp <= warp <= role.last_warp]
        steps = [step for role in roles for step in walk(role.steps)]
        order = [names[type(step)] for step in steps if type(step) in names]
        writers |= {warp} if "wrote" in order else set()
        readers |= {warp} if "read" in order else set()
        sums = [name for name in MEETINGS if name in ("wrote", "read") and name in order]
        wanted = [name for name in MEETINGS if name not in ("wrote", "read") or name in sums]
        if order != wanted:
            yield f"warp {warp} shares its sums in the order {', '.join(order)}, not {', '.join(wanted)}"
    tile = program.storage.sums
    lanes = 0 if tile is None else tile.row_bytes // QUAD_BYTES
    if 32 * len(readers) != lanes or not readers <= writers:
        yield f"warps {sorted(writers)} write and {sorted(readers)} read sums of {lanes} lanes"
    for step in (step for role in program.teardown for step in walk(role.steps) if isinstance(step, AddSums)):
        if step.parts != program.launch.cluster[2]:
            yield f"{step.id} adds {step.parts} parts of {program.launch.cluster[2]}"


SPLIT_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (every_step_once, sums_between_meetings)
