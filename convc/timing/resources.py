"""The units of an SM: requests that they take one after the other, and who waits for whom.

Each resource answers when a request that comes at some time begins and ends, and remembers what it was last busy with,
so that waiting for it has a cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from convc.timing.parameters import Chip
from convc.timing.tensor_core import interval, latency
from convc.timing.trace import Work

FIXED = {"shift": "tensor_memory.shift"}
"""Operations of the tensor core that take a fixed time; the others of tensor memory move bytes."""


@dataclass(slots=True)
class Server:
    """One request at a time, in the order in which they come.

    Attributes:
        free: when it is free.
        last: number of the event that it was busy with last.
        busy: cycles of work so far.
    """

    free: float = 0.0
    last: int | None = None
    busy: float = 0.0

    def take(self, time: float, cycles: float, event: int) -> tuple[float, int | None]:
        """Begin of a request, and the event that it had to wait for, if any."""
        begin = max(time, self.free)
        cause = self.last if self.free > time else None
        self.free = begin + cycles
        self.last = event
        self.busy += cycles
        return begin, cause


@dataclass(slots=True)
class Streaming:
    """The resources of one SM.

    Attributes:
        chip: its parameters.
        l2: bytes a cycle that this SM gets of L2 while all that are busy ask.
        cold: operands come from memory, not from L2.
        prefetched: tensor maps were fetched early.
    """

    chip: Chip
    l2: float
    cold: bool = False
    prefetched: bool = False
    fill: Server = field(default_factory=Server)
    stores: Server = field(default_factory=Server)
    tensor: Server = field(default_factory=Server)
    sectors: Server = field(default_factory=Server)
    lanes: list[Server] = field(default_factory=lambda: [Server() for _ in range(4)])
    cached: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    warmed: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    queued: list[float] = field(default_factory=list[float])

    def copy(self, work: Work, time: float, event: int) -> tuple[float, float, int | None]:
        """Begin and end of a copy through TMA, and what it had to wait for."""
        chip = self.chip
        if work.kind == "store":
            begin, cause = self.stores.take(time, work.bytes / chip["shared_memory.store_port"], event)
            return begin, self.stores.free, cause
        read = work.bytes - work.filled
        rows = work.lines / chip["tma.row"] if work.mode != "bulk" else 0.0
        begin, cause = self.fill.take(time, max(work.bytes / chip["tma.fill"], rows, read / self.l2), event)
        wait = chip["tma.memory_latency" if self.cold else "tma.latency"]
        if work.mode == "im2col":
            wait += chip["tma.im2col"]
        if not self.prefetched and (work.row, work.buffer) not in self.warmed:
            self.warmed.add((work.row, work.buffer))
            wait += chip["tma.first"]
        return begin, self.fill.free + wait, cause

    def load(self, lines: tuple[tuple[str, int], ...], time: float) -> float:
        """Time at which a load of global memory has its data; the cache keeps what was loaded before."""
        for line in lines:
            self.cached.setdefault(line, time + self.chip["threads.global_latency"])
        return max([time + self.chip["assembler.cached"], *(self.cached[line] for line in lines)])

    def tensor_work(self, work: Work, time: float, event: int) -> tuple[float, float, float, int | None]:
        """Queue an operation of the tensor core: acceptance, begin, end, and the event that it waited for.

        Operations are performed in the order in which they are issued; the queue takes a few of them.
        """
        chip = self.chip
        held = self.queued[-int(chip["tensor_core.queue"])] if len(self.queued) >= chip["tensor_core.queue"] else 0.0
        accepted = max(time, held)
        if work.mma is not None:
            cycles = interval(work.mma, chip)
            after = latency(work.mma, chip) - cycles
        else:
            known = FIXED.get(work.kind)
            cycles = work.bytes / chip["tensor_memory.copy"] if known is None else chip[known]
            after = chip["tensor_core.depth"]
        begin, cause = self.tensor.take(accepted, cycles, event)
        self.queued.append(begin)
        return accepted, begin, begin + cycles + max(after, 0.0), cause
