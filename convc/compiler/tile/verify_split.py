"""Split-K CTAs: every step of the K loop is done once, and sums are read between two meetings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from convc.compiler.tile.program import TileProgram, walk
from convc.compiler.tile.steps.base import Compute, Step
from convc.compiler.tile.steps.split import (
    AddKept,
    AddSums,
    ClusterArrive,
    ClusterWait,
    KeepSums,
    LastLoop,
    ShareLoop,
    StageSums,
)
from convc.ir.expr import IntExpr, evaluate

MEETINGS = ["wrote", "arrive", "wait", "read", "arrive", "wait"]
"""What every warp does, in order: one that has no sums, or reads none, does the rest."""

QUAD_BYTES = 16
"""What a lane writes to the tile of sums at once."""


def every_step_once(program: TileProgram) -> Iterator[str]:
    """Every CTA begins at its own number and goes on by the number of CTAs, in every role."""
    parts = program.launch.grid[2]
    ranks = program.launch.cluster[2]
    if parts % ranks:
        yield f"the grid has {parts} CTAs along its third axis, no multiple of the {ranks} of a cluster"
    for role in program.all_roles:
        for loop in (step for step in walk(role.steps) if isinstance(step, ShareLoop)):
            if (loop.first, loop.stride) != ("part", parts):
                yield f"{loop.id} goes by {loop.stride} from {loop.first} on, {parts} split-K CTAs per tile"
            if loop.limit < parts or loop.count != -(-loop.limit // parts):
                yield f"{loop.id} counts {loop.count} steps of {loop.limit}, {parts} split-K CTAs per tile"


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


def sums_are_kept(program: TileProgram) -> Iterator[str]:
    """Several split-K clusters keep their sums, each as many, and the last one adds those of all."""
    clusters = program.launch.grid[2] // program.launch.cluster[2]
    if clusters == 1:
        return
    for role in program.teardown:
        steps = walk(role.steps)
        if not any(isinstance(step, AddSums) for step in steps):
            continue
        places = {str(step.dst): step.expr for step in steps if isinstance(step, Compute)}
        order = [type(step) for step in steps if isinstance(step, KeepSums | LastLoop | AddKept)]
        if order != [KeepSums, LastLoop, AddKept]:
            found = ", ".join(kind.__name__ for kind in order) or "none of them"
            yield f"{role.name} has to do KeepSums, LastLoop, AddKept in this order, and does {found}"
            continue
        keep, last, add = (step for step in steps if isinstance(step, KeepSums | LastLoop | AddKept))
        assert isinstance(keep, KeepSums)
        assert isinstance(last, LastLoop)
        assert isinstance(add, AddKept)
        if add not in last.body:
            yield f"{add.id} reads sums whether all are kept or not"
        for step in (last, add):
            if step.clusters != clusters:
                yield f"{step.id} is about {step.clusters} clusters of {clusters}"
        if (add.buffer, add.pitch, add.columns) != (keep.buffer, keep.pitch, keep.columns):
            yield f"{add.id} reads other sums than {keep.id} keeps"
        yield from _places_agree(program, keep, add, places)
        if any(program.launch.buffers[last.buffer].values or (1,)):
            yield f"the buffer {last.buffer} is not all 0 before a launch"


def _places_agree(program: TileProgram, keep: KeepSums, add: AddKept, places: Mapping[str, IntExpr]) -> Iterator[str]:
    """Sums of every cluster are looked for where it keeps them, at a corner of the tile."""
    own = places[keep.at]
    first = places[add.at]
    corner = dict.fromkeys(own.variables() | first.variables(), 0)
    for cluster in range(add.clusters):
        point = corner | {"part": cluster * program.launch.cluster[2]}
        if evaluate(own, point) - evaluate(first, point) != cluster * add.between:
            yield f"{add.id} looks for the sums of cluster {cluster} where {keep.id} does not keep them"


SPLIT_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (
    every_step_once,
    sums_between_meetings,
    sums_are_kept,
)
