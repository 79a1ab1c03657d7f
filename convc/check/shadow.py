"""Shadow memory: who accessed each place last.

Places are bytes of shared memory or cells of tensor memory. Per place there is the last write, and per kind of reader
the last read since; both are numbers of entries in a log of accesses.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One entry of the log.

    Attributes:
        component, time: position in vector time.
        actor: who, for people ("warp 4", "tensor copy of warp 4").
        kind: ld, st, mma, cp, shift, copy, init, alloc …
        write, generic: a write; made by an ordinary instruction (through the generic proxy).
        thread: warp that executed or issued it.
        after: components of the tensor operations that the pipeline keeps this one behind, its own among them.
        file, line, step: the instruction.
    """

    component: int
    time: int
    actor: str
    kind: str
    write: bool
    generic: bool
    thread: int
    after: Collection[int]
    file: str
    line: int
    step: str | None

    def __str__(self) -> str:
        step = f", step {self.step}" if self.step else ""
        return f"{'write' if self.write else 'read'} by {self.actor} ({self.kind}, line {self.line}{step})"


class Shadow:
    """Last accesses of ``size`` places."""

    def __init__(self, size: int) -> None:
        self.writer = np.full(size, -1, np.int32)
        self.readers: dict[str, np.ndarray] = {}

    def writers_of(self, places: np.ndarray) -> np.ndarray:
        """Log numbers of the last writes of some places."""
        found = np.unique(self.writer[places])
        return found[found >= 0]

    def readers_of(self, places: np.ndarray) -> np.ndarray:
        """Log numbers of the reads since the last writes."""
        parts = [np.unique(table[places]) for table in self.readers.values()]
        found = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int32)
        return found[found >= 0]

    def record(self, places: np.ndarray, number: int, reader: str | None) -> None:
        """Note a read by a kind of reader, or a write (``reader`` None), which also forgets older reads."""
        if reader is None:
            self.writer[places] = number
            for table in self.readers.values():
                table[places] = -1
            return
        if reader not in self.readers:
            self.readers[reader] = np.full(self.writer.size, -1, np.int32)
        self.readers[reader][places] = number

    def forget(self, places: np.ndarray) -> None:
        """Storage that was given back."""
        self.writer[places] = -1
        for table in self.readers.values():
            table[places] = -1
