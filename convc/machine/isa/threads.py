"""Shapes of a strand's threads, and addresses of the active ones."""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.cluster_ranks import OFFSET, RANK_SHIFT
from convc.machine.base.findings import Who
from convc.machine.base.values import Value
from convc.machine.state.strand import Strand


def thread_shape(strand: Strand) -> tuple[int, int, int]:
    """(rows, warps, lanes) of a strand."""
    return (strand.row_count, len(strand.warps), 32)


def rows_of(strand: Strand) -> np.ndarray:
    """Row numbers of the strand's CTAs in the cohort, shaped (rows, 1, 1)."""
    return strand.cohort.rows_or_all(strand.rows)[:, None, None]


def first_active_warp(strand: Strand, chosen: np.ndarray | None = None) -> Who:
    """The first warp that executes, with its lanes that do.

    Args:
        strand: its active threads execute.
        chosen: bool, broadcastable to `thread_shape`: the threads that matter; None for all.
    """
    mask = np.ones((1, 1, 1), bool) if strand.mask is None else strand.mask
    mask = mask if chosen is None else mask & chosen
    full = np.broadcast_to(mask, (mask.shape[0], len(strand.warps), 32))
    at, warp, _ = np.argwhere(full)[0].tolist()
    row = at if strand.rows is None else int(strand.rows[at])
    return Who(row=row, warp=int(strand.warps[warp]), lanes=tuple(np.flatnonzero(full[at, warp]).tolist()))


def active_lanes(strand: Strand) -> np.ndarray:
    """bool (rows | 1, warps | 1, 32 | 1): the threads that execute."""
    return np.ones((1, 1, 1), bool) if strand.mask is None else strand.mask


def same_lanes(strand: Strand) -> bool:
    """Whether the same threads execute in all CTAs of the strand."""
    mask = strand.mask
    return mask is None or len(mask) == 1 or bool((mask == mask[:1]).all())


def active_warps(strand: Strand) -> np.ndarray:
    """bool (rows | 1, warps): the warps that have an active lane."""
    active = np.asarray(active_lanes(strand).any(axis=2))
    return np.broadcast_to(active, (len(active), len(strand.warps)))


def per_warp(strand: Strand, value: Value, what: str) -> int | np.ndarray:
    """An operand that the active lanes of a warp must share; else a fault.

    Returns:
        An int, or int64 (rows | 1, warps | 1); uint64 of operands of 64 bits, whose highest bit is one like the others.
    """
    if not isinstance(value, np.ndarray):
        return int(value)
    if value.shape[2] == 1:
        shared = value[:, :, 0]
    else:
        full, mask = np.broadcast_arrays(value, active_lanes(strand))
        shared = np.take_along_axis(full, mask.argmax(axis=2)[:, :, None], axis=2)
        apart = (full != shared) & mask
        if apart.any():
            who = first_active_warp(strand, apart)
            raise MachineFault(f"{what} must be the same in all lanes of a warp").of(who.row, who.warp, who.lanes)
        shared = shared[:, :, 0]
    table = shared if shared.dtype == np.uint64 else shared.astype(np.int64)
    return int(table.flat[0]) if (table == table.flat[0]).all() else table


def active_rows(strand: Strand) -> np.ndarray | None:
    """Rows of the CTAs in which any thread executes; None for all of the cohort."""
    if isinstance(strand.count, int):
        return strand.rows
    return strand.cohort.rows_or_all(strand.rows)[strand.count > 0]


def active_only(strand: Strand, address: np.ndarray) -> np.ndarray:
    """Give inactive lanes the address of an active one, so that only real accesses are checked."""
    mask = strand.mask
    if mask is None:
        return address
    thread = np.unravel_index(mask.argmax(), mask.shape)
    place = [min(at, size - 1) for at, size in zip(thread, address.shape, strict=True)]
    return np.where(mask, address, address.flat[np.ravel_multi_index(place, address.shape)])


def extent(offset: Value, size: int) -> tuple[int, int, bool]:
    """(lowest offset, highest offset, whether one of them is no multiple of ``size``, a power of two)."""
    if isinstance(offset, np.ndarray):
        odd = np.bitwise_or.reduce(offset, axis=None) & (size - 1) != 0
        return int(np.minimum.reduce(offset, axis=None)), int(np.maximum.reduce(offset, axis=None)), bool(odd)
    return offset, offset, offset % size != 0


def threads_active(strand: Strand) -> int:
    """Count the threads that execute, over all CTAs."""
    return strand.count * strand.row_count if isinstance(strand.count, int) else int(strand.count.sum())


def warps_active(strand: Strand, chosen: np.ndarray | None = None) -> int:
    """Count the warps that execute, over all CTAs of the strand or those ``chosen`` (bool per CTA)."""
    if chosen is None and (strand.mask is None or strand.active is not None):
        return strand.row_count * (len(strand.warps) if strand.mask is None else 1)
    active = True if strand.mask is None else strand.mask.any(axis=2)
    warps = np.broadcast_to(active, (strand.row_count, len(strand.warps)))
    return int(np.count_nonzero(warps if chosen is None else warps[chosen]))


def own_address(strand: Strand, address: Value) -> Value | None:
    """A shared address without the rank of the own CTA; None where a thread names the shared memory of another CTA."""
    cohort = strand.cohort
    if cohort.cluster_size == 1:
        return address
    if not isinstance(address, np.ndarray) or len(address) == 1:
        return address if np.max(address) <= OFFSET else None
    ranks = cohort.place.rank if strand.rows is None else cohort.place.rank[strand.rows]
    local = address - (ranks.astype(np.uint32) << np.uint32(RANK_SHIFT))[:, None, None]
    return local if int(local.max()) <= OFFSET else None


def same_place(strand: Strand, address: Value) -> Value | None:
    """A shared address in the own CTA, (1, warps | 1, lanes | 1) where threads differ; None where CTAs do."""
    if not isinstance(address, np.ndarray) or len(address) == 1:
        return own_address(strand, address)
    cohort = strand.cohort
    ranks = cohort.place.rank if strand.rows is None else cohort.place.rank[strand.rows]
    bases = ranks.astype(np.uint32) << np.uint32(RANK_SHIFT)
    first = address[:1] - bases[0]
    alike = int(first.max()) <= OFFSET and bool((address == first + bases[:, None, None]).all())
    return first if alike else None
