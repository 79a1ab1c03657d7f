"""Happens-before: the synchronisation of one cluster, as vector clocks.

Followed are the CTAs of the first cluster of every cohort, all with one set of clocks. Messages pass through mbarriers
(of the own CTA, or of a peer by its shared::cluster address), CTA barriers, the cluster barrier, and single locations
that strong accesses release and acquire; fences and waits move knowledge between the clocks of a warp (see `clocks`).
Arrivals and waits without ``.cluster`` order across CTAs too: compilers in wide use leave the scope of an mbarrier
operation out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from convc.machine.isa.observe import actors
from convc.machine.state.barriers import ELSEWHERE
from convc.machine.state.observed import ObservedCohort, ObservedStrand
from convc.machine.state.warpgroups import WARPS
from convc.ptx import Instr
from convc.sanitizer.checker import Checker
from convc.sanitizer.clocks import (
    GENERIC,
    GLOBAL,
    NEVER,
    SHARED,
    TENSOR,
    UNPUBLISHED,
    WEAK,
    AsyncStream,
    ClockMessage,
    WarpClocks,
)
from convc.sanitizer.strength import Locations

NOTHING = ClockMessage()
"""What a relaxed arrival without a fence before it passes on."""

Home = tuple[int, int]
"""A barrier: row of its CTA, and its shared address there."""


class ProxyFence(NamedTuple):
    """A proxy fence that a warp has executed: when that was, and what the warp knew."""

    instr: Instr
    component: int
    time: int
    known: ClockMessage

    @classmethod
    def executed(cls, instr: Instr, clocks: WarpClocks) -> ProxyFence:
        """The fence that a warp with these clocks executes now."""
        known = ClockMessage()
        known.add(clocks)
        return cls(instr, clocks.component, clocks.now, known)

    def between(self, component: int, time: int, clocks: WarpClocks) -> bool:
        """Whether it came behind what a component did at a time, and ahead of what a warp with these clocks does."""
        return self.known.time(GENERIC, component) >= time and clocks.time(GENERIC, self.component) >= self.time


@dataclass(slots=True)
class Barrier:
    """An mbarrier: the copies that signal it (their time is the phase they count in), and what its phases pass on."""

    copies: AsyncStream
    open: ClockMessage = field(default_factory=ClockMessage)
    done: ClockMessage = field(default_factory=ClockMessage)


class HappensBefore(Checker):
    """The clocks of everybody; ``met`` are (component, peer) of warps that know that a peer has started.

    ``closed`` counts the groups of wgmma that a warp has committed: the times of what its warpgroup multiplies.
    ``fences`` are the proxy fences that warps have executed, the last time of each instruction. ``made`` are the warps
    that have executed fence.mbarrier_init.

    Subclasses override `touch`.
    """

    def begin(self, cohort: ObservedCohort) -> None:
        """Start afresh for every cohort."""
        self.cohort = cohort
        self.owner: list[int] = []
        self.warps: dict[tuple[int, int], WarpClocks] = {}
        self.streams: dict[tuple[str | int, ...], AsyncStream] = {}
        self.barriers: dict[Home, Barrier] = {}
        self.meetings: dict[tuple[str | int, ...], ClockMessage] = {}
        self.locations = Locations()
        self.closed: dict[tuple[int, int], int] = {}
        self.met: set[tuple[int, int]] = set()
        self.fences: dict[tuple[int, int, int], ProxyFence] = {}
        self.made: set[tuple[int, int]] = set()

    def touch(
        self, instr: Instr, row: int, thread: tuple[int, int], barrier: Home, work: AsyncStream | None = None
    ) -> None:
        """A thread (warp, lane) operates on a barrier, or (with ``work``) has it signalled when that is done."""

    # ---- who -----------------------------------------------------------------------------------------------------

    def component(self, row: int) -> int:
        """A new component, which belongs to a CTA."""
        self.owner.append(row)
        return len(self.owner) - 1

    def clocks(self, row: int, warp: int) -> WarpClocks:
        """The clocks of a warp."""
        key = (row, warp)
        if key not in self.warps:
            self.warps[key] = WarpClocks(component=self.component(row))
        return self.warps[key]

    def stream(self, kind: str, row: int, *thread: int) -> AsyncStream:
        """The stream of asynchronous work of a kind that a thread or a warp issues."""
        key = (kind, row, *thread)
        if key not in self.streams:
            self.streams[key] = AsyncStream(self.component(row))
        return self.streams[key]

    def barrier(self, home: Home) -> Barrier:
        """The copies and messages of a barrier."""
        if home not in self.barriers:
            self.barriers[home] = Barrier(AsyncStream(self.component(home[0])))
        return self.barriers[home]

    def started(self, row: int, peer: int, clocks: WarpClocks) -> bool:
        """Whether a warp with these clocks knows that a peer of its CTA has started: by a meeting or any message."""
        known = clocks.component, peer
        if known not in self.met:
            told = np.flatnonzero(clocks.views[GENERIC] > NEVER).tolist()
            if any(self.owner[component] == peer for component in told):
                self.met.add(known)
        return known in self.met

    def life(self, row: int) -> Mapping[int, int]:
        """The knowledge that a CTA has started."""
        return {self.stream("life", row).component: 0}

    # ---- mbarriers -------------------------------------------------------------------------------------------------

    def init(self, strand: ObservedStrand, instr: Instr, barrier: int) -> None:
        """mbarrier.init: a new object, also where there was one before."""
        for _, row, _, _, _ in actors(strand):
            self.barriers.pop((row, barrier), None)

    def settle(self, homes: Iterable[Home]) -> None:
        """A phase that has completed is there for waits to acquire; to be called when a whole event has been told."""
        for row, address in homes:
            machine = self.cohort.barriers.get(address)
            if machine is None:
                continue
            phase = machine.phase if isinstance(machine.phase, int) else int(machine.phase[row])
            barrier = self.barrier((row, address))
            if phase != barrier.copies.time:
                barrier.copies.time = phase
                barrier.done.add(barrier.open)
                barrier.open = ClockMessage()

    def arrive(self, strand: ObservedStrand, instr: Instr, barrier: int, homes: np.ndarray | None) -> None:
        """Release, where it is an arrival and not relaxed."""
        name = instr.form.name
        touched: set[Home] = set()
        for at, row, _, warp, lanes in actors(strand):
            home = (row if homes is None else int(homes[at]), barrier)
            clocks = self.clocks(row, warp)
            clocks.tick()
            self.touch(instr, row, (warp, int(lanes[0])), home)
            touched.add(home)
            opened = self.barrier(home).open
            if name == "cp.async.mbarrier.arrive":
                copies = self.stream("cp.async", row, warp)
                opened.announce({copies.component: copies.time})
                copies.next()
            elif "relaxed" in instr.mods or "arrive" not in name:
                opened.add(clocks.released.get(home[0] != row, NOTHING))
            else:
                opened.add(clocks)
        self.settle(touched)

    def wait(self, strand: ObservedStrand, instr: Instr, barrier: int, done: np.ndarray) -> None:
        """Acquire, at once or behind the next acquire fence."""
        waiting = [(row, warp, int(lanes[0])) for at, row, _, warp, lanes in actors(strand) if done[at]]
        self.settle({(row, barrier) for row, _, _ in waiting})
        for row, warp, lane in waiting:
            clocks = self.clocks(row, warp)
            clocks.tick()
            self.touch(instr, row, (warp, lane), (row, barrier))
            message = self.barrier((row, barrier)).done
            if "relaxed" in instr.mods:
                clocks.pending.setdefault(False, ClockMessage()).add(message)
            else:
                clocks.add(message)

    def commit(
        self, strand: ObservedStrand, instr: Instr, barrier: int, signals: Sequence[tuple[int, tuple[int, int], int]]
    ) -> None:
        """The barriers hear of all earlier tensor operations of each thread, and of what the thread knows.

        The commit implies ``tcgen05.fence::before_thread_sync`` (PTX manual, tcgen05.commit).
        """
        late = self._late(barrier, [home for _, _, home in signals])
        for behind in (False, True):
            told = [signal for position, signal in enumerate(signals) if (position in late) == behind]
            for row, thread, home in told:
                clocks = self.clocks(row, thread[0])
                work = self.stream("tensor", row, *thread)
                clocks.tick()
                clocks.publish()
                time = work.next()
                self.touch(instr, row, thread, (home, barrier), work)
                bell = self.barrier((home, barrier))
                bell.open.add(clocks)
                bell.open.announce({work.component: time, bell.copies.component: bell.copies.time})
            self.settle({(home, barrier) for _, _, home in told})

    def _late(self, barrier: int, homes: list[int]) -> set[int]:
        """Which arrivals of an event came when the phase was complete without them: each barrier's last ones.

        CTAs arrive together here, and on the GPU in any order. So a phase that needs fewer than come passes on no more
        than it needs.
        """
        machine = self.cohort.barriers[barrier]
        found: set[int] = set()
        for home in set(homes):
            pending, expected = (
                number if isinstance(number, int) else int(number[home])
                for number in (machine.pending, machine.expected)
            )
            over = expected - pending  # arrivals behind the complete phase; none or all: none is late
            found.update([position for position, to in enumerate(homes) if to == home][-over:])
        return found

    # ---- groups of copies ------------------------------------------------------------------------------------------

    def commit_group(self, strand: ObservedStrand, instr: Instr) -> None:
        """Close the running group."""
        if instr.form.name == "wgmma.commit_group":
            for _, row, _, warp, _ in actors(strand):
                self.closed[row, warp] = self.closed.get((row, warp), 0) + 1
            return
        for stream, _ in self._groups(strand, instr, ("bulk read", "bulk write")):
            stream.close()

    def wait_group(self, strand: ObservedStrand, instr: Instr, left: int) -> None:
        """The warp knows of all but the latest groups; with ``.read``, only that their sources have been read."""
        if instr.form.name == "wgmma.wait_group":
            for _, row, _, warp, _ in actors(strand):
                done = self.closed.get((row, warp), 0) - left
                self.clocks(row, warp).learn({self.stream("wgmma", row, warp // WARPS).component: done})
            return
        kinds = ("bulk read",) if "read" in instr.mods else ("bulk read", "bulk write")
        for stream, clocks in self._groups(strand, instr, kinds):
            if instr.form.name == "cp.async.wait_all":
                stream.close()
            clocks.wait(stream.known(left))

    def _groups(
        self, strand: ObservedStrand, instr: Instr, kinds: tuple[str, ...]
    ) -> list[tuple[AsyncStream, WarpClocks]]:
        """The streams that a group instruction is about: of warps for cp.async, of threads for bulk copies."""
        bulk = "bulk" in instr.mods
        found: list[tuple[AsyncStream, WarpClocks]] = []
        for _, row, _, warp, lanes in actors(strand):
            keys = [("cp.async", row, warp)]
            if bulk:
                keys = [(kind, row, warp, lane) for lane in lanes.tolist() for kind in kinds]
            # A thread that has issued no copy has no stream: its groups are empty.
            found += [(self.streams[key], self.clocks(row, warp)) for key in keys if key in self.streams]
        return found

    # ---- barriers of the CTA and of the cluster ----------------------------------------------------------------------

    def cta_barrier(self, strand: ObservedStrand, instr: Instr, leave: bool) -> None:
        """bar.sync: everybody who arrives tells everybody who leaves."""
        assert strand.ticket is not None, "a warp at a CTA barrier holds a ticket"
        for at, row, warp_at, warp, _ in actors(strand):
            for meeting in strand.ticket.meetings:
                generation = int(meeting.generation[at, warp_at])
                if generation != ELSEWHERE:
                    self._meet(("cta", row, meeting.index, generation), self.clocks(row, warp), leave)

    def cluster_barrier(self, strand: ObservedStrand, instr: Instr, leave: bool) -> None:
        """barrier.cluster; a relaxed arrival passes on what a fence before it released.

        Barriers that a warp makes behind its fence.mbarrier_init are known weakly: kernels in wide use do that.
        """
        tickets = self.cohort.cluster_barrier.ticket
        for _, row, _, warp, _ in actors(strand):
            meeting = ("cluster", int(tickets[row, warp]))
            clocks = self.clocks(row, warp)
            relaxed = "relaxed" in instr.mods and not leave
            message = self._meet(meeting, clocks.released.get(True, NOTHING) if relaxed else clocks, leave)
            if not leave:
                message.announce(self.life(row))
            if relaxed and (row, warp) in self.made:
                inits = self.stream("init", row, warp)
                message.tell((WEAK,), {inits.component: inits.time})

    def _meet(self, meeting: tuple[str | int, ...], clocks: ClockMessage, leave: bool) -> ClockMessage:
        """Tell a meeting what one knows, or hear from it what all who arrived knew; gives what it passes on."""
        message = self.meetings.setdefault(meeting, ClockMessage())
        if leave:
            clocks.add(message)
        else:
            message.add(clocks)
        return message

    # ---- fences ----------------------------------------------------------------------------------------------------

    def fence(self, strand: ObservedStrand, instr: Instr) -> None:
        """Proxy fences, thread fences, tcgen05 fences and waits."""
        for _, row, _, warp, _ in actors(strand):
            clocks = self.clocks(row, warp)
            match instr.form.name:
                case "bar.warp.sync":
                    clocks.meet()
                case "tcgen05.wait":
                    stream = self.stream("tcgen05." + _chosen(instr, "op").removeprefix("wait::"), row, warp)
                    clocks.tell((UNPUBLISHED, WEAK), {stream.component: stream.time})
                    clocks.pass_on(UNPUBLISHED, TENSOR)
                case "tcgen05.fence" if "fence::after_thread_sync" in instr.mods:
                    clocks.pass_on(GENERIC, TENSOR)
                case "tcgen05.fence":
                    clocks.publish()
                case "fence.proxy" | "fence.proxy.restrict":
                    self._proxy(clocks, instr.slots.get("proxykind") or "async")
                    self.fences[row, warp, instr.index] = ProxyFence.executed(instr, clocks)
                case "fence.proxy.tensormap":
                    self.fences[row, warp, instr.index] = ProxyFence.executed(instr, clocks)
                case "fence.mbarrier_init":
                    self.made.add((row, warp))
                    inits = self.stream("init", row, warp)
                    made = ClockMessage()
                    made.announce({inits.component: inits.time})
                    clocks.tell((SHARED,), {inits.component: inits.time})
                    clocks.release((False, True), made)
                case "fence" | "fence.sync_restrict":
                    slots = instr.slots
                    scope = slots.get("scope") or _chosen(instr, "level")
                    if scope == "cta" and clocks.pending.get(True):
                        self.locations.narrow(row)
                    clocks.fence(slots.get("sem") or "both", scope)
                case _:
                    pass

    @staticmethod
    def _proxy(clocks: WarpClocks, kind: str) -> None:
        """fence.proxy.async: of shared or of global memory alone, or of both."""
        for space, fenced in (("shared", SHARED), ("global", GLOBAL)):
            if kind == "async" or kind.startswith(f"async.{space}"):
                clocks.pass_on(GENERIC, fenced)


def _chosen(instr: Instr, slot: str) -> str:
    """The modifier of a slot that the instruction's form does not let a text leave out."""
    found = instr.slots[slot]
    assert found is not None, f"{instr.form.name} always has a modifier for {slot}"
    return found
