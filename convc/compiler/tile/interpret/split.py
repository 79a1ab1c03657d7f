"""The meaning of the steps of CTAs that share the K loop of a tile."""

from __future__ import annotations

import numpy as np

from convc.compiler.plan.storage import SUM_BYTES
from convc.compiler.tile.interpret.meaning import perform
from convc.compiler.tile.interpret.state import RoleState
from convc.compiler.tile.steps.split import AddSums, ClusterArrive, ClusterWait, StageSums


@perform.register
def _(step: StageSums, role: RoleState) -> None:
    """The tile is there once its first column is; what nobody wrote is NaN."""
    tile = role.cta.program.storage.smem_tile(step.tile)
    first = role.integer(step.first)
    if first == 0:
        width = tile.bytes // (role.threads * SUM_BYTES)
        role.cta.stages[step.tile, 0] = np.full((role.threads, width), np.nan, role.values.dtype)
    role.cta.stages[step.tile, 0][:, first : first + step.columns] = role.values


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
