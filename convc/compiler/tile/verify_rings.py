"""The rings of a tile program: where a schedule goes wrong if it goes wrong.

Every ring has one role that signals and one that waits, as often as each other, in step with the stages. A stage
expects exactly the bytes that its copies bring. Of two roles that wait for each other exactly one may start: with none
nothing ever happens, with both a stage is read before it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from convc.compiler.plan.storage import ANSWER_BYTES, EVERY_ROLE, SHARERS, BarrierRing
from convc.compiler.tile.program import Role, TileProgram, executions, walk
from convc.compiler.tile.steps.base import Repeat, Step
from convc.compiler.tile.steps.copies import TensorCopy, TmaLoad
from convc.compiler.tile.steps.persistent import AnswerRead, AskTile, Release, ReleaseRead
from convc.compiler.tile.steps.rings import Advance, Arrive, Commit, ExpectBytes, RingWait, Signal, WarpCommit
from convc.compiler.tile.steps.setup import InitRings
from convc.ir.launch import TensorMapParam


def ring_ends(program: TileProgram) -> Iterator[str]:
    """Every ring is made ready once, signalled by its producer and awaited by its consumer, equally often.

    Where the producer is a stage ahead, it signals once more.
    """
    ready = [name for role in program.setup for s in walk(role.steps) if isinstance(s, InitRings) for name in s.rings]
    for ring in program.storage.rings:
        if ready.count(ring.name) != 1:
            yield f"ring {ring.name} is made ready {ready.count(ring.name)} times"
        signals = _ends(program, ring, Signal)
        waits = [end for end in _ends(program, ring, RingWait) if not end[1].last]
        for what, ends, owner in (("signalled", signals, ring.producer), ("awaited", waits, ring.consumer)):
            roles = sorted({role for role, _, _ in ends})
            if roles != (sorted(role.name for role in program.roles) if owner == EVERY_ROLE else [owner]):
                yield f"ring {ring.name} is {what} by {', '.join(roles) or 'nobody'}, not by {owner}"
        signalled = sum(count for _, _, count in signals)
        awaited = sum(count for _, _, count in waits)
        if ring.consumer == EVERY_ROLE:
            awaited //= len(program.roles)
        if signalled != (awaited + ring.ahead) * ring.arrivals:
            yield f"ring {ring.name} is signalled {signalled} times and awaited {awaited} times"


def ring_cursors(program: TileProgram) -> Iterator[str]:
    """In a loop, a role uses the rings of a state and then moves it on; outside of loops a ring has one stage."""
    rings: dict[str, BarrierRing] = {ring.name: ring for ring in program.storage.rings}
    for role in program.all_roles:
        for body in _loop_bodies(role.steps):
            yield from _cursor_turns(role.name, body, rings)
        loose = [step for step in role.steps if isinstance(step, Advance)]
        loose += [step for step in role.steps if isinstance(step, RingWait | Signal) and rings[step.ring].stages > 1]
        if loose:
            yield f"role {role.name} uses a ring of several stages outside of a loop"


def _cursor_turns(role: str, body: tuple[Step, ...], rings: dict[str, BarrierRing]) -> Iterator[str]:
    """Uses and moves of each state take turns in a loop body."""
    used: dict[str, set[int]] = {}
    for step in body:
        if isinstance(step, RingWait | Signal) and not isinstance(step, ReleaseRead):  # in a loop of the tile's
            ring = rings[step.ring]
            used.setdefault(ring.state, set()).add(ring.stages)
        elif isinstance(step, Advance):
            stages = used.pop(step.state, set())
            if stages != {step.stages}:
                yield f"role {role} advances by {step.stages} in a loop over rings of {sorted(stages)} stages"
    for state, stages in used.items():
        where = f" of state {state}" if state else ""
        yield f"role {role} does not advance in a loop over rings{where} of {sorted(stages)} stages"


def ring_starts(program: TileProgram) -> Iterator[str]:
    """Of two rings that lead back and forth between two roles, exactly one finds its stages ready at first.

    A ring that a role signals to itself finds a fresh stage ready where the role waits before it signals.
    """
    rings = {(ring.producer, ring.consumer, ring.state): ring for ring in program.storage.rings}
    opens = {
        ring.name: {step.starts_open for _, step, _ in _ends(program, ring, RingWait)} for ring in program.storage.rings
    }
    for (producer, consumer, state), ring in rings.items():
        back = rings.get((consumer, producer, state))
        if back is ring:
            steps = [s for role in program.roles if role.name == producer for s in walk(role.steps)]
            first = next(s for s in steps if isinstance(s, RingWait | Commit) and s.ring == ring.name)
            if opens[ring.name] != {isinstance(first, RingWait)}:
                outcome = "never passes" if opens[ring.name] == {False} else "waits for nothing"
                yield f"role {producer} alone uses ring {ring.name}, and its first wait {outcome}"
        elif back is not None and opens[ring.name] | opens[back.name] != {False, True}:
            yield f"of the waits for the rings {ring.name} and {back.name}, exactly one may find a fresh stage ready"
        elif back is None and opens[ring.name] != {False}:
            yield f"the wait for ring {ring.name} finds a fresh stage ready, and nothing has been done"


def ring_bytes(program: TileProgram) -> Iterator[str]:
    """A stage expects what the copies bring before the role moves on to the next one."""
    states: dict[str, str] = {ring.name: ring.state for ring in program.storage.rings}
    tellers = {ring.name: program.pair if ring.at == "leader" else 1 for ring in program.storage.rings}
    maps = dict(zip(program.params, program.launch.params, strict=True))
    for role in program.all_roles:
        expecting: dict[str, ExpectBytes] = {}
        missing: dict[str, int] = {}
        for step, times in executions(role.steps):
            if isinstance(step, ExpectBytes):
                expecting[step.ring] = step
                missing[step.ring] = step.bytes * times
            elif isinstance(step, Advance):
                for ring in [ring for ring in expecting if states[ring] == step.state]:
                    yield from _brought(expecting.pop(ring), missing.pop(ring))
            elif isinstance(step, AskTile):
                if step.ring not in expecting:
                    yield f"{step.id} counts on {step.ring}, and nobody expects its bytes"
                else:
                    missing[step.ring] -= ANSWER_BYTES * times
            elif isinstance(step, TensorCopy):
                source = maps[step.map]
                if step.ring not in expecting:
                    yield f"{step.id} counts on {step.ring}, and nobody expects its bytes"
                elif isinstance(source, TensorMapParam):
                    brought = step.bytes_through(source.map) * times
                    missing[step.ring] -= (
                        brought * tellers[step.ring] * (step.bringers if isinstance(step, TmaLoad) else 1)
                    )
        for ring, step in expecting.items():
            yield from _brought(step, missing[ring])


def _brought(step: ExpectBytes, missing: int) -> Iterator[str]:
    if missing:
        which = "missing" if missing > 0 else "too many"
        yield f"{step.id} expects {step.bytes} bytes a stage, and {abs(missing)} in all are {which}"


def copies(program: TileProgram) -> Iterator[str]:
    """A copy fits its tile, its coordinates are those of its map, and its ring has the stages of the tile."""
    rings = {ring.name: ring for ring in program.storage.rings}
    tiles = {tile.name: tile for tile in program.storage.tiles}
    maps = dict(zip(program.params, program.launch.params, strict=True))
    for load in (step for role in program.all_roles for step in walk(role.steps) if isinstance(step, TensorCopy)):
        tile = tiles[load.tile]
        ring = rings[load.ring]
        param = maps[load.map]
        if not isinstance(param, TensorMapParam):
            yield f"{load.id} copies through {load.map}, which is no tensor map"
            continue
        source = param.map
        size = load.bytes_through(source)
        if size > tile.bytes or (isinstance(load, TmaLoad) and not load.at and size != tile.bytes):
            yield f"{load.id} copies {size} bytes into tile {tile.name} of {tile.bytes}"
        if len(load.coords) != source.rank or source.mode != load.map_mode:
            yield f"{load.id} does not have the coordinates of a {source.rank}-D {source.mode} map"
        if (tile.stages, tile.state) != (ring.stages, ring.state):
            yield f"tile {tile.name} has {tile.stages} stages, ring {ring.name} has {ring.stages}"


RING_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (
    ring_ends,
    ring_cursors,
    ring_starts,
    ring_bytes,
    copies,
)


def _loop_bodies(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    return (step.body for step in walk(steps) if isinstance(step, Repeat))


def signals_of(role: Role, step: Step) -> int:
    """Arrivals that a role makes with a step each time."""
    if isinstance(step, Arrive | Release | ReleaseRead):
        return role.threads
    if isinstance(step, AnswerRead) and not role.elected:
        return role.threads
    return role.threads // 32 if isinstance(step, WarpCommit) else 1


RingStep = TypeVar("RingStep", RingWait, Signal)


def _ends(program: TileProgram, ring: BarrierRing, kind: type[RingStep]) -> list[tuple[str, RingStep, int]]:
    """(role, step, how often it runs) of the steps of a kind that name the ring; arrivals by their threads or warps."""
    found: list[tuple[str, RingStep, int]] = []
    for role in program.all_roles:
        for step, count in executions(role.steps):
            if isinstance(step, kind) and step.ring == ring.name:
                both = isinstance(step, Release | ReleaseRead) and ring.at == "leader"
                once = (program.visits or 1) if isinstance(step, ReleaseRead) else count  # a tile has one such read
                times = once * (program.pair if both else 1)
                if isinstance(step, Commit | WarpCommit) and ring.at == SHARERS:
                    times *= sum(program.multicast) - 1  # as many CTAs load for this one as it loads for
                found.append((role.name, step, times * signals_of(role, step)))
    return found
