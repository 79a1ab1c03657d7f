"""Many words of memory in one access: what a segment of loads or stores moves.

No function here faults: each says where an access is not plain, and changes nothing then.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.machine.base.cluster_ranks import OFFSET, RANK_SHIFT
from convc.machine.base.values import Value, array, narrow
from convc.machine.isa.threads import own_address, rows_of, same_place, thread_shape
from convc.machine.memory.global_memory import CHUNK, SHIFT, GlobalMemory
from convc.machine.memory.init_mask import InitMask
from convc.machine.state.strand import Strand

UNITS = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64), 16: CHUNK}
"""What one load of so many bytes moves."""


def read_rows(
    memory: GlobalMemory, address: Value, words: int, size: int, mask: np.ndarray | None = None
) -> np.ndarray | None:
    """The ``words`` words from the address of each thread on, uint32 (rows | 1, warps | 1, lanes | 1, words).

    Anything in threads that ``mask`` (bool; None: all) leaves out. None where loads of ``size`` bytes, one after the
    other, would fault, or where threads use several buffers. All threads are active.
    """
    if mask is not None:
        if not mask.any():
            return np.zeros((1, 1, 1, words), np.uint32)
        if isinstance(address, np.ndarray):
            chosen, address = np.broadcast_arrays(mask, address)
            address = np.where(chosen, address, address.flat[chosen.argmax()])
    one = not isinstance(address, np.ndarray)
    low, high = (address, address) if one else (int(address.min()), int(address.max()))
    buffer = memory.at(low)
    if buffer is None or high + 4 * words > buffer.base + buffer.size:
        return None
    first = low - buffer.base
    if one:
        return None if first % size else buffer.data[first : first + 4 * words].view(np.uint32).reshape(1, 1, 1, words)
    offset = (address - np.uint64(buffer.base)).view(np.int64)
    if (offset & (size - 1)).any():
        return None
    units = buffer.data[: buffer.data.size // size * size].view(UNITS[size])
    return units[(offset // size)[..., None] + np.arange(4 * words // size)].view(np.uint32)


def row_writer(
    strand: Strand, address: Value, words: np.ndarray, mask: np.ndarray | None, size: int
) -> Callable[[], None] | None:
    """Prepare to store a row of words in each thread, as one store of ``size`` bytes after the other would.

    Args:
        strand: all of its threads are active.
        address: of the row's first byte; uint64 where threads differ.
        words: uint32 (rows | 1, warps | 1, lanes | 1, words).
        mask: bool, broadcastable to `thread_shape`: the threads that store; None for all.
        size: of one store.

    Returns:
        A function that stores; None where a store would fault, where threads use several buffers, or where rows
        overlap in part: then the order of the stores shows.
    """
    shape = thread_shape(strand)
    if not isinstance(address, np.ndarray):
        return None
    taking = None if mask is None else np.broadcast_to(mask, shape)
    chosen = np.broadcast_to(address, shape)
    chosen = chosen.reshape(-1) if taking is None else chosen[taking]
    if not chosen.size:
        return _nothing
    cohort = strand.cohort
    launch = cohort.launch
    low = int(chosen.min())
    buffer = launch.memory.at(low)
    total = 4 * words.shape[-1]
    if buffer is None or int(chosen.max()) - buffer.base + total > buffer.size or low >> SHIFT != buffer.base >> SHIFT:
        return None
    offset = (chosen - np.uint64(buffer.base)).view(np.int64)
    first = (low - buffer.base) % total
    if first % size or ((offset - first) % total).any():
        return None
    unit = np.dtype((np.void, total))
    index = (offset - first) // total
    full = np.broadcast_to(words, (*shape, words.shape[-1]))
    units = np.ascontiguousarray(full).view(unit).reshape(-1)
    units = units if taking is None else units[taking.reshape(-1)]
    step = -1 if launch.switches.colliding_stores == "lowest" else 1

    def write() -> None:
        cohort.counters.global_store_bytes += total * chosen.size
        launch.about_to_change(buffer.name)
        rows = buffer.data[first:]
        rows[: rows.size // total * total].view(unit)[index[::step]] = units[::step]
        launch.contents_changed(buffer.name)

    return write


def read_shared(strand: Strand, address: Value, words: int, size: int) -> np.ndarray | None:
    """The ``words`` words of shared memory from an address on, uint32 (rows | 1, 1, 1, words).

    None where threads of a CTA have different addresses, where loads of ``size`` bytes would fault, or where nobody
    wrote them.
    """
    local = own_address(strand, address)
    if isinstance(local, np.ndarray):
        if local.size != len(local):
            return None
        local = narrow(local)
    if local is None:
        return None
    low, high = (local, local) if isinstance(local, int) else (int(local.min()), int(local.max()))
    stop = high + 4 * words
    shared = strand.cohort.shared
    if stop > shared.size or shared.written.missing(("row", low, stop), slice(low, stop), strand.rows):
        return None
    if (np.asarray(local) % size).any():
        return None
    room = shared.staging(low, stop, strand.rows)
    if isinstance(local, np.ndarray):
        units = room.view(UNITS[size])
        index = local.reshape(-1, 1).astype(np.int64) // size + np.arange(4 * words // size)
        return units[strand.cohort.rows_or_all(strand.rows)[:, None], index].view(np.uint32)[:, None, None]
    own = room[:, low:stop] if strand.rows is None else room[strand.rows, low:stop]
    return np.ascontiguousarray(own).view(np.uint32)[:, None, None]


def read_cluster(
    strand: Strand, address: Value, words: int, size: int, mask: np.ndarray | None = None
) -> np.ndarray | None:
    """The ``words`` words of shared memory of any CTA of the cluster from the address of each thread on.

    uint32 (rows, warps, lanes, words); anything in threads that ``mask`` (bool; None: all) leaves out. None where loads
    of ``size`` bytes would fault, or where some CTA has not written what lies between the lowest and the highest.
    """
    cohort = strand.cohort
    if mask is not None and not mask.any():
        return np.zeros((1, 1, 1, words), np.uint32)
    wide = array(address, 32)
    span = _span(strand, wide, words, size)
    if span is None and mask is not None:  # threads that do not load may have any address
        chosen, wide = np.broadcast_arrays(mask, wide)
        wide = np.where(chosen, wide, wide.flat[chosen.argmax()])
        span = _span(strand, wide, words, size)
    if span is None:
        return None
    units = cohort.shared.staging(*span, None).view(UNITS[size])
    first = rows_of(strand) // cohort.cluster_size * (cohort.cluster_size * units.shape[1])
    index: np.ndarray = (wide >> np.uint32(RANK_SHIFT)) * np.uint32(units.shape[1])
    index += (wide & np.uint32(OFFSET)) // np.uint32(size)
    index = (index + first)[..., None] + np.arange(4 * words // size)
    # each lies inside: the bounds were looked at
    return units.reshape(-1).take(index, mode="clip").view(np.uint32)


def _span(strand: Strand, wide: np.ndarray, words: int, size: int) -> tuple[int, int] | None:
    """First byte and the one behind the last of what `read_cluster` reads in any CTA; None where it must not."""
    cohort = strand.cohort
    local = wide & np.uint32(OFFSET)
    low = int(local.min())
    stop = int(local.max()) + 4 * words
    odd = np.bitwise_or.reduce(local, axis=None) & (size - 1)
    fits = int(wide.max()) >> RANK_SHIFT < cohort.cluster_size and stop <= cohort.shared.size and not odd
    return (low, stop) if fits and cohort.shared.written.whole(low, stop) else None


def shared_writer(
    strand: Strand, addresses: list[tuple[Value, list[int]]], words: np.ndarray, mask: np.ndarray | None, size: int
) -> Callable[[], None] | None:
    """Prepare to store words of each thread to shared memory, as one store of ``size`` bytes after the other would.

    Args:
        strand: all of its threads are active.
        addresses: of each store; uint32, the same place in all CTAs, and bytes from there on, one for each store.
        words: uint32 (rows | 1, warps | 1, lanes | 1, words), those of one store after those of the other.
        mask: bool, broadcastable to `thread_shape`: the threads that store; None for all.
        size: of one store.

    Returns:
        A function that stores; None where a store would fault, where two threads or stores meet in an address, or where
        threads store in some CTAs only.
    """
    cohort = strand.cohort
    shape = thread_shape(strand)
    wide = _own_places(strand, addresses)
    if wide is None:
        return None
    places = wide.reshape(-1)
    taking: np.ndarray | None = None
    if mask is not None:
        if len(mask) > 1:
            return None
        taking = np.broadcast_to(mask[..., None], wide.shape).reshape(-1)
        places = places[taking]
        if not places.size:
            return _nothing
    numbers = places // size
    where = _bytes_of(places, size, cohort.shared.size)
    if where is None:
        return None
    full = np.broadcast_to(words, (*shape, words.shape[-1]))
    across = taking is None and strand.rows is None and _across(places.reshape(-1, wide.shape[3]), size)
    if not across or full.strides[3] != full.itemsize:
        full = np.ascontiguousarray(full)
    units = full.view(UNITS[size])
    if taking is not None:
        units = units.reshape(shape[0], -1)[:, taking]

    def write() -> None:
        cohort.core.seal()
        room = cohort.shared.to_overwrite(places, size, strand.rows).view(UNITS[size])
        _put(room, strand.rows, numbers, units, across=across, dense=isinstance(where, slice))
        for mask in (cohort.shared.written, cohort.shared.staged):
            if mask is not None:
                _mark(mask, where, size, strand.rows)

    return write


def _own_places(strand: Strand, addresses: list[tuple[Value, list[int]]]) -> np.ndarray | None:
    """int64 (1, warps, lanes, stores): where threads store in their CTA; None where CTAs differ, or no threads do."""
    shape = (1, *thread_shape(strand)[1:])
    found: list[np.ndarray] = []
    for address, steps in addresses:
        local = same_place(strand, address)
        if not isinstance(local, np.ndarray) or len(local) != 1:
            return None
        found.append(np.broadcast_to(local.astype(np.int64)[..., None] + steps, (*shape, len(steps))))
    return found[0] if len(found) == 1 else np.concatenate(found, axis=-1)


def _put(
    room: np.ndarray, rows: np.ndarray | None, numbers: np.ndarray, units: np.ndarray, *, across: bool, dense: bool
) -> None:
    """Write the units of threads (ctas, warps, lanes, stores), or (ctas, n), to their numbers in a room (ctas, units).

    ``rows``: the CTAs, None for all. ``across``: as `_across` has it. ``dense``: there are no gaps between the numbers.
    """
    if rows is None and dense:
        low = int(numbers.min())
        part = room[:, low : low + len(numbers)]
        if across:
            part.reshape(len(units), -1, *units.shape[1:3])[...] = units.transpose(0, 3, 1, 2)
            return
        order = np.empty(len(numbers), np.intp)  # to fetch in the order of places is faster than to strew
        order[numbers - low] = np.arange(len(numbers))
        part[...] = units.reshape(len(units), -1).take(order, axis=1)
    else:
        room[slice(None) if rows is None else rows[:, None], numbers] = units.reshape(len(units), -1)


def _across(places: np.ndarray, size: int) -> bool:
    """Whether threads store side by side, one store behind the other: places (threads, stores) in units of ``size``."""
    threads, stores = map(int, places.shape)
    first = int(places.min())
    if int(places.max()) - first != size * (places.size - 1):  # mostly enough
        return False
    return bool((places == first + size * (np.arange(threads)[:, None] + threads * np.arange(stores))).all())


def _bytes_of(places: np.ndarray, size: int, limit: int) -> slice | np.ndarray | None:
    """The bytes of units of ``size`` bytes from some places on, or the units' numbers in order where gaps are between.

    None where two units are one, or one does not lie at a multiple of its size below the ``limit``.
    """
    low = int(places.min())
    if low < 0 or int(places.max()) + size > limit or (places & (size - 1)).any():
        return None
    units = places // size
    first = low // size
    taken = np.zeros(int(units.max()) - first + 1, bool)
    taken[units - first] = True
    found = taken.nonzero()[0]
    if found.size < units.size:
        return None
    return slice(first * size, (first + taken.size) * size) if found.size == taken.size else found + first


def _mark(mask: InitMask, where: slice | np.ndarray, size: int, rows: np.ndarray | None) -> None:
    """Mark what `_bytes_of` has found."""
    if isinstance(where, slice):
        mask.mark(where, rows)
    else:
        mask.mark_units(where, size, rows)


def _nothing() -> None:
    """No thread stores."""
