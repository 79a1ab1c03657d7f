"""CTAs of a launch: their numbers, and how clusters group them.

The rows of a cohort are whole clusters laid flat: row = cluster * cluster size + rank, ranks x fastest (PTX manual,
"%cluster_ctarank"). A shared address carries the rank of its CTA above bit `RANK_SHIFT`: the address that a CTA takes
of its own variables is also its address for the other CTAs of the cluster, and clearing bit 24 names the even CTA of a
pair (recorded on an H200: 0x400 in rank 0 is 0x1000400 in rank 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import overload

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import DTYPE, Value, fixed, narrow

RANK_SHIFT = 24
"""Bits of a shared address below the rank; the 227 KiB of a CTA need 18."""

OFFSET = (1 << RANK_SHIFT) - 1
"""Mask of the address inside a CTA."""

Extent = tuple[int, int, int]
Axes = tuple[np.ndarray, np.ndarray, np.ndarray]
"""One array per axis x, y, z."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the CTAs of a cohort are in the grid, arrays of shape (ctas,).

    Attributes:
        ctaid, clusterid, cluster_ctaid: as the special registers of these names.
        rank: number of the CTA in its cluster. number: of the CTA in the grid. Both count x fastest.
    """

    ctaid: Axes
    clusterid: Axes
    cluster_ctaid: Axes
    rank: np.ndarray
    number: np.ndarray

    def register(self, name: str, axis: int) -> Value:
        """``ctaid``, ``clusterid``, ``cluster_ctaid`` or ``cluster_ctarank`` as a register value."""
        column = self.rank if name == "cluster_ctarank" else getattr(self, name)[axis]
        return narrow(column.astype(np.uint32).reshape(-1, 1, 1))


@lru_cache(maxsize=64)
def place(grid: Extent, cluster: Extent, first: int, ctas: int) -> Place:
    """CTAs number ``first .. first + ctas - 1`` in cluster order; ``number`` is the linear CTA number in the grid.

    The same kernel is mostly launched again, and what is kept cannot be written.
    """
    row = np.arange(first, first + ctas)
    index, rank = np.divmod(row, math.prod(cluster))
    inner = _unravel(rank, cluster)
    outer = _unravel(index, (grid[0] // cluster[0], grid[1] // cluster[1], grid[2] // cluster[2]))
    x, y, z = (o * c + i for o, c, i in zip(outer, cluster, inner, strict=True))
    number = x + grid[0] * (y + grid[1] * z)
    for array in (x, y, z, *outer, *inner, rank, number):
        fixed(array)
    return Place(ctaid=(x, y, z), clusterid=outer, cluster_ctaid=inner, rank=rank, number=number)


def _unravel(index: np.ndarray, extent: Extent) -> Axes:
    return index % extent[0], index // extent[0] % extent[1], index // (extent[0] * extent[1])


def own_address(ranks: np.ndarray, size: int, local: int, bits: int) -> Value:
    """The address that CTAs of these ranks, in clusters of ``size``, have for their own local address."""
    if size == 1:
        return local
    return narrow((local + (ranks.astype(DTYPE[bits]) << DTYPE[bits].type(RANK_SHIFT))).reshape(-1, 1, 1))


@overload
def own_offset(address: int, ranks: np.ndarray, size: int, what: str, active: np.ndarray | None = None) -> int: ...
@overload
def own_offset(
    address: np.ndarray, ranks: np.ndarray, size: int, what: str, active: np.ndarray | None = None
) -> np.ndarray: ...
def own_offset(address: Value, ranks: np.ndarray, size: int, what: str, active: np.ndarray | None = None) -> Value:
    """The local part of addresses in the own CTA, of CTAs with these ranks; faults where one names another CTA.

    ``active``: bool, of threads (ctas, warps, lanes), whose addresses count; None: all do.
    """
    if size == 1 and isinstance(address, int):
        if address > OFFSET:
            raise MachineFault(f"{what}: {address:#x} is not an address in shared memory")
        return address
    field = np.asarray(address).astype(np.int64) >> RANK_SHIFT
    dimensions = field.ndim if active is None else active.ndim
    own = ranks.reshape(-1, *[1] * (dimensions - 1)) if dimensions else ranks
    wrong = (field != 0) & (field != own)
    if active is not None:
        wrong = wrong & active
    if wrong.any():
        worst = int(np.broadcast_to(field, wrong.shape)[wrong][0])
        raise MachineFault(f"{what}: an address in CTA {worst} of the cluster, where one in the own CTA is needed")
    return address & OFFSET if isinstance(address, int) else address & address.dtype.type(OFFSET)
