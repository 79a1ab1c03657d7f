"""Shared memory, of the own CTA and of others in the cluster (PTX manual, 5.1.7 "Shared State Space")."""

from __future__ import annotations

from typing import overload

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.cluster_ranks import OFFSET, RANK_SHIFT, own_offset
from convc.machine.base.values import DTYPE, Value, distinct, narrow
from convc.machine.isa.observe import notify_shared
from convc.machine.isa.threads import active_only, extent, first_active_warp, rows_of, same_lanes, thread_shape
from convc.machine.memory.global_memory import write_words
from convc.machine.memory.init_mask import InitMask
from convc.machine.state.strand import Strand
from convc.ptx import Instr


@overload
def shared_offset(strand: Strand, address: np.ndarray, size: int, what: str) -> np.ndarray: ...
@overload
def shared_offset(strand: Strand, address: int, size: int, what: str) -> int: ...
def shared_offset(strand: Strand, address: Value, size: int, what: str) -> Value:
    """Check a range of the CTA's own shared memory, and alignment; returns it as int or int64 array."""
    cohort = strand.cohort
    limit = cohort.shared.size
    if cohort.cluster_size > 1:
        ranks = cohort.place.rank if strand.rows is None else cohort.place.rank[strand.rows]
        address = own_offset(address, ranks, cohort.cluster_size, what, strand.mask)
    if isinstance(address, np.ndarray):
        address = active_only(strand, address)
    offset = address.astype(np.int64) if isinstance(address, np.ndarray) else int(address)
    low, high, odd = extent(offset, size)
    if low < 0 or high + size > limit:
        raise MachineFault(f"{what} of {size} bytes at shared address {high:#x}, but the CTA has {limit:#x} bytes")
    if odd:
        raise MachineFault(f"{what} at shared address {low:#x} is not aligned to {size} bytes")
    return offset


def remote(strand: Strand, address: Value) -> tuple[Value, np.ndarray | None]:
    """A shared::cluster address as (local address, row of the CTA it names per thread); None: every thread's own."""
    size = strand.cohort.cluster_size
    if size == 1:
        return address, None
    wide = address if isinstance(address, np.ndarray) else np.full((1, 1, 1), address, np.int64)
    safe = active_only(strand, wide).astype(np.int64)
    rank = safe >> RANK_SHIFT
    if int(rank.max()) >= size:
        raise MachineFault(f"shared address {int(safe.max()):#x} names CTA {int(rank.max())} of a cluster of {size}")
    own = rows_of(strand)
    named = own // size * size + rank
    return safe & OFFSET, None if (named == own).all() else named


def check_written(strand: Strand, instr: Instr, offset: Value, size: int, rows: np.ndarray | None = None) -> None:
    """Report a read of shared bytes that were never written; ``rows`` where threads read other CTAs' memory.

    Each CTA's bytes are looked for in what that CTA has written, whatever others have.
    """
    written = strand.cohort.shared.written
    low, high, _ = extent(offset, size)
    if isinstance(offset, np.ndarray) and written.whole(low, high + size):
        return
    if rows is None and same_lanes(strand):
        if isinstance(offset, int):
            if not written.missing(None, slice(offset, offset + size), strand.rows):
                return
        elif len(offset) == 1 and not written.missing(None, _bytes_from(offset, size), strand.rows):
            return
    shape = thread_shape(strand)
    target = np.broadcast_to(rows_of(strand) if rows is None else rows, shape)
    places = np.broadcast_to(np.asarray(offset), shape)
    lacking = ~_known(written, places, target, size)
    if strand.mask is not None:
        lacking &= strand.mask[..., None]
    if lacking.any():
        who = first_active_warp(strand, np.asarray(lacking.any(axis=-1)))
        at = int(np.flatnonzero(strand.cohort.rows_or_all(strand.rows) == who.row)[0])
        bytes_of = (places[at] + (target[at] << np.int64(RANK_SHIFT)))[..., None] + np.arange(size)
        missing = len(np.unique(bytes_of[lacking[at]]))  # in one CTA: how many others lack some does not show
        text = f"{instr.form.name}.shared reads {missing} bytes of shared memory that were never written"
        strand.cohort.findings.report("shared-memory-unwritten", text, instr, who=who)


def _known(written: InitMask, offset: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    """bool (..., size): which of the bytes from each offset on, in the memory of these CTAs, were written."""
    return written.map[written.line[rows][..., None], offset[..., None] + np.arange(size)]


def mark_written(strand: Strand, offset: np.ndarray, size: int, rows: np.ndarray | None = None) -> None:
    """Record a write of the active threads; ``offset`` is fully shaped."""
    mask = None if strand.mask is None else np.broadcast_to(strand.mask, offset.shape)
    written = strand.cohort.shared.written
    if rows is None and same_lanes(strand) and (not offset.strides[0] or (offset == offset[:1]).all()):
        offset = offset[:1]
        active = offset.reshape(-1) if mask is None else offset[mask[:1]]
        if strand.rows is None:
            if not written.whole(int(np.minimum.reduce(active)), int(np.maximum.reduce(active)) + size):
                written.mark_units(active // size, size, None)
            return
        written.mark(_bytes_from(active, size), strand.rows)
        return
    target = np.broadcast_to(rows_of(strand) if rows is None else rows, offset.shape)
    if mask is None:
        written.mark_each(target.reshape(-1), offset.reshape(-1), size)
    else:
        written.mark_each(target[mask], offset[mask], size)


def _bytes_from(offsets: np.ndarray, size: int) -> np.ndarray:
    """int64 (n,): the places of ``size`` bytes from each of some offsets on, each offset once."""
    starts = offsets.reshape(-1)
    return (starts[distinct(starts)[0]][:, None] + np.arange(size)).reshape(-1)


def load_shared(
    strand: Strand, instr: Instr, address: Value, bits: int, count: int, rows: np.ndarray | None = None
) -> list[Value]:
    """``count`` elements of ``bits`` bits from local addresses in the own CTA's memory, or in that of ``rows``."""
    cohort = strand.cohort
    size = bits // 8 * count
    offset = shared_offset(strand, address, size, "ld.shared")
    check_written(strand, instr, offset, size, rows)
    notify_shared(strand, instr, "ld", offset, size, rows)
    low, high, _ = extent(offset, size)
    words = cohort.shared.part(low, high + size).view(DTYPE[bits])
    if isinstance(offset, int) and rows is None:
        first = offset // (bits // 8)
        own = words if strand.rows is None else words[strand.rows]
        return _columns(own[:, first : first + count])
    index = np.asarray(offset) // (bits // 8)
    index = index.reshape(1, 1, 1) if index.ndim == 0 else index
    if rows is None and strand.rows is None and len(index) == 1:  # the same places in all CTAs
        shape = (len(words), *index.shape[1:])
        return [narrow(words.take((index + i).reshape(-1), axis=1).reshape(shape)) for i in range(count)]
    rows = rows_of(strand) if rows is None else rows
    return [narrow(words[rows, index + i]) for i in range(count)]


def _columns(words: np.ndarray) -> list[Value]:
    """Each column of words (rows, n) as the value of a register: a number where all CTAs have the same."""
    if words.dtype.kind == "c":  # 128 bits, which are compared as such
        return [narrow(words[:, at, None, None].copy()) for at in range(words.shape[1])]
    same = (words == words[0]).all(axis=0).tolist()
    return [
        first if alike else words[:, at, None, None].copy()
        for at, (first, alike) in enumerate(zip(words[0].tolist(), same, strict=True))
    ]


def store_shared(
    strand: Strand, instr: Instr, address: Value, values: list[Value], bits: int, rows: np.ndarray | None = None
) -> None:
    """Store elements of ``bits`` bits to local addresses in the own CTA's memory, or in that of ``rows``."""
    cohort = strand.cohort
    cohort.core.seal()
    size = bits // 8 * len(values)
    offset = shared_offset(strand, address, size, "st.shared")
    low, high, _ = extent(offset, size)
    memory = cohort.shared.part(low, high + size)
    full = np.broadcast_to(np.asarray(offset), thread_shape(strand))
    base = (rows_of(strand) if rows is None else rows) * memory.shape[1]
    winner = cohort.launch.switches.colliding_stores
    write_words(memory.reshape(-1), full + base, values, bits, strand.mask, winner)
    mark_written(strand, full, size, rows)
    if instr.form.name != "st.async":  # which says more, see `async_stores`
        notify_shared(strand, instr, "st", full, size, rows)


def load_cluster(strand: Strand, instr: Instr, address: Value, bits: int, count: int) -> list[Value]:
    """`load_shared` from shared::cluster addresses."""
    local, rows = remote(strand, address)
    return load_shared(strand, instr, local, bits, count, rows)


def store_cluster(strand: Strand, instr: Instr, address: Value, values: list[Value], bits: int) -> None:
    """`store_shared` to shared::cluster addresses."""
    local, rows = remote(strand, address)
    store_shared(strand, instr, local, values, bits, rows)
