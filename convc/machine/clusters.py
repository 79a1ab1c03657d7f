"""CTAs of a launch: their numbers, and how clusters group them.

The rows of a cohort are whole clusters laid flat: row = cluster * cluster size + rank, ranks x fastest (PTX manual,
"%cluster_ctarank"). An address in the shared::cluster window names a CTA of the same cluster; here it is the local
shared address plus (rank + 1) << `RANK_SHIFT`, so that a local shared::cta address is its own shared::cluster address,
as on hardware.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convc.machine.values import Value, narrow

RANK_SHIFT = 24
"""Bits of a shared address below the rank; the 227 KiB of a CTA need 18."""

Extent = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the CTAs of a cohort are in the grid: arrays of shape (ctas,), one per axis x, y, z."""

    ctaid: tuple[np.ndarray, np.ndarray, np.ndarray]
    clusterid: tuple[np.ndarray, np.ndarray, np.ndarray]
    cluster_ctaid: tuple[np.ndarray, np.ndarray, np.ndarray]
    rank: np.ndarray
    number: np.ndarray

    def register(self, name: str, axis: int) -> Value:
        """``ctaid``, ``clusterid``, ``cluster_ctaid`` or ``cluster_ctarank`` as a register value."""
        column = self.rank if name == "cluster_ctarank" else getattr(self, name)[axis]
        return narrow(column.astype(np.uint32).reshape(-1, 1, 1))


def place(grid: Extent, cluster: Extent, first: int, ctas: int) -> Place:
    """CTAs number ``first .. first + ctas - 1`` in cluster order; ``number`` is the linear CTA number in the grid."""
    row = np.arange(first, first + ctas)
    rank, index = row % math.prod(cluster), row // math.prod(cluster)
    inner = _unravel(rank, cluster)
    outer = _unravel(index, tuple(g // c for g, c in zip(grid, cluster, strict=True)))
    at = tuple(o * c + i for o, c, i in zip(outer, cluster, inner, strict=True))
    number = at[0] + grid[0] * (at[1] + grid[1] * at[2])
    return Place(ctaid=at, clusterid=outer, cluster_ctaid=inner, rank=rank, number=number)


def _unravel(index: np.ndarray, extent: Extent) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return index % extent[0], index // extent[0] % extent[1], index // (extent[0] * extent[1])
