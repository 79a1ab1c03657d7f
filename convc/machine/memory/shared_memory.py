"""Shared memory of a cohort of CTAs.

It starts as poison, as tensor memory does (all ones: a NaN in every floating type), and remembers which bytes were
written (`init_mask`).
"""

from __future__ import annotations

import mmap
from typing import NamedTuple, Protocol

import numpy as np

from convc.machine.memory.global_memory import CHUNK
from convc.machine.memory.init_mask import InitMask, mark_units

BLOCK = 1024
"""Bytes of shared memory that are filled with poison together, when somebody first looks at one of them."""


class ArrayPool:
    """Arrays of cohorts that have ended, for the next one: overwriting memory costs less than getting fresh pages."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[object, ...], np.ndarray] = {}

    def keep(self, array: np.ndarray) -> None:
        """Nobody uses this array any more."""
        self._arrays[array.shape, array.dtype] = array

    def left(self, shape: tuple[int, ...], dtype: type[np.generic]) -> np.ndarray | None:
        """An array that a cohort has left, which holds anything."""
        return self._arrays.pop((shape, np.dtype(dtype)), None)

    def unused(self, shape: tuple[int, ...], dtype: type[np.generic]) -> np.ndarray:
        """An array of anything, for those who write every element before they read it."""
        array = self.left(shape, dtype)
        return np.empty(shape, dtype) if array is None else array

    def poison(self, shape: tuple[int, ...], dtype: type[np.integer]) -> np.ndarray:
        """An array of all ones."""
        array = self.left(shape, dtype)
        ones = np.iinfo(dtype).max
        if array is None:
            return np.full(shape, ones, dtype)
        array.fill(ones)
        return array


MOST_KEPT = 1 << 26
"""Bytes of shared memory that stay for a launch to come, of whatever kernel."""

_kept: list[np.ndarray] = []
"""Shared memory that no cohort has: at most a piece for each thread that launches, and mostly one."""


def _pages(size: int) -> np.ndarray:
    """Bytes of anything, at least so many, of which most are never touched.

    The system clears a page when a byte of it is first touched. CTAs write a few bytes each, far apart: on pages of the
    usual size that is one or several for every CTA of every launch, on huge ones a few for all launches while they
    are kept. So as much is asked for as may stay; what nobody touches takes no memory. Without them first launches take
    1.1 times as long, repeated ones 1.7 times.
    """
    try:
        kept = _kept.pop()
    except IndexError:
        kept = None
    if kept is not None and kept.size >= size:
        return kept
    if not hasattr(mmap, "MADV_HUGEPAGE"):  # not Linux
        return np.empty(size, np.uint8)
    # Private to this process: what is shared stays so in processes that it forks, and has no huge pages.
    pages = mmap.mmap(-1, max(size, MOST_KEPT), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size <= MOST_KEPT:
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


class DeferredWrite(Protocol):
    """A write that is performed when somebody looks: of all bytes from ``start`` to ``stop``, in the CTAs ``rows``."""

    @property
    def start(self) -> int:
        """First shared address."""
        ...

    @property
    def stop(self) -> int:
        """The address behind the last."""
        ...

    @property
    def rows(self) -> np.ndarray | None:
        """Some CTAs; None: every CTA."""
        ...

    def perform(self, memory: np.ndarray) -> None:
        """Write to shared memory, uint8 (ctas, bytes)."""
        ...


def same_rows(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    """Whether both name the same CTAs; None: every CTA."""
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


class Covered(NamedTuple):
    """A write that waits although other bytes have been written over some of its own: bool ``over``, for each byte."""

    write: DeferredWrite
    over: np.ndarray


class SharedMemory:
    """Shared memory of every CTA: uint8 (ctas, size), size rounded up to 1024.

    Writes may be deferred (`deferred`). Whoever takes the bytes finds them performed, and what nobody wrote poisoned:
    `part` materializes the addresses that are asked for, `bytes` and `chunks` all of them.

    Attributes:
        deferred: the writes that wait, by the address where they start; no two of them overlap. None of their bytes has
            been written since; those of which some have are in ``_covered``.
        seen: whether a write that waited was performed, or anybody has taken all bytes, or some that are `staged` by
            another door than `staging`.
        staged: which bytes hold what segments stored (`convc.machine.lazy.record`); None where nobody asks.
    """

    def __init__(self, ctas: int, size: int, pool: ArrayPool | None = None) -> None:
        self.size = size
        self.padded = max(BLOCK, -(-size // BLOCK) * BLOCK)
        self.written = InitMask(ctas, self.padded)
        self.deferred: dict[int, DeferredWrite] = {}
        self.seen = False
        self.staged: InitMask | None = None
        self._pool = pool or ArrayPool()
        self._pages: np.ndarray | None = None
        room = self._pool.left((ctas, self.padded), np.uint8)
        if room is None:
            self._pages = _pages(ctas * self.padded)
            room = self._pages[: ctas * self.padded].reshape(ctas, self.padded)
        self._room = room
        self._fresh = bytearray([1] * (self.padded // BLOCK))  # blocks that hold anything: to be poisoned
        self._all_used = False
        self._covered: dict[int, Covered] = {}

    @property
    def bytes(self) -> np.ndarray:
        """All bytes, to read and to write until the next write is deferred."""
        self.seen = True
        return self.part(0, self.padded)

    @property
    def chunks(self) -> np.ndarray:
        """All bytes as 16-byte units (ctas, n)."""
        return self.bytes.view(CHUNK)

    def part(self, low: int, high: int) -> np.ndarray:
        """All bytes, of which only those from ``low`` up to and without ``high`` may be looked at or written."""
        if self.staged is not None and self.staged.map[:, low:high].any():
            self.seen = True
        return self._part(low, high)

    def staging(self, low: int, high: int, rows: np.ndarray | None) -> np.ndarray:
        """`part`, for those who look in the CTAs ``rows`` (None = all) at nothing but what is `staged`."""
        if self.staged is not None and self.staged.missing(None, slice(low, high), rows):
            self.seen = True
        return self._part(low, high)

    def _part(self, low: int, high: int) -> np.ndarray:
        if not self._all_used:
            self._poison(low, high)
        if self.deferred or self._covered:
            self._materialize(low, high)
        return self._room

    def to_overwrite(self, places: np.ndarray, size: int, rows: np.ndarray | None = None) -> np.ndarray:
        """All bytes, of which the units of ``size`` bytes from ``places`` on are to be written, and none looked at.

        Of writes that wait for such bytes the rest goes on waiting; who looks at it finds the later write as well.
        No two units overlap. ``rows``: the CTAs in which they are written; None: every CTA. What waits for others too
        is performed, since those may still look at it.
        """
        low = int(places.min())
        high = int(places.max()) + size
        if rows is not None and not self._waits_for(rows, low, high):
            self._materialize(low, high)
        if not self._all_used:
            if rows is None and len(places) * size == high - low:  # what lies wholly inside needs no poison
                first = -(-low // BLOCK)
                self._fresh[first : high // BLOCK] = bytes(max(0, high // BLOCK - first))
            self._poison(low, high)
        for write in [w for w in self.deferred.values() if w.start < high and w.stop > low]:
            del self.deferred[write.start]
            self._cover(write)
        for start, (write, over) in list(self._covered.items()):
            inside = places[(places >= start) & (places < write.stop)] - start
            if start % size:
                over[(inside[:, None] + np.arange(size)).reshape(-1)] = True
            else:
                mark_units(over, inside // size, size)
            if over.all():
                del self._covered[start]
        return self._room

    def remember(self, write: DeferredWrite) -> None:
        """Defer a write. What waited for these bytes alone is forgotten: nobody can see it any more.

        A write of some CTAs forgets one of the same CTAs; others can still be seen, and are performed.
        """
        start = write.start
        stop = write.stop
        old = self.deferred.get(start)
        if write.rows is not None:
            if old is None or old.stop != stop or not same_rows(old.rows, write.rows):
                self._materialize(start, stop)
        elif old is None or old.stop != stop:
            if old is not None:
                del self.deferred[start]
                if old.stop > stop:  # the stage of a ring that held a larger tile before
                    self._cover(old)
            covered = self._covered.get(start)
            if covered is not None:
                covered.over[: stop - start] = True
                if covered.over.all():
                    del self._covered[start]
            self._materialize(start, stop)
        self.deferred[start] = write

    def release(self) -> None:
        """The CTAs have ended: give the memory back, once."""
        self.deferred.clear()
        self._covered.clear()
        if self._pages is not None and self._pages.size <= MOST_KEPT:
            _kept.append(self._pages)
        else:
            self._pool.keep(self._room)

    def _waits_for(self, rows: np.ndarray, low: int, high: int) -> bool:
        """Whether all that waits for a range of addresses is written in these CTAs alone."""
        waiting = [*self.deferred.values(), *(covered.write for covered in self._covered.values())]
        return all(same_rows(rows, one.rows) for one in waiting if one.start < high and one.stop > low)

    def _materialize(self, low: int, high: int) -> None:
        for write in [w for w in self.deferred.values() if w.start < high and w.stop > low]:
            del self.deferred[write.start]
            if not self._all_used:
                self._poison(write.start, write.stop)
            write.perform(self._room)
            self.seen = True
        for start, (_, over) in list(self._covered.items()):
            if not over[max(low - start, 0) : max(high - start, 0)].all():
                self._uncover(start)

    def _cover(self, write: DeferredWrite) -> None:
        """Let a write go on waiting below others; one that waits there already from its address on is performed."""
        if write.start in self._covered:
            self._uncover(write.start)
        self._covered[write.start] = Covered(write, np.zeros(write.stop - write.start, bool))

    def _uncover(self, start: int) -> None:
        """Perform a write that waits below others, but for the bytes that have been written over it."""
        write, over = self._covered.pop(start)
        if not self._all_used:
            self._poison(start, write.stop)
        later = self._room[:, start : write.stop][:, over]
        write.perform(self._room)
        self._room[:, start : write.stop][:, over] = later
        self.seen = True

    def _poison(self, low: int, high: int) -> None:
        """Fill the blocks of a range that nobody has used before."""
        first = low // BLOCK
        end = -(-high // BLOCK)
        while (block := self._fresh.find(1, first, end)) >= 0:
            stop = self._fresh.find(0, block, end)
            stop = end if stop < 0 else stop
            self._room[:, block * BLOCK : stop * BLOCK] = 0xFF
            self._fresh[block:stop] = bytes(stop - block)
            first = stop
        self._all_used = 1 not in self._fresh
