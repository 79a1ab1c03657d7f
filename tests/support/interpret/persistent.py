"""The meaning of the steps of a CTA that makes several tiles."""

from __future__ import annotations

import numpy as np
from support.interpret.meaning import give_back_before, perform
from support.interpret.state import RoleState

from convc.compiler.plan.storage import ANSWER_BYTES
from convc.compiler.tile.steps.persistent import (
    AnswerRead,
    AskTile,
    Release,
    ReleaseLast,
    ReleaseRead,
    RoleSync,
    StoresRead,
    TakeTile,
)

MOST_GIVEN = 2
"""Tiles that are given to a CTA besides its own."""

NO_TILE = -1
"""The answer that there is none."""


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
def _(step: ReleaseRead, role: RoleState) -> None:
    """Once a tile."""
    if role.integer(step.first) == step.last:
        perform(Release(id=step.id, note=step.note, ring=step.ring), role)


@perform.register
def _(step: ReleaseLast, role: RoleState) -> None:
    give_back_before(step.ring, role, step.ctas)


@perform.register
def _(step: AskTile, role: RoleState) -> None:
    """The first tile whose CTA has not begun; a CTA is given `MOST_GIVEN`, so that others have some to make."""
    cta = role.cta
    given = cta.waiting.pop(0) if cta.waiting and cta.given < MOST_GIVEN else NO_TILE
    cta.given += 1
    cta.stages[role.key(step.tile)] = np.array([given])
    role.barrier(step.ring).complete(ANSWER_BYTES)


@perform.register
def _(step: TakeTile, role: RoleState) -> None:
    (given,) = role.tile(step.tile).tolist()
    role.goes_on = given != NO_TILE
    if role.goes_on:
        role.numbers[step.var] = given


@perform.register
def _(step: AnswerRead, role: RoleState) -> None:
    role.barrier(step.ring).arrive(role.threads)


@perform.register(StoresRead | RoleSync)
def _(step: StoresRead | RoleSync, role: RoleState) -> None:
    """Copies are done at once, and all threads of a role do a step together."""
