"""The meaning of steps on the lanes of tensor memory: masks, clearing, and activations that move."""

from __future__ import annotations

from support.interpret.meaning import perform
from support.interpret.state import LANES, Array, RoleState

from convc.compiler.plan.storage import MASKS
from convc.compiler.tile.steps.lanes import ClearAcc, JoinMask, LoadMask, MaskWord, MoveRows, Refresh, TensorFill
from convc.ir.arch import SM_100A

GROUP = SM_100A.limits.tmem_part_lanes
"""Lanes of a sub-partition."""


@perform.register
def _(step: MaskWord, role: RoleState) -> None:
    role.cta.masks[_table(role) + step.first + role.integer(step.entry)] = role.each(step.value) != 0


@perform.register
def _(step: LoadMask, role: RoleState) -> None:
    held = role.others if step.beside else role.masks
    held[step.rank] = role.cta.masks[_table(role) + step.first + role.integer(step.entry)]


@perform.register
def _(step: JoinMask, role: RoleState) -> None:
    role.masks[step.rank] |= role.others[step.rank]


@perform.register
def _(step: ClearAcc, role: RoleState) -> None:
    name, stage = role.key(step.acc)
    stages = range(role.cta.program.storage.tmem_tile(name).stages) if step.every else (stage,)
    for each in stages:
        role.cta.acc[name, each][:] = 0


@perform.register
def _(step: TensorFill, role: RoleState) -> None:
    for cta, rows in zip(role.together, role.tiles(step.source), strict=True):
        cta.stages[role.key(step.tile)] = rows[:LANES].copy()


@perform.register
def _(step: MoveRows, role: RoleState) -> None:
    for rows in role.tiles(step.tile):
        move_up(rows)


@perform.register
def _(step: Refresh, role: RoleState) -> None:
    groups = LANES // GROUP
    first = LANES + groups * (role.integer(step.halo) + step.extra)
    for rows, source in zip(role.tiles(step.tile), role.tiles(step.source), strict=True):
        rows[GROUP - 1 :: GROUP] = source[first : first + groups]


def _table(role: RoleState) -> int:
    """First entry of the mask table that a role is at."""
    storage = role.cta.program.storage
    return role.stages.get(MASKS, 0) * storage.masks if storage.mask_tables > 1 else 0


def move_up(rows: Array) -> None:
    """Every row of 32 takes what the next one has; the last keeps what it has."""
    for first in range(0, LANES, GROUP):
        rows[first : first + GROUP - 1] = rows[first + 1 : first + GROUP].copy()
