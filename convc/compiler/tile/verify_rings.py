"""The rings of a tile program: where a schedule goes wrong if it goes wrong.

Every ring has one role that signals and one that waits, as often as each other, in step with the stages. A stage
expects exactly the bytes that its copies bring. Of two roles that wait for each other exactly one may start: with none
nothing ever happens, with both a stage is read before it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from convc.compiler.tile.steps.base import (
    Advance,
    BarrierRing,
    Commit,
    ExpectBytes,
    InitRings,
    Loop,
    RingWait,
    Step,
    TileProgram,
    TmaLoad,
    executions,
    walk,
)
from convc.compiler.tile.steps.scaled import Arrive
from convc.compiler.tile.steps.sharing import TmaWideLoad
from convc.ir.element_types import ELEMENT_TYPES
from convc.ir.launch import TensorMapParam
from convc.ir.tensormap import TensorMap

SIGNALS = (ExpectBytes, Commit, Arrive)
LOADS = (TmaLoad, TmaWideLoad)
USES = (RingWait, *SIGNALS)


def ring_ends(program: TileProgram) -> Iterator[str]:
    """Every ring is made ready once, signalled by its producer and awaited by its consumer, equally often."""
    ready = [name for role in program.setup for s in walk(role.steps) if isinstance(s, InitRings) for name in s.rings]
    for ring in program.storage.rings:
        if ready.count(ring.name) != 1:
            yield f"ring {ring.name} is made ready {ready.count(ring.name)} times"
        signals, waits = _ends(program, ring, SIGNALS), _ends(program, ring, (RingWait,))
        for what, ends, owner in (("signalled", signals, ring.producer), ("awaited", waits, ring.consumer)):
            roles = sorted({role for role, _, _ in ends})
            if roles != [owner]:
                yield f"ring {ring.name} is {what} by {', '.join(roles) or 'nobody'}, not by {owner}"
        signalled, awaited = (sum(count for _, _, count in ends) for ends in (signals, waits))
        if signalled != awaited * ring.arrivals:
            yield f"ring {ring.name} is signalled {signalled} times and awaited {awaited} times"


def ring_cursors(program: TileProgram) -> Iterator[str]:
    """In a loop, a role uses the rings of a cursor and then moves it on; outside of loops a ring has one stage."""
    rings = {ring.name: ring for ring in program.storage.rings}
    for role in program.all_roles:
        for body in _loop_bodies(role.steps):
            yield from _cursor_turns(role.name, body, rings)
        loose = [step for step in role.steps if isinstance(step, Advance)]
        loose += [step for step in role.steps if isinstance(step, USES) and rings[step.ring].stages > 1]
        if loose:
            yield f"role {role.name} uses a ring of several stages outside of a loop"


def _cursor_turns(role: str, body: tuple[Step, ...], rings: dict[str, BarrierRing]) -> Iterator[str]:
    """Uses and moves of each cursor take turns in a loop body."""
    used: dict[str, set[int]] = {}
    for step in body:
        if isinstance(step, USES):
            ring = rings[step.ring]
            used.setdefault(ring.cursor, set()).add(ring.stages)
        elif isinstance(step, Advance):
            stages = used.pop(step.cursor, set())
            if stages != {step.stages}:
                yield f"role {role} advances by {step.stages} in a loop over rings of {sorted(stages)} stages"
    for cursor, stages in used.items():
        where = f" of cursor {cursor}" if cursor else ""
        yield f"role {role} does not advance in a loop over rings{where} of {sorted(stages)} stages"


def ring_starts(program: TileProgram) -> Iterator[str]:
    """Of two rings that lead back and forth between two roles, exactly one finds its stages ready at first.

    A ring that a role signals to itself finds a fresh stage ready where the role waits before it signals.
    """
    rings = {(ring.producer, ring.consumer, ring.cursor): ring for ring in program.storage.rings}
    fresh = {
        ring.name: {step.fresh for _, step, _ in _ends(program, ring, (RingWait,))} for ring in program.storage.rings
    }
    for (producer, consumer, cursor), ring in rings.items():
        back = rings.get((consumer, producer, cursor))
        if back is ring:
            steps = [s for role in program.roles if role.name == producer for s in walk(role.steps)]
            first = next(s for s in steps if isinstance(s, RingWait | Commit) and s.ring == ring.name)
            if fresh[ring.name] != {isinstance(first, RingWait)}:
                outcome = "never passes" if fresh[ring.name] == {False} else "waits for nothing"
                yield f"role {producer} alone uses ring {ring.name}, and its first wait {outcome}"
        elif back is not None and fresh[ring.name] | fresh[back.name] != {False, True}:
            yield f"of the waits for the rings {ring.name} and {back.name}, exactly one may find a fresh stage ready"
        elif back is None and fresh[ring.name] != {False}:
            yield f"the wait for ring {ring.name} finds a fresh stage ready, and nothing has been done"


def ring_bytes(program: TileProgram) -> Iterator[str]:
    """A stage expects what the copies bring before the role moves on to the next one."""
    cursors = {ring.name: ring.cursor for ring in program.storage.rings}
    maps = dict(zip(program.params, program.launch.params, strict=True))
    for role in program.all_roles:
        running: dict[str, list] = {}
        for step, times in executions(role.steps):
            if isinstance(step, ExpectBytes):
                running[step.ring] = [step, step.bytes * times]
            elif isinstance(step, Advance):
                for ring in [ring for ring in running if cursors[ring] == step.cursor]:
                    yield from _brought(*running.pop(ring))
            elif isinstance(step, LOADS):
                source = maps[step.map]
                if step.ring not in running:
                    yield f"{step.id} counts on {step.ring}, and nobody expects its bytes"
                elif isinstance(source, TensorMapParam):
                    running[step.ring][1] -= copy_bytes(step, source.map) * times
        for step, missing in running.values():
            yield from _brought(step, missing)


def _brought(step: ExpectBytes, missing: int) -> Iterator[str]:
    if missing:
        which = "missing" if missing > 0 else "too many"
        yield f"{step.id} expects {step.bytes} bytes a stage, and {abs(missing)} in all are {which}"


def copies(program: TileProgram) -> Iterator[str]:
    """A copy fits its tile, its coordinates are those of its map, and its ring has the stages of the tile."""
    rings = {ring.name: ring for ring in program.storage.rings}
    tiles = {tile.name: tile for tile in program.storage.smem}
    maps = dict(zip(program.params, program.launch.params, strict=True))
    for load in (step for role in program.all_roles for step in walk(role.steps) if isinstance(step, LOADS)):
        tile, ring, param = tiles[load.tile], rings[load.ring], maps[load.map]
        if not isinstance(param, TensorMapParam):
            yield f"{load.id} copies through {load.map}, which is no tensor map"
            continue
        source, size = param.map, copy_bytes(load, param.map)
        if size > tile.bytes or (isinstance(load, TmaLoad) and size != tile.bytes):
            yield f"{load.id} copies {size} bytes into tile {tile.name} of {tile.bytes}"
        if len(load.coords) != source.rank or not _suits(load, source):
            yield f"{load.id} does not have the coordinates of a {source.rank}-D {source.mode} map"
        if (tile.stages, tile.cursor) != (ring.stages, ring.cursor):
            yield f"tile {tile.name} has {tile.stages} stages, ring {ring.name} has {ring.stages}"


def _suits(load: TmaLoad | TmaWideLoad, source: TensorMap) -> bool:
    """Whether the kind of a copy is that of its map."""
    if isinstance(load, TmaWideLoad):
        return source.mode == ("im2col_w128" if load.halo_each_window else "im2col_w")
    return source.mode == ("im2col" if load.offsets else "tile")


def copy_bytes(load: TmaLoad | TmaWideLoad, source: TensorMap) -> int:
    """Bytes that one copy through a tensor map brings, zero-filled ones included."""
    if source.mode == "tile":
        return math.prod(source.box) * ELEMENT_TYPES[source.dtype].bytes
    halo = load.halo if isinstance(load, TmaWideLoad) else 0
    rows = source.rows + (4 * halo if source.mode == "im2col_w128" else halo)
    return rows * source.channels * ELEMENT_TYPES[source.dtype].bytes


RING_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (
    ring_ends,
    ring_cursors,
    ring_starts,
    ring_bytes,
    copies,
)


def _loop_bodies(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The steps directly inside each loop."""
    return (step.body for step in walk(steps) if isinstance(step, Loop))


def _ends(program: TileProgram, ring: BarrierRing, kinds: tuple[type[Step], ...]) -> list[tuple[str, Step, int]]:
    """(role, step, how often it runs) of the steps of some kinds that name the ring; arrivals by their threads."""
    return [
        (role.name, step, count * (32 * (role.last_warp - role.first_warp + 1) if isinstance(step, Arrive) else 1))
        for role in program.all_roles
        for step, count in executions(role.steps)
        if isinstance(step, kinds) and step.ring == ring.name
    ]
