"""The meaning of a step: a function for each class of steps, and those of the steps that every kernel has.

Loops and waits have no function, since roles hand over there (`support.interpret.run`).
"""

from __future__ import annotations

import functools

import numpy as np
from support.interpret.state import RoleState

from convc.compiler.plan.names import Number, RingName
from convc.compiler.tile.steps.base import Compute, Step
from convc.compiler.tile.steps.copies import MakePolicy, PrefetchNumbers, PrefetchTiles
from convc.compiler.tile.steps.rings import Advance, Arrive, Commit, ExpectBytes, Signal, WaitMmas, WarpCommit
from convc.compiler.tile.steps.setup import (
    AwaitGrid,
    ClusterSync,
    CtaSync,
    InitRings,
    PrefetchMaps,
    ReleaseGrid,
    SetRegisters,
    StartArrive,
    StartSync,
    TmemAlloc,
    TmemBase,
    TmemDealloc,
)
from convc.ir.expr import evaluate


@functools.singledispatch
def perform(step: Step, role: RoleState) -> None:
    """Do a step; it never waits.

    Raises:
        TileError: the step does something that no kernel may do.
        TypeError: its class has no meaning yet.
    """
    raise TypeError(f"{type(step).__name__} has no meaning: register a function for it")


@perform.register(
    PrefetchMaps
    | PrefetchTiles
    | PrefetchNumbers
    | AwaitGrid
    | ReleaseGrid
    | InitRings
    | TmemAlloc
    | TmemBase
    | TmemDealloc
    | CtaSync
    | StartArrive
    | StartSync
    | SetRegisters
    | ClusterSync
    | WaitMmas
    | MakePolicy
)
def _(step: Step, role: RoleState) -> None:
    """The frame of a kernel changes nothing on whole tiles."""


@perform.register
def _(step: Compute, role: RoleState) -> None:
    role.numbers[step.dst] = evaluate(step.expr, role.numbers)


@perform.register
def _(step: Advance, role: RoleState) -> None:
    role.advance(step.state, step.stages)


@perform.register
def _(step: ExpectBytes, role: RoleState) -> None:
    if role.ring(step.ring).at == "own" or role.cta is role.cta.cluster[0]:
        role.barrier(step.ring).arrive(expect=step.bytes)


@perform.register
def _(step: Commit, role: RoleState) -> None:
    """A stage that is given back to who copies is gone."""
    _give_back(step, role)
    barriers = role.signalled(step.ring) if step.ctas is None else role.barriers_of(role.named(step.ctas), step.ring)
    for barrier in barriers:
        barrier.arrive()


@perform.register
def _(step: WarpCommit, role: RoleState) -> None:
    """A stage is given back when the next one is multiplied, as in the text."""
    if not step.behind:
        _give_back(step, role)
        ctas = [role.cta] if step.ctas is None else role.named(step.ctas)
        for barrier in role.barriers_of(ctas, step.ring):
            barrier.arrive(role.threads // 32)
    elif step.counter is None or role.integer(step.counter):
        give_back_before(step.ring, role, step.ctas)


def _give_back(step: Signal, role: RoleState) -> None:
    ring = role.ring(step.ring)
    if ring.consumer == "load":
        for tile in role.cta.program.storage.smem:
            if tile.state == ring.state:
                for rows in role.tiles(tile.name):
                    rows[:] = np.nan


def give_back_before(name: RingName, role: RoleState, ctas: Number | None = None) -> None:
    """Every warp gives back the stage before the one at which its role is, to itself or to the CTAs of a mask."""
    ring = role.ring(name)
    before = (role.stages.get(ring.state, 0) - 1) % ring.stages
    for tile in role.cta.program.storage.smem:
        if tile.state == ring.state:
            role.cta.stages[tile.name, before][:] = np.nan
    for cta in [role.cta] if ctas is None else role.named(ctas):
        cta.barriers[name, before].arrive(role.threads // 32)


@perform.register
def _(step: Arrive, role: RoleState) -> None:
    role.barrier(step.ring).arrive(role.threads)
