"""Many words of memory in one access: what a straight run of loads or stores moves.

No function here faults: each says where an access is not plain, and changes nothing then.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.machine.base.values import Value
from convc.machine.isa.threads import thread_shape
from convc.machine.memory.global_memory import CHUNK, SHIFT, GlobalMemory
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
    """The ``words`` words of shared memory from an address on, uint32 (rows, 1, 1, words).

    None where threads have different addresses, where loads of ``size`` bytes would fault, or where nobody wrote them.
    """
    cohort = strand.cohort
    if isinstance(address, np.ndarray) or cohort.cluster_size > 1 or address % size:
        return None
    stop = address + 4 * words
    shared = cohort.shared
    if stop > shared.size or shared.written.missing(("row", address, stop), slice(address, stop), strand.rows):
        return None
    room = shared.staging(address, stop, strand.rows)[:, address:stop]
    own = room if strand.rows is None else room[strand.rows]
    return np.ascontiguousarray(own).view(np.uint32)[:, None, None]


def shared_writer(
    strand: Strand, addresses: list[Value], words: np.ndarray, mask: np.ndarray | None, size: int
) -> Callable[[], None] | None:
    """Prepare to store words of each thread to shared memory, as one store of ``size`` bytes after the other would.

    Args:
        strand: all of its threads are active.
        addresses: of each store; uint32, the same in all CTAs.
        words: uint32 (rows | 1, warps | 1, lanes | 1, words), those of one store after those of the other.
        mask: bool, broadcastable to `thread_shape`: the threads that store; None for all.
        size: of one store.

    Returns:
        A function that stores; None where a store would fault, where two threads or stores meet in an address, or where
        threads store in some CTAs only.
    """
    cohort = strand.cohort
    shape = thread_shape(strand)
    arrays = [address for address in addresses if isinstance(address, np.ndarray)]
    if cohort.cluster_size > 1 or len(arrays) < len(addresses) or any(len(address) != 1 for address in arrays):
        return None
    wide = np.broadcast_to(np.stack(arrays, axis=-1), (1, *shape[1:], len(arrays)))
    places = wide.reshape(-1).astype(np.int64)
    taking: np.ndarray | None = None
    if mask is not None:
        if len(mask) > 1:
            return None
        taking = np.broadcast_to(mask[..., None], wide.shape).reshape(-1)
        places = places[taking]
        if not places.size:
            return _nothing
    if int(places.max()) + size > cohort.shared.size or (places % size).any():
        return None
    where = _bytes_of(places // size, size)
    if where is None:
        return None
    unit = UNITS[size]
    full = np.ascontiguousarray(np.broadcast_to(words, (*shape, words.shape[-1])))
    units = full.view(unit).reshape(shape[0], -1)
    units = units if taking is None else units[:, taking]

    def write() -> None:
        cohort.core.seal()
        shared = cohort.shared
        room = shared.to_overwrite(places, size).view(unit)
        room[slice(None) if strand.rows is None else strand.rows[:, None], places // size] = units
        shared.written.mark(where, strand.rows)
        if shared.staged is not None:
            shared.staged.mark(where, strand.rows)

    return write


def _bytes_of(units: np.ndarray, size: int) -> slice | np.ndarray | None:
    """The bytes of units of ``size`` bytes, by their numbers, in order; None where two units are the same."""
    first = int(units.min())
    taken = np.zeros(int(units.max()) - first + 1, bool)
    taken[units - first] = True
    found = taken.nonzero()[0]
    if found.size < units.size:
        return None
    if found.size == taken.size:
        return slice(first * size, (first + taken.size) * size)
    return ((found + first)[:, None] * size + np.arange(size)).reshape(-1)


def _nothing() -> None:
    """No thread stores."""
