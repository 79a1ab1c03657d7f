"""The meaning of the steps of CTAs that share the K loop of a tile."""

from __future__ import annotations

import numpy as np
from support.interpret.meaning import perform
from support.interpret.state import RoleState

from convc.compiler.tile.steps.split import AddKept, AddSums, ClusterArrive, ClusterWait, KeepSums, StageSums

QUAD_BYTES = 16
QUAD = 4
"""Bytes, and columns, that each lane has in a row of the tile of sums."""
SUM = 4
"""Bytes of a sum."""


@perform.register
def _(step: StageSums, role: RoleState) -> None:
    """The tile is there once its first column is; what nobody wrote is NaN."""
    tile = role.cta.program.storage.smem_tile(step.tile)
    columns = role.each(step.first)[:, None] + np.arange(step.columns)
    if (columns == 0).any():
        shape = tile.row_bytes // QUAD_BYTES, tile.rows * QUAD
        role.cta.stages[step.tile, 0] = np.full(shape, np.nan, role.values.dtype)
    role.cta.stages[step.tile, 0][role.each(step.lane)[:, None], columns] = role.values


@perform.register
def _(step: AddSums, role: RoleState) -> None:
    first = role.integer(step.first)
    parts = [cta.stages[step.tile, 0][:, first : first + step.columns] for cta in role.cta.cluster]
    role.values = parts[0]
    for part in parts[1 : step.parts]:
        role.values = role.values + part


@perform.register(ClusterArrive | ClusterWait)
def _(step: ClusterArrive | ClusterWait, role: RoleState) -> None:
    """The CTAs of a cluster go through each act together."""


def _places(step: KeepSums | AddKept, role: RoleState) -> np.ndarray:
    """Elements of the workspace, by lane and column."""
    column = np.arange(step.columns)
    return role.each(step.at)[:, None] // SUM + column // QUAD * (step.pitch // SUM) + column % QUAD


@perform.register
def _(step: KeepSums, role: RoleState) -> None:
    role.cta.buffer_of(step.buffer)[_places(step, role)] = role.values


@perform.register
def _(step: AddKept, role: RoleState) -> None:
    kept = role.cta.buffer_of(step.buffer)
    places = _places(step, role)
    role.values = kept[places]
    for cluster in range(1, step.clusters):
        role.values = role.values + kept[places + cluster * (step.between // SUM)]
