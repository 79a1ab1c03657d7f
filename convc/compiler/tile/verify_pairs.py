"""CTAs that work together: they meet before and after, and each signal is for barriers that are waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from convc.compiler.plan.storage import SHARERS
from convc.compiler.tile.program import TileProgram, executions, walk
from convc.compiler.tile.steps.base import Loop
from convc.compiler.tile.steps.lanes import ClearAcc, LoadMask, MaskWord
from convc.compiler.tile.steps.mma import Multiply
from convc.compiler.tile.steps.persistent import RoleSync
from convc.compiler.tile.steps.rings import Advance, Commit, RingWait, Signal
from convc.compiler.tile.steps.setup import ClusterSync, TmemAlloc, TmemDealloc
from convc.compiler.tile.steps.split import ClusterArrive, ClusterWait


def clusters_meet(program: TileProgram) -> Iterator[str]:
    """CTAs that use each other's memory meet when barriers are ready, and before one of them leaves."""
    if program.pair == 1 and program.multicast == (1, 1):
        return
    for name, act in (("set-up", program.setup), ("teardown", program.teardown)):
        for warp in range(program.warps):
            roles = (role for role in act if role.first_warp <= warp <= role.last_warp)
            kinds = [type(step) for role in roles for step in role.steps]
            apart = ClusterArrive in kinds and ClusterWait in kinds[kinds.index(ClusterArrive) :]
            if ClusterSync not in kinds and not apart:
                yield f"the CTAs of a cluster do not meet in the {name}"
                break


def pairs_allocate(program: TileProgram) -> Iterator[str]:
    """Tensor memory of a pair is got, and given back, by a warp that has met the other CTA (PTX manual, tcgen05.alloc).

    It comes to both CTAs at once, and the one writes where the other keeps the address.
    """
    if program.pair == 1:
        return
    for act in (program.setup, program.teardown):
        met: set[int] = set()
        for role in act:
            warps = range(role.first_warp, role.last_warp + 1)
            for step in role.steps:
                if isinstance(step, ClusterWait | ClusterSync):
                    met.update(warps)
                elif isinstance(step, TmemAlloc | TmemDealloc) and not met.issuperset(warps):
                    yield f"{step.id} is for both CTAs of a pair, and its warp has not met the other CTA"


def last_signals_come(program: TileProgram) -> Iterator[str]:
    """A CTA that others give stages back to, by commits, waits for the last signal of each stage before it ends.

    A wait for room is for the signal of a turn before, so that no other role waits for the last turn's.
    """
    for ring in program.storage.rings:
        steps = [(step, times) for role in program.roles for step, times in executions(role.steps)]
        told = any(isinstance(step, Commit) and step.ring == ring.name for step, _ in steps)
        waits = [(step, times) for step, times in steps if isinstance(step, RingWait) and step.ring == ring.name]
        if ring.at in ("all", SHARERS) and told and any(step.starts_open for step, _ in waits):
            last = sum(times for step, times in waits if step.last)
            if last != ring.stages:
                yield f"other CTAs signal ring {ring.name}, and the last signals of {last} of {ring.stages} are awaited"


def pairs_share(program: TileProgram) -> Iterator[str]:
    """The first CTA of a pair multiplies for both; it alone waits where copies of both tell, and it tells both."""
    if program.launch.cluster[0] % program.pair or program.launch.grid[0] % program.pair:
        yield f"{program.pair} CTAs multiply as one in clusters of {program.launch.cluster}, grid {program.launch.grid}"
    rings = {ring.name: ring for ring in program.storage.rings}
    for role in program.roles:
        steps = list(walk(role.steps))
        multiplies = any(isinstance(step, Multiply) for step in steps)
        if multiplies and not role.leads and program.pair > 1:
            yield f"role {role.name} multiplies in both CTAs of a pair"
        if role.leads and not (multiplies and program.pair > 1):
            yield f"role {role.name} is the first CTA's alone, and multiplies for no pair"
        for step in steps:
            if isinstance(step, RingWait):
                ring = rings[step.ring]
                right = "leader" if role.leads else "all"
                if program.pair == 1 or "mma" not in (ring.producer, ring.consumer):
                    right = "own"
                if ring.at not in (right, SHARERS):
                    yield f"{step.id} waits for ring {step.ring}, whose signals are for {rings[step.ring].at}"


def lanes_of_both(program: TileProgram) -> Iterator[str]:
    """A role that multiplies for a pair masks lanes of both CTAs, and begins when both have cleared their sums."""
    if program.pair == 1:
        return
    cleared = ""
    for step in (step for role in program.setup for step in walk(role.steps)):
        if isinstance(step, ClearAcc):
            cleared = step.id
        elif isinstance(step, ClusterSync):
            cleared = ""
    if cleared:
        yield f"the CTAs of a pair do not meet behind {cleared}, and one multiplies into the sums of both"
    for role in program.roles:
        steps = list(walk(role.steps))
        read = {step.rank for step in steps if isinstance(step, LoadMask)}
        masked = [step.id for step in steps if isinstance(step, Multiply) and step.masked]
        if masked and read != set(range(program.pair)):
            yield f"{masked[0]} masks lanes of {program.pair} CTAs, and masks of CTAs {sorted(read)} are read"


def first_alone(program: TileProgram) -> Iterator[str]:
    """Steps of the first CTA of a pair alone signal nothing that both have to, and masks are made in no other."""
    for role in program.all_roles:
        loops = [step for step in walk(role.steps) if isinstance(step, Loop) and step.leads]
        for loop in loops:
            if program.pair == 1:
                yield f"{loop.id} is the first CTA's alone, and there are no pairs"
            for step in walk(loop.body):
                if isinstance(step, Signal | RingWait | Advance | RoleSync):
                    yield f"{step.id} is the first CTA's alone, and the others of role {role.name} are to do it as well"
        led = {step.id for loop in loops for step in walk(loop.body)}
        for step in walk(role.steps) if program.pair > 1 and not role.leads else ():
            if isinstance(step, MaskWord) and step.id not in led:
                yield f"{step.id} fills a table in both CTAs of a pair, and the first one multiplies for both"


CLUSTER_CHECKS: tuple[Callable[[TileProgram], Iterator[str]], ...] = (
    clusters_meet,
    pairs_allocate,
    last_signals_come,
    pairs_share,
    lanes_of_both,
    first_alone,
)
