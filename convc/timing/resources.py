"""The units of an SM: requests that they take one after the other, and who waits for whom.

Each resource answers when a request that comes at some time begins and ends, and remembers what it was last busy with,
so that waiting for it has a cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from convc.timing.accesses import REQUEST
from convc.timing.moving import moving_cycles
from convc.timing.parameters import Chip
from convc.timing.spread import back_by, later, later_anywhere, latest, sooner, where_later
from convc.timing.tensor_core import MmaShape, interval, latency, read_a_cycles, read_b_cycles
from convc.timing.trace import SHIFT, Work

ALL_LANES = 2048
"""Bytes of the smallest tcgen05.cp that reads for all 128 lanes (128x128b)."""

WAVEFRONT = 128
"""Bytes of shared memory that a warp's access takes at once."""


@dataclass(slots=True)
class Server:
    """One request at a time, in the order in which they come.

    Attributes:
        free: when it is free.
        last: number of the event that it was busy with last.
        busy: cycles of work so far.
        served: begin, cycles and event of every request, in order.
    """

    free: float = 0.0
    last: int | None = None
    busy: float = 0.0
    served: list[tuple[float, float, int]] = field(default_factory=list[tuple[float, float, int]])

    def take(self, time: float, cycles: float, event: int) -> tuple[float, int | None]:
        """Begin of a request, and the event that it had to wait for, if any."""
        begin = later(time, self.free)
        cause = self.last if self.free > time else None
        self.free = begin + cycles
        self.last = event
        self.busy += cycles
        self.served.append((begin, cycles, event))
        return begin, cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part that an SM has of what all SMs share, while those that are busy ask.

    Attributes:
        l2: bytes a cycle that it reads.
        crowd: the same while all read at the same time.
        missed: part of what it reads that comes from memory.
        together: requests of a GPC for the same that L2 serves as one, at most.
        merged_im2col: part of them that are, of copies by im2col.
        same_place: bytes of L2's rate for a request that is not for a whole line, where all ask for the same.
        meeting: part of such requests that meet. asking: SMs that ask.
        stores: how much longer its warps' stores take until L2 has them than until they have left the SM.
        maps: cycles that the first copy by a tensor map waits because other SMs fetch it too.
        apart: CTAs that lie on it at the same time are not in step, and do not get into each other's way to issue.
    """

    l2: float
    crowd: float = float("inf")
    missed: float = 0.0
    together: float = 1.0
    merged_im2col: float = 0.0
    same_place: float = REQUEST
    meeting: float = 0.0
    asking: float = 1.0
    stores: float = 1.0
    maps: float = 0.0
    apart: bool = False

    def asked(self, work: Work) -> float:
        """Bytes of L2's rate that a copy takes.

        Of whole lines that others read too each SM takes its part where they meet. Requests for less are served one
        after the other where all ask for the same line, and so are those of rows outside of the tensor.
        """
        outside = work.outside * self.same_place
        if work.in_parts:
            meeting = self.meeting * sooner(1.0, (work.everywhere - 1) / later(1.0, self.asking - 1))
            return outside + work.taken + work.inside * (self.same_place - REQUEST) * meeting
        saved = 1 - 1 / sooner(self.together, work.readers)
        return outside + work.taken * (1 - saved * (self.merged_im2col if work.mode == "im2col" else 1.0))


@dataclass(slots=True)
class Streaming:
    """The resources of one SM.

    Attributes:
        chip: its parameters.
        share: what it gets of what all share.
        prefetched: tensor maps were fetched early. assembled: the simulator's own instructions are replayed.
        reading: begin and end of each MMA, and the part of the read port that it takes meanwhile.
        limit: that set the rate of the latest copy.
        shapes: cycles of each shape of MMA so far: alone in a long chain, from issue to its mbarrier, of the read port.
        drained: when L2 has the stores of warps and of TMA that have begun.
    """

    chip: Chip
    share: Share
    prefetched: bool = False
    assembled: bool = False
    fill: Server = field(default_factory=Server)
    stores: Server = field(default_factory=Server)
    tensor: Server = field(default_factory=Server)
    sectors: Server = field(default_factory=Server)
    shared: Server = field(default_factory=Server)
    network: Server = field(default_factory=Server)
    reading: list[tuple[float, float, float]] = field(default_factory=list[tuple[float, float, float]])
    lanes: list[Server] = field(default_factory=lambda: [Server() for _ in range(4)])
    cached: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    warmed: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    flying: list[tuple[float, float, int]] = field(default_factory=list[tuple[float, float, int]])
    asked: float = 0.0
    drained: float = 0.0
    queued: list[float] = field(default_factory=list[float])
    limit: str = ""
    shapes: dict[MmaShape, tuple[float, float, float]] = field(
        default_factory=dict[MmaShape, tuple[float, float, float]]
    )

    @property
    def units(self) -> dict[str, Server]:
        """The units that take one request after the other, by the names that reports have for them."""
        lanes = {f"tensor memory {index}": lane for index, lane in enumerate(self.lanes)}
        return {
            "tensor core": self.tensor,
            "fill": self.fill,
            "bulk stores": self.stores,
            "sectors": self.sectors,
            **lanes,
        }

    def copy(
        self,
        work: Work,
        time: float,
        event: int,
        others: Sequence[Streaming] = (),
        *,
        together: bool = False,
        behind: float = 0.0,
    ) -> tuple[float, float, int | None]:
        """Begin and end of a TMA copy, and what it had to wait for.

        ``together``: all SMs ask at that time. ``behind``: bytes that are asked for right behind it; they overtake it.

        A multicast copy asks L2 once, and takes the fill ports of all SMs that get it, ``others`` besides this one.
        """
        chip = self.chip
        if work.kind == "store":
            self.limit = "bulk stores"
            alone = chip["shared_memory.store_port"]
            begin = later(time, self.stores.free)
            end = self._beside(begin, work.bytes / alone, 1 - chip["shared_memory.store_beside"] / alone, 0.0)
            begin, cause = self.stores.take(time, end - begin, event)
            self.drained = later(self.drained, end + chip["tma.written"])
            return begin, end, cause
        if (work.row, work.buffer) not in self.warmed:  # those that are issued later wait behind it
            self.warmed.add((work.row, work.buffer))
            fetched = "assembler.first_prefetched" if self.assembled else "tma.first_prefetched"
            time += chip[fetched if self.prefetched else "tma.first"] + self.share.maps
        times = {"fill port": work.bytes / chip["tma.fill"], "TMA requests": work.requests / chip["tma.row"]}
        self.limit = max(times, key=times.__getitem__)
        begin, cause = self.fill.take(time, later(*times.values()), event)
        filled = self.fill.free
        for other in others:
            other.fill.take(begin, later(*times.values()), event)
            filled = later(filled, other.fill.free)
        missed = self.share.missed
        wait = chip["tma.latency"] * (1 - missed) + chip["tma.memory_latency"] * missed
        if work.mode == "im2col":
            wait += chip["tma.im2col"]
        asked = self.share.asked(work)
        end = filled + wait
        crowded = time + self._in_crowd(filled - begin + wait, asked, time, work.row, together)
        if crowded > end:
            self.limit = "L2"
        end = later(end, crowded) + sooner(chip["tma.overtaken"], behind / chip["tma.fill"])
        self.flying.append((end, asked, work.row))
        return begin, end, cause

    def _in_crowd(self, alone: float, asked: float, time: float, row: int, together: bool) -> float:
        """Cycles of a copy that takes ``alone`` where no other SM asks, behind what this SM has asked for already.

        A closed queue: all SMs do the same, so each waits for its own bytes in flight at its share of the rate, and
        the latency passes meanwhile: for what is left of the copies of its own CTA, ``row``, which come in order, and
        for all of those of others, which come by turns. How sharp the knee is was measured, of L2 and of memory.
        """
        self.flying = [copy for copy in self.flying if later_anywhere(copy[0], time)]
        self.asked += asked
        rate = sooner(self.share.l2, self.share.crowd) if together else self.share.l2
        before = sum(
            sooner(size, later(0.0, end - time) * rate) if of == row else where_later(end, time, size, 0.0)
            for end, size, of in self.flying
        )
        queue = (asked + before) / rate
        knee = self.chip["chip.memory_knee" if self.share.missed else "chip.l2_knee"]
        return (alone**knee + queue**knee) ** (1 / knee)

    def remote(self, size: int, time: float, event: int) -> tuple[float, float, int | None]:
        """Begin and end of an access of another CTA's shared memory, of so many bytes, and what it waited for."""
        begin, cause = self.network.take(time, size / self.chip["shared_memory.remote"], event)
        return begin, self.network.free, cause

    def access(self, wavefronts: int, time: float, event: int) -> tuple[float, float, int | None]:
        """Begin and end of a warp's access of shared memory, which the port serves behind MMAs; what it waited for."""
        begin = later(time, self.shared.free)
        least = self.chip["shared_memory.beside"] / self.chip["shared_memory.read_port"]
        end = self._beside(begin, wavefronts * WAVEFRONT / self.chip["shared_memory.read_port"], 1.0, least)
        begin, cause = self.shared.take(time, end - begin, event)
        return begin, end, cause

    def _beside(self, begin: float, cycles: float, gives: float, least: float) -> float:
        """End of something that takes some cycles of the read port where no MMA reads.

        Args:
            begin: when it begins.
            cycles: that it takes alone.
            gives: part of its rate that it loses where MMAs take all of the port; in proportion where they take less.
            least: part of its rate that it keeps in any case.
        """
        first = len(self.reading)
        while first and later_anywhere(self.reading[first - 1][1], begin):
            first -= 1
        time = begin
        for start, stop, part in self.reading[first:]:
            alone = sooner(cycles, later(0.0, start - time))
            time += alone
            cycles -= alone
            rate = later(least, 1 - gives * part)
            beside = later(0.0, stop - time) * rate
            time = where_later(cycles, beside, later(stop, time), time + cycles / rate)
            cycles -= sooner(cycles, beside)
            if not later_anywhere(cycles, 0.0):
                break
        return time + cycles

    def _reads(self, work: Work, begin: float, cycles: float) -> None:
        """An MMA reads its operands through the port, evenly while it is performed."""
        if work.mma is not None:
            _, _, port = self._shape(work.mma)
            self.reading.append((begin, begin + cycles, sooner(1.0, port / cycles)))

    def stored(self, begin: float, cycles: float) -> None:
        """A warp's store begins to leave the SM; warps do not wait for L2, but their CTA stays until it has all."""
        self.drained = later(self.drained, begin) + cycles * self.share.stores

    def load(self, lines: tuple[tuple[str, int], ...], time: float) -> float:
        """Time at which a load of global memory has its data; the cache keeps what was loaded before."""
        for line in lines:
            self.cached.setdefault(line, time + self.chip["threads.global_latency"])
        return latest([time + self.chip["assembler.cached"], *(self.cached[line] for line in lines)])

    def tensor_work(
        self, work: Work, time: float, event: int, other: Streaming | None = None
    ) -> tuple[float, float, float, int | None]:
        """Queue an operation of the tensor core: acceptance, begin, end, and the event that it waited for.

        Operations are performed in the order in which they are issued; the queue takes a few of them. Those of a pair
        take the tensor cores of both SMs, ``other`` being the second one, at the same time.
        """
        chip = self.chip
        accepted = later(time, back_by(self.queued, chip["tensor_core.queue"]))
        if work.mma is not None:
            alone, whole, _ = self._shape(work.mma)
            cycles = alone + moving_cycles(work, chip)
            after = whole - alone
        else:
            cycles = moving_cycles(work, chip) if work.kind == SHIFT else self._copied(work)
            after = chip["tensor_core.depth"]
        held = accepted if other is None else later(accepted, other.tensor.free)
        begin, cause = self.tensor.take(held, cycles, event)
        if other is not None and cause is None and begin > accepted:
            cause = other.tensor.last
        self._reads(work, begin, cycles)
        if other is not None:
            other.tensor.take(begin, cycles, event)
            other._reads(work, begin, cycles)
        if work.mma is not None:  # one that had to wait is one of a chain
            after += where_later(begin, accepted, chip["tensor_core.chain"], 0.0)
        self.queued.append(begin)
        return accepted, begin, begin + cycles + later(after, 0.0), cause

    def _shape(self, shape: MmaShape) -> tuple[float, float, float]:
        """The cycles of a shape of MMA, see ``shapes``."""
        known = self.shapes.get(shape)
        if known is None:
            port = read_a_cycles(shape, self.chip) + read_b_cycles(shape, self.chip)
            known = self.shapes[shape] = interval(shape, self.chip), latency(shape, self.chip), port
        return known

    def _copied(self, work: Work) -> float:
        """Cycles of a tcgen05.cp."""
        least = "tensor_memory.copy_least" if work.bytes >= ALL_LANES else "tensor_memory.copy_small"
        return later(work.bytes / self.chip["tensor_memory.copy"], self.chip[least])
