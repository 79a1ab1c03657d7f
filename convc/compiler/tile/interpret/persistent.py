"""The meaning of the steps of a CTA that makes several tiles."""

from __future__ import annotations

from convc.compiler.tile.interpret.meaning import give_back_before, perform
from convc.compiler.tile.interpret.state import RoleState
from convc.compiler.tile.steps.persistent import Release, ReleaseLast, RoleSync, StoresRead


@perform.register
def _(step: Release, role: RoleState) -> None:
    """What is given back is gone: who reads it later reads NaN."""
    ring = role.ring(step.ring)
    for tile in role.cta.program.storage.tmem:
        if tile.state == ring.state:
            role.cta.clear(tile, role.key(tile.name)[1])
    for tile in role.cta.program.storage.tiles:
        if tile.state == ring.state:
            role.cta.stages.pop(role.key(tile.name), None)
    for barrier in role.signalled(step.ring):
        barrier.arrive(role.threads)


@perform.register
def _(step: ReleaseLast, role: RoleState) -> None:
    give_back_before(step.ring, role)


@perform.register(StoresRead | RoleSync)
def _(step: StoresRead | RoleSync, role: RoleState) -> None:
    """Copies are done at once, and all threads of a role do a step together."""
