"""The rings of a tile program: where a schedule goes wrong if it goes wrong.

Every ring has one role that signals and one that waits, as often as each other, in step with the stages. A stage
expects exactly the bytes that its copies bring. Of two roles that wait for each other exactly one may start: with none
nothing ever happens, with both a stage is read before it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from convc.artifact import BYTES, TensorMapParam
from convc.tensormap import TensorMap
from convc.tile.steps import (
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

SIGNALS = (ExpectBytes, Commit)
USES = (RingWait, ExpectBytes, Commit, TmaLoad)


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
    """A role that uses rings in a loop moves on once a turn, by their stages; outside of loops a ring has one stage."""
    stages = {ring.name: ring.stages for ring in program.storage.rings}
    for role in program.all_roles:
        for body in _loop_bodies(role.steps):
            advances = [step.stages for step in body if isinstance(step, Advance)]
            used = sorted({stages[step.ring] for step in body if isinstance(step, USES)})
            if advances != used:
                yield f"role {role.name} advances by {advances} in a loop over rings of {used} stages"
        loose = [step for step in role.steps if isinstance(step, Advance)]
        loose += [step for step in role.steps if isinstance(step, USES) and stages[step.ring] > 1]
        if loose:
            yield f"role {role.name} uses a ring of several stages outside of a loop"


def ring_starts(program: TileProgram) -> Iterator[str]:
    """Of two rings that lead back and forth between two roles, exactly one finds its stages ready at first."""
    rings = {(ring.producer, ring.consumer): ring for ring in program.storage.rings}
    fresh = {
        ring.name: {step.fresh for _, step, _ in _ends(program, ring, (RingWait,))} for ring in program.storage.rings
    }
    for (producer, consumer), ring in rings.items():
        back = rings.get((consumer, producer))
        if back is not None and fresh[ring.name] | fresh[back.name] != {False, True}:
            yield f"of the waits for the rings {ring.name} and {back.name}, exactly one may find a fresh stage ready"
        if back is None and fresh[ring.name] != {False}:
            yield f"the wait for ring {ring.name} finds a fresh stage ready, and nothing has been done"


def ring_bytes(program: TileProgram) -> Iterator[str]:
    """A stage expects what its copies bring."""
    rings = {ring.name: ring for ring in program.storage.rings}
    tiles = {tile.name: tile for tile in program.storage.smem}
    for role in program.all_roles:
        for body in (role.steps, *_loop_bodies(role.steps)):
            for expect in (step for step in body if isinstance(step, ExpectBytes)):
                loads = [step for step in body if isinstance(step, TmaLoad) and step.ring == expect.ring]
                brought, counted = sum(tiles[load.tile].bytes for load in loads), rings[expect.ring].tx_bytes
                if not brought == expect.bytes == counted:
                    yield (
                        f"{expect.id} expects {expect.bytes} bytes, the copies bring {brought}, "
                        f"the ring counts {counted}"
                    )


def copies(program: TileProgram) -> Iterator[str]:
    """A copy's box is its tile, its coordinates are those of its map, and its ring has the stages of the tile."""
    rings = {ring.name: ring for ring in program.storage.rings}
    tiles = {tile.name: tile for tile in program.storage.smem}
    maps = dict(zip(program.params, program.launch.params, strict=True))
    for load in (step for role in program.all_roles for step in walk(role.steps) if isinstance(step, TmaLoad)):
        tile, ring, param = tiles[load.tile], rings[load.ring], maps[load.map]
        if not isinstance(param, TensorMapParam):
            yield f"{load.id} copies through {load.map}, which is no tensor map"
            continue
        source = param.map
        if box_bytes(source) != tile.bytes:
            yield f"{load.id} copies {box_bytes(source)} bytes into tile {tile.name} of {tile.bytes}"
        if len(load.coords) != source.rank or bool(load.offsets) != (source.mode == "im2col"):
            yield f"{load.id} does not have the coordinates of a {source.rank}-D {source.mode} map"
        if tile.stages != ring.stages:
            yield f"tile {tile.name} has {tile.stages} stages, ring {ring.name} has {ring.stages}"


def box_bytes(source: TensorMap) -> int:
    """Bytes that one copy through a tensor map brings, zero-filled ones included."""
    elements = math.prod(source.box) if source.mode == "tile" else source.channels * source.pixels
    return elements * BYTES[source.dtype]


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
    """(role, step, how often it runs) of the steps of some kinds that name the ring."""
    return [
        (role.name, step, count)
        for role in program.all_roles
        for step, count in executions(role.steps)
        if isinstance(step, kinds) and step.ring == ring.name
    ]
