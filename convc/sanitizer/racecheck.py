"""The race checker: what the CTAs of one cluster do to shared, tensor and global memory.

Two accesses of one place, at least one a write, race unless one happened before the other. Only what the PTX manual
promises orders them: program order of a thread, what `convc.sanitizer.happens_before` follows, and the pairs of tcgen05
instructions that the tensor core keeps in order. The simulator performs everything in some order; that order is no
excuse here.

The first cluster of every cohort stands for those that do the same things; others run again, to be watched as well
(`convc.sanitizer.likeness`). What different clusters do to global memory is the matter of
`convc.sanitizer.cross_cluster`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from convc.machine.isa.observe import actors, lane_accesses
from convc.machine.state.observed import ObservedCohort, ObservedStrand
from convc.machine.state.observer import GlobalRange, LaneAccess, Places, Transfer
from convc.machine.state.warpgroups import WARPS
from convc.ptx import Instr
from convc.sanitizer.accesses import ONE_LANE, AccessFields
from convc.sanitizer.allocations import of_pair
from convc.sanitizer.clocks import AsyncStream, WarpClocks
from convc.sanitizer.happens_before import Home
from convc.sanitizer.shadow import Access, AccessSet, Sparse
from convc.sanitizer.strength import RELAXED, Location, Strength, strength_of
from convc.sanitizer.tensor_races import TensorRaces

WRITERS = {"tcgen05.alloc": "alloc", "mbarrier.init": "init", "mbarrier.inval": "inval"}
"""Instructions that write shared memory besides stores."""

Landing = tuple[Access, Home]
"""What a copy writes in a CTA, and the barrier that it signals then."""

STREAMS = ("cp.async", "init")
"""Kinds of accesses by ordinary instructions that are waited for."""


class Races(TensorRaces):
    """Findings of one launch."""

    def begin(self, cohort: ObservedCohort) -> None:
        """Start afresh for every cohort."""
        super().begin(cohort)
        self.unread: dict[str, list[tuple[int, GlobalRange, int]]] = {}
        self.written: set[str] = set()

    # ---- ordinary instructions -----------------------------------------------------------------------------------

    def shared(self, strand: ObservedStrand, instr: Instr, kind: str, accesses: Sequence[LaneAccess]) -> None:
        """Ordinary loads, stores and atomics, and cp.async."""
        if instr.form.name == "tcgen05.alloc" and of_pair(instr):
            for access in accesses:
                self.report(self.allocations.address(instr, access))
        strength = strength_of(instr)
        name = WRITERS.get(instr.form.name, kind)
        counted = {who: self.nth(instr, *who) for who in {(t.row, t.warp) for t in accesses}}
        write = kind != "ld"

        heard = self._heard(kind, strength)
        for access in accesses:
            row = access.row
            warp = access.warp
            clocks = self.clocks(row, warp)
            clocks.tick()
            more: AccessFields = {
                "home": access.home,
                "strength": strength,
                "nth": counted[row, warp],
                "write": write,
            }
            more |= self._stream(name, row, warp, clocks)
            made = self.entry(instr, name, row, warp, clocks, **more)
            self.access("shared", access.home, access.places, access.lanes, made, clocks)
            if heard:
                starts: list[Location] = [("shared", access.home, place) for place in access.places[:, 0].tolist()]
                self._observe(starts, kind, row, strength, clocks)

    def _stream(self, name: str, row: int, warp: int, clocks: WarpClocks) -> AccessFields:
        """Component and time of cp.async, and of mbarrier.init, which fence.mbarrier_init releases by itself."""
        if name not in STREAMS:
            return {}
        stream = self.stream(name, row, warp)
        if name == "init":
            clocks.learn({stream.component: stream.next()})
        return {"component": stream.component, "time": stream.time}

    def _heard(self, kind: str, strength: Strength | None) -> bool:
        """Whether an access may release or acquire anything, or make an end of what others released."""
        return strength is not None or (kind == "st" and bool(self.locations.held))

    def _observe(
        self, places: list[Location], kind: str, row: int, strength: Strength | None, clocks: WarpClocks
    ) -> None:
        """Release and acquire at the locations of a strong access; a weak store makes an end of what was there."""
        for place in dict.fromkeys(places):
            if kind != "st" and strength is not None:
                self.locations.read(place, row, clocks, strength)
            if kind != "ld":
                self.locations.write(place, row, clocks, strength, update=kind == "atom")

    def global_access(
        self,
        strand: ObservedStrand,
        instr: Instr,
        kind: str,
        buffer: str,
        offset: int | Places,
        size: int,
        mask: Places | None,
    ) -> None:
        """Ordinary loads, stores and atomics, and the sources of cp.async."""
        strength = strength_of(instr)
        starts = np.broadcast_to(np.asarray(offset), (strand.row_count, len(strand.warps), 32))
        for at, row, w, warp, lanes in actors(strand, mask):
            clocks = self.clocks(row, warp)
            clocks.tick()
            own = starts[at, w, lanes].astype(np.int64)
            more: AccessFields = {"strength": strength, "nth": self.nth(instr, row, warp)}
            more["write"] = kind in ("st", "atom")
            more |= self._stream(kind, row, warp, clocks)
            made = self.entry(instr, kind, row, warp, clocks, **more)
            self.report(self.grids.access(buffer, made, lanes, clocks))
            self._global(buffer, own, size, lanes, made, clocks)
            if self._heard(kind, strength):
                self._observe([("global", buffer, place) for place in own.tolist()], kind, row, strength, clocks)

    def _global(
        self, buffer: str, starts: np.ndarray, size: int, lanes: np.ndarray, access: Access, clocks: WarpClocks
    ) -> None:
        """Lanes (n,), each at its own, or one lane at all offsets of a buffer access ``size`` bytes from there on."""
        if starts.size:
            if access.write:
                self._read(buffer)
            self.perform(self._reached(buffer, starts, size, lanes), access, clocks)

    def _reached(self, buffer: str, starts: np.ndarray, size: int, lanes: np.ndarray) -> AccessSet:
        """The places of `_global`."""
        tables = self.shadow("global", buffer).tables
        assert isinstance(tables, Sparse), "the shadow of a buffer has pages"
        places, offsets = (part.reshape(len(lanes), -1) for part in tables.find(starts, size))
        return AccessSet("global", buffer, lanes, offsets, places, lanes[:, None])

    def _read(self, buffer: str) -> None:
        """Note what copies have read of a buffer, before a write to it: few that copies read are written as well."""
        self.written.add(buffer)
        for number, memory, at in self.unread.pop(buffer, ()):
            access = self.log[number]
            lanes = ONE_LANE[access.lane or 0]
            for starts, size in _lines(memory, at):
                reached = self._reached(buffer, starts, size, lanes)
                self.shadow("global", buffer).record(reached.places, number, reached.owners, access)

    def init(self, strand: ObservedStrand, instr: Instr, barrier: int) -> None:
        """mbarrier.init writes the object."""
        super().init(strand, instr, barrier)
        self.shared(strand, instr, "st", lane_accesses(strand, barrier, 8))

    def async_store(self, strand: ObservedStrand, instr: Instr, parts: Sequence[tuple[LaneAccess, int]]) -> None:
        """st.async, red.async: ordinary stores that others know of when the barrier's phase completes."""
        strength = strength_of(instr)
        name = instr.form.name
        for access, address in parts:
            clocks = self.clocks(access.row, access.warp)
            home = (access.home, address)
            clocks.tick()
            copies = self.barrier(home).copies
            entry = self.entry(
                instr,
                name,
                access.row,
                access.warp,
                clocks,
                component=copies.component,
                time=copies.time,
                write=True,
                home=access.home,
                strength=strength,
                nth=self.nth(instr, access.row, access.warp),
            )
            self.access("shared", access.home, access.places, access.lanes, entry, clocks)
            self._signal(instr, access.row, (access.warp, int(access.lanes[0])), home, clocks)
        self.settle({(access.home, address) for access, address in parts})

    def _signal(
        self, instr: Instr, row: int, thread: tuple[int, int], home: tuple[int, int], clocks: WarpClocks
    ) -> None:
        """The barrier hears of a copy when that is done, and of what its issuer knew."""
        barrier = self.barrier(home)
        self.touch(instr, row, thread, home, barrier.copies)
        barrier.open.add(clocks)
        barrier.open.announce({barrier.copies.component: barrier.copies.time})

    # ---- asynchronous copies ---------------------------------------------------------------------------------------

    def copy(self, strand: ObservedStrand, instr: Instr, transfer: Transfer) -> None:
        """A tensor or bulk copy: ordered after what its issuer knows."""
        issuers = np.flatnonzero(transfer.rows < self.cohort.watched).tolist()
        for at in issuers:
            self._land(instr, transfer, *self._copy(instr, transfer, at))
        if transfer.barrier is not None:
            self.settle({(bell, transfer.barrier) for at in issuers for bell in transfer.signals[at].tolist()})

    def _land(self, instr: Instr, transfer: Transfer, into: Sequence[Landing], clocks: WarpClocks) -> None:
        """A copy writes its destinations, one after the other, and signals the barrier of each."""
        lanes = ONE_LANE[transfer.thread[1]]
        for entry, signal in into:
            self.access("shared", entry.home, transfer.writes, lanes, entry, clocks)
            self._signal(instr, entry.row, transfer.thread, signal, clocks)

    def _copy(self, instr: Instr, transfer: Transfer, at: int) -> tuple[list[Landing], WarpClocks]:
        """What one of the issuing CTAs reads, and does to global memory; returns what it is to write then."""
        row = int(transfer.rows[at])
        warp, lane = transfer.thread
        clocks = self.clocks(row, warp)
        nth = self.nth(instr, row, warp, lane)
        lanes = ONE_LANE[lane]
        clocks.tick()
        homes = transfer.homes[at].tolist()
        signals: list[Home] = []
        if transfer.barrier is None:
            reads = self.stream("bulk read", row, warp, lane)
            writes = self.stream("bulk write", row, warp, lane)
        else:
            signals = [(bell, transfer.barrier) for bell in transfer.signals[at].tolist()]
            reads = self.barrier(signals[0]).copies
            writes = reads
        strength = RELAXED if "reduce" in instr.mods else None

        def entry(stream: AsyncStream, home: int, write: bool) -> Access:
            """The access of the copy to the memory of one CTA, by one of its streams."""
            return self.entry(
                instr,
                "copy",
                row,
                warp,
                clocks,
                component=stream.component,
                time=stream.time,
                nth=nth,
                write=write,
                actor="a copy",
                generic=False,
                lane=lane,
                home=home,
                strength=strength if write else None,
                swizzle=transfer.swizzle if write else None,
            )

        if transfer.reads.size:
            self.access("shared", row, transfer.reads, lanes, entry(reads, row, False), clocks)
        if memory := transfer.memory:
            store = memory.kind != "ld"
            access = entry(writes if store else reads, row, store)
            self.report(self.grids.access(memory.buffer, access, lanes, clocks))
            if store or memory.buffer in self.written:
                for starts, size in _lines(memory, at):
                    self._global(memory.buffer, starts, size, lanes, access, clocks)
            else:
                self.unread.setdefault(memory.buffer, []).append((len(self.log), memory, at))
                self.log.append(access)
        # There are none where the copy goes to global memory.
        into = zip(homes, signals, strict=True)
        return [(entry(self.barrier(signal).copies, home, True), signal) for home, signal in into], clocks

    def warpgroup_multiply(self, strand: ObservedStrand, instr: Instr, accesses: Sequence[LaneAccess]) -> None:
        """wgmma reads shared memory until its group is waited for, by any warp of the warpgroup."""
        for access in accesses:
            row = access.row
            warp = access.warp
            clocks = self.clocks(row, warp)
            clocks.tick()
            entry = self.entry(
                instr,
                "wgmma",
                row,
                warp,
                clocks,
                component=self.stream("wgmma", row, warp // WARPS).component,
                time=self.closed.get((row, warp), 0) + 1,
                actor="wgmma",
                generic=False,
                lane=int(access.lanes[0]),
                nth=self.nth(instr, row, warp),
                stream=("wgmma", None),
                operands=access.operands,
            )
            self.access("shared", row, access.places, access.lanes, entry, clocks)


def _lines(memory: GlobalRange, at: int) -> Iterator[tuple[np.ndarray, int]]:
    """(starts of lines, bytes per line) of the copy by one of the issuing CTAs, without those outside of the tensor."""
    for _, starts, size in memory.lines(np.array([at])):
        yield starts[starts >= 0], size
