"""Replay a trace on the resources of an SM: when everything happens, and what it waited for.

Warps go on by themselves, in the order of time; a warp that needs a phase, a barrier or a group of copies stops until
it is known when that is complete. Every event remembers the event that let it begin or end when it did: going back from
the last one is the critical path (`convc.timing.attribution`).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Traits
from convc.timing.costs import holds, result, slots
from convc.timing.events import Event
from convc.timing.moving import conflicts
from convc.timing.outline import NO_SECTORS, bytes_behind, outline, unit_of
from convc.timing.parameters import Chip
from convc.timing.resources import Share, Streaming
from convc.timing.spread import later, later_anywhere, latest, where_later
from convc.timing.trace import Item, Phase, Trace, Warp

ASYNC_REGISTERS = forms_with(Traits.ASYNC_REGISTERS)

TENSOR_CORE = "tensor core"
"""Track of MMAs and of operations of tensor memory."""

PARTITIONS = 4
"""Parts of an SM that have a quarter of its registers and pipes each (CUDA occupancy calculator, programming guide)."""

SEEN = (TENSOR_CORE, "tma")
"""Tracks of works whose latency ends when a thread sees it; whoever waits for a thread's arrival wakes up later."""


@dataclass(slots=True)
class _Strand:
    """A warp that is being replayed."""

    warp: Warp
    items: list[Item]
    kinds: Sequence[int]  # of its items (see `convc.timing.outline`)
    alone: Sequence[bool]
    track: str
    time: float
    at: int = 0
    arrived: int = -1  # the last item that arrived at a barrier
    last: int | None = None  # its latest event
    step: str = ""
    ready: dict[int, float] = field(default_factory=dict[int, float])  # when the result of an item can be read
    fetched: float | None = None  # the same of the first load of this step: ptxas puts a step's loads together
    turned: bool = False  # it has waited for a phase: before that all SMs do the same at the same time
    copied: int = 0  # where the copies that its latest wait let through begin
    group: list[int] = field(default_factory=list[int])
    groups: list[list[int]] = field(default_factory=list[list[int]])


class Replay:
    """One cluster on SMs of its own."""

    def __init__(self, trace: Trace, chip: Chip, share: Share, sms: int) -> None:
        """``share``: what an SM gets of what all share. ``sms``: rows lie on them in turns."""
        self.chip = chip
        self.trace = trace
        assembled = any(item.sass is not None for items in trace.items.values() for item in items[:1])
        self.sms = [Streaming(chip, share, trace.prefetches, assembled) for _ in range(sms)]
        self.events: list[Event] = []
        self.work_ends: dict[int, tuple[float, int]] = {}
        self._complete: dict[object, tuple[float, int | None]] = {}  # phases and meetings
        self._latest: dict[object, tuple[float, int | None]] = {}
        self._woken: dict[object, float] = {}  # when those see it who wait for it
        self._wake = chip["mbarrier.wake"] + chip["mbarrier.poll"] / 2
        self._stopped: dict[object, list[_Strand]] = defaultdict(list)
        self._outline = outline(trace)
        self._due = dict(self._outline.due)
        self._own = [(holds(item, chip, jumps), result(item, chip)) for item, jumps in self._outline.kinds]
        self._slots = [slots(item, chip) for item, _ in self._outline.kinds]
        self._behind = bytes_behind(trace)
        self._apart = share.apart
        self._issued: dict[tuple[int, int], float] = {}  # until when the warps of a quarter of an SM have issued
        self._heap: list[tuple[float, int, _Strand]] = []
        self._turn = 0
        self._now = 0.0

    def run(self) -> float:
        """Cycles from entry to exit of the last warp; a trace that cannot go on is a mistake of the recorder."""
        entry = self.chip["launch.entry"]
        for warp, items in sorted(self.trace.items.items()):
            track = f"warp {warp[1]}" if self.trace.ctas == 1 else f"CTA {warp[0]} warp {warp[1]}"
            self._go_on(_Strand(warp, items, self._outline.kind[warp], self._outline.alone[warp], track, entry))
        while self._heap:
            self._now, _, strand = heapq.heappop(self._heap)
            if strand.alone[strand.at]:
                self._go_alone(strand)
                self._go_on(strand)
            elif self._advance(strand):
                self._go_on(strand)
        waiting = {key for key, strands in self._stopped.items() if strands}
        assert not waiting, f"the replay is stuck: {waiting}"
        return latest(event.end for event in self.events) if self.events else entry

    def _go_on(self, strand: _Strand) -> None:
        """A warp continues at its time; of several, the one that was there first."""
        self._later(strand.time, strand)

    def _later(self, time: float, strand: _Strand) -> None:
        """Look at a warp again when everything before a time has happened."""
        self._turn += 1
        heapq.heappush(self._heap, (time, self._turn, strand))

    def complete(self, phase: Phase) -> float:
        """The time at which a phase was complete."""
        return self._complete[phase][0]

    # ---- one item ------------------------------------------------------------------------------------------------

    def _go_alone(self, strand: _Strand) -> None:
        """Perform the items up to the next one that others see: when they are performed matters to no other."""
        alone = strand.alone
        held = 0.0
        begin = strand.time
        while alone[strand.at]:
            item = strand.items[strand.at]
            start, own, late = self._begin(strand, item)
            held += self._slots[strand.kinds[strand.at]]
            if item.name == "ld":
                strand.ready[strand.at] = start + self.chip["shared_memory.load_latency"]
            strand.time = start + own
            strand.last = self._event(strand, item, start, None, "program", late)
            strand.at += 1
        if held:
            self._take_turns(strand, begin, held)

    def _take_turns(self, strand: _Strand, begin: float, held: float) -> None:
        """Let a warp go on when its quarter of the SM has issued what it and the other warps there had to issue."""
        row, warp = strand.warp
        quarter = (row if self._apart else row % len(self.sms), warp % PARTITIONS)
        issued = self._issued[quarter] = later(begin, self._issued.get(quarter, 0.0)) + held
        if later_anywhere(issued, strand.time):
            strand.time = later(strand.time, issued)
            self.events[-1].end = strand.time  # the last one of those that it has gone alone through

    def _begin(self, strand: _Strand, item: Item) -> tuple[float, float, str]:
        """When the next item of a warp issues, how long it holds the warp, and whose value it had to wait for."""
        if item.step != strand.step:
            strand.step = item.step
            strand.fetched = None
        ready = strand.ready
        start = strand.time
        late = None
        for need in item.needs:
            until = ready[need]
            if until > start:
                late = need
            start = later(start, until)
        own, until = self._own[strand.kinds[strand.at]]
        ready[strand.at] = start + until
        if item.sass is not None and item.sass.reads:
            ready[~strand.at] = start + self.chip[item.sass.reads]
        if late is None:
            return start, own, ""
        return start, own, unit_of(strand.items[late]) if late >= 0 else "alu"

    def _advance(self, strand: _Strand) -> bool:
        """Perform the next item of a warp; False where it ends, or stops until something is known."""
        if strand.at == len(strand.items):
            return False
        item = strand.items[strand.at]
        if item.meets is not None and strand.arrived < strand.at:
            strand.arrived = strand.at
            self._count(item.meets, strand.time, strand.last)
        needed = self._needed(item)
        if needed is not None:
            self._stopped[needed].append(strand)
            return False
        if item.wavefronts and (free := self.sms[strand.warp[0] % len(self.sms)].shared.free) > self._now:
            self._later(free, strand)
            return False
        start, own, late = self._begin(strand, item)
        cause, edge = self._perform(strand, item, start, own)
        number = self._event(strand, item, start, cause, edge, late)
        event = self.events[number]
        if event.unit in ("global memory", "shared memory"):
            event.busy = event.end - start - own
        self._finished((strand.warp, strand.at), strand.time, number)
        strand.last = number
        strand.at += 1
        return True

    def _needed(self, item: Item) -> object | None:
        """What must be known before an item can be performed, and is not."""
        if item.waits is not None and item.waits not in self._complete:
            return item.waits
        if item.leaves is not None and item.leaves not in self._complete:
            return item.leaves
        return None

    def _perform(self, strand: _Strand, item: Item, start: float, own: float) -> tuple[int | None, str]:
        """Move a warp's time past an item; what it waited for, and how."""
        cause: int | None = None
        edge = "program"
        if item.works:
            return self._issue(strand, item, later(start, self._met(item)), own)
        if item.waits is not None:
            strand.turned = True
            complete, cause = self._complete[item.waits]
            strand.time = where_later(complete, start + own, self._woken[item.waits], start + own)
            return (cause, "phase") if complete > start + own else (None, edge)
        if item.leaves is not None:
            met, cause = self._complete[item.leaves]
            strand.time = later(start, met) + self._barrier_cycles(item)
            return (cause, "barrier") if met > start else (None, edge)
        if item.group:
            strand.groups.append(strand.group)
            strand.group = []
        if item.left is not None:
            gone = strand.groups[: max(0, len(strand.groups) - item.left)]
            ends = [self.work_ends[work] for group in gone for work in group]
            last = max(ends, default=(start, None))
            strand.time = later(start + own, latest(end for end, _ in ends))
            return (last[1], "group") if last[0] > start + own else (None, edge)
        if item.cells:
            return self._tensor_memory(strand, item, start, own)
        if item.sectors != NO_SECTORS:
            return self._global(strand, item, start, own)
        if item.wavefronts or item.remote:
            return self._shared(strand, item, start, own)
        strand.time = start + own
        return cause, edge

    def _met(self, item: Item) -> float:
        """When the warps that perform an item together are all there; 0 for one that performs it alone."""
        return 0.0 if item.leaves is None else self._complete[item.leaves][0]

    def _barrier_cycles(self, item: Item) -> float:
        if item.leaves is not None and item.leaves[0] == "cluster":
            return self.chip["threads.cluster_barrier"]
        warps = len(self.trace.arrivals[item.leaves]) if item.leaves is not None else 1
        return self.chip["threads.barrier"] + self.chip["threads.barrier_warp"] * warps

    def _issue(self, strand: _Strand, item: Item, start: float, own: float) -> tuple[int | None, str]:
        """Copies and operations of the tensor core: the warp goes on when they are accepted."""
        sm = self.sms[strand.warp[0] % len(self.sms)]
        time = start + own
        cause: int | None = None
        for number in item.works:
            work = self.trace.works[number]
            if number in self.work_ends:  # of a warpgroup, whose first warp has issued it
                strand.group.append(number)
                continue
            event = len(self.events)
            if work.kind in ("load", "store"):
                if item.sass is None and self._first_copy(strand):
                    time = start + self.chip["tma.issue"] * (self.chip["threads.unrolled"] if item.unrolled else 1)
                if item.sass is None and number != item.works[0]:  # of another lane: ptxas makes a loop over them
                    time += self.chip["tma.issue_lane"]
                others = [self.sms[(work.row + away) % len(self.sms)] for away in work.reaches]
                # The latency of a copy was measured from here, not from where its thread goes on.
                behind = self._behind.get(number, 0)
                begin, end, queued = sm.copy(work, start, event, others, together=not strand.turned, behind=behind)
                track = "tma"
                unit = sm.limit
                busy = (sm.fill if work.kind == "load" else sm.stores).served[-1][1]
                strand.group.append(number)
            else:
                # CTAs of a pair differ in the last bit of their rank.
                other = self.sms[(work.row ^ 1) % len(self.sms)] if work.pair else None
                accepted, begin, end, queued = sm.tensor_work(work, time, event, other)
                track = TENSOR_CORE
                unit = track
                busy = sm.tensor.served[-1][1]
                if item.name in ASYNC_REGISTERS:  # its groups are waited for as those of copies are
                    strand.group.append(number)
                if accepted > time:
                    cause = queued
                time = later(time, accepted)
            self.events.append(
                Event(
                    track=track,
                    name=work.kind,
                    step=work.step,
                    line=work.line,
                    start=begin,
                    end=end,
                    cause=strand.last if queued is None else queued,
                    edge="program" if queued is None else "queue",
                    row=strand.warp[0],
                    warp=strand.warp[1],
                    work=number,
                    unit=unit,
                    busy=busy,
                )
            )
            self._finished(number, end, event)
            self.work_ends[number] = (end, event)
        strand.time = time
        return cause, "queue" if cause is not None else "program"

    def _first_copy(self, strand: _Strand) -> bool:
        """Whether a warp has waited for a barrier since its last copy: those behind one wait follow each other soon."""
        passed = strand.items[strand.copied : strand.at]
        first = not strand.copied or any(item.tests for item in passed)
        strand.copied = strand.at
        return first

    def _tensor_memory(self, strand: _Strand, item: Item, start: float, own: float) -> tuple[int | None, str]:
        """tcgen05.ld and st: through the port of the warp's sub-partition; done before the warp goes on."""
        server = self.sms[strand.warp[0] % len(self.sms)].lanes[strand.warp[1] % 4]
        cycles = item.cells * 4 * 32 / self.chip["tensor_memory.port"] * conflicts(item, self.chip)
        _, cause = server.take(start + own, cycles, len(self.events))
        fixed = self.chip["tensor_memory.load" if item.name == "tcgen05.ld" else "tensor_memory.store"]
        strand.ready[strand.at] = server.free + fixed
        strand.time = start + own
        return cause, "queue" if cause is not None else "program"

    def _shared(self, strand: _Strand, item: Item, start: float, own: float) -> tuple[int | None, str]:
        """Loads and stores of shared memory; the warp goes on when those before it have been served."""
        sm = self.sms[strand.warp[0] % len(self.sms)]
        access = sm.remote(item.remote, start + own, len(self.events)) if item.remote else None
        begin, end, cause = access or sm.access(item.wavefronts, start + own, len(self.events))
        if item.loads:  # the latency is that of one wavefront
            behind = later(0.0, end - start - own - 1)
            latency = self.chip["shared_memory.remote_latency" if item.remote else "shared_memory.load_latency"]
            strand.ready[strand.at] = start + latency + behind
        strand.time = begin
        return cause, "queue" if cause is not None else "program"

    def _global(self, strand: _Strand, item: Item, start: float, own: float) -> tuple[int | None, str]:
        """Loads and stores of global memory, through the unit that all warps of the SM share."""
        chip = self.chip
        touched, part = item.sectors
        cycles = touched * chip["threads.sector"] + part * chip["threads.part_line"]
        begin, cause = self.sms[strand.warp[0] % len(self.sms)].sectors.take(start + own, cycles, len(self.events))
        if item.loads and item.sass is not None:
            strand.ready[strand.at] = self.sms[strand.warp[0] % len(self.sms)].load(item.cached, begin + cycles)
            strand.time = start + own
            return None, "program"
        if item.loads:
            if strand.fetched is None:
                strand.fetched = begin + chip["threads.global_latency"]
            strand.fetched += cycles
            strand.ready[strand.at] = strand.fetched
            strand.time = start + own
            return None, "program"
        self.sms[strand.warp[0] % len(self.sms)].stored(begin, cycles)
        queued = chip["assembler.store_queue"] if item.sass is not None else 0.0
        strand.time = later(start + own, begin + cycles - queued)
        return cause, "queue" if cause is not None else "program"

    # ---- what becomes known ----------------------------------------------------------------------------------------

    def _event(self, strand: _Strand, item: Item, start: float, cause: int | None, edge: str, late: str) -> int:
        """Write down what a warp did."""
        row, warp = strand.warp
        self.events.append(
            Event(
                track=strand.track,
                name=item.name,
                step=item.step,
                line=item.line,
                start=start,
                end=strand.time,
                cause=strand.last if cause is None or edge == "queue" else cause,
                edge=edge,
                row=row,
                warp=warp,
                phase=item.waits,
                unit=unit_of(item),
                late=late,
            )
        )
        return len(self.events) - 1

    def _finished(self, key: object, time: float, event: int) -> None:
        """An item or a work is done at a time that is known now: so may be phases and meetings."""
        for user in self._outline.users.get(key, ()):
            self._count(user, time, event)

    def _count(self, user: object, time: float, event: int | None) -> None:
        """One contribution less is missing."""
        so_far, last = self._latest.get(user, (-1.0, None))
        woken = time
        if event is None or self.events[event].track not in SEEN:
            woken += self._wake
        self._woken[user] = where_later(time, so_far, woken, self._woken.get(user, 0.0))
        self._latest[user] = later(so_far, time), event if time > so_far else last
        self._due[user] -= 1
        if self._due[user]:
            return
        self._complete[user] = self._latest[user]
        for strand in self._stopped.pop(user, ()):
            self._go_on(strand)
