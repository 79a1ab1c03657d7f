"""Global memory between clusters: CTAs that nothing orders use the same bytes, one of them writing.

Clusters run in no particular order, so two that store to one place race, and so do one that stores and one that loads
(PTX manual, "Memory Consistency Model"). The check remembers for every piece of a buffer who wrote there, and two
readers of different clusters. Atomics and reductions are no stores; strong accesses do not race with each other. In a
kernel with strong accesses a lock or a flag may order the others. What warps hand over is followed
(`convc.sanitizer.handovers`); else a person has to look, unless what releases or acquires has a scope that cannot
(`convc.sanitizer.releases`). Strong accesses of two clusters that meet need scopes of
the GPU. Inside one cluster, `convc.sanitizer.racecheck` follows what is ordered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from convc.ir.findings import Finding, Region, Verdict
from convc.machine.state.observed import ObservedCohort, ObservedStrand
from convc.machine.state.observer import GlobalRange, Places, Transfer
from convc.ptx import Instr
from convc.sanitizer.checker import Checker
from convc.sanitizer.handovers import Handovers
from convc.sanitizer.releases import MemoryOrder, Releases, order_of
from convc.sanitizer.shadow import Sparse
from convc.sanitizer.sites import finding, site_between
from convc.sanitizer.strength import advice, strength_of

Part = tuple[np.ndarray, int, np.ndarray]
"""Starts of lines, bytes per line, and the CTA of each."""

Executed = tuple[Instr, int]
"""An instruction, and the linear number of the CTA that executed it."""


class Writes(Checker):
    """One finding per pair of instructions and buffer.

    Attributes:
        inside: whether threads of one cluster come twice to bytes of which one of them writes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.buffers: dict[str, Sparse] = {}
        self.loads: list[tuple[Instr, np.ndarray, GlobalRange]] = []
        self.inside = False
        self.releases: Releases | None = None
        self.handovers = Handovers(0)
        self.order: dict[int, MemoryOrder] = {}

    def begin(self, cohort: ObservedCohort) -> None:
        """Go on with another cohort; who wrote where is kept."""
        self.cohort = cohort
        self.body = cohort.launch.program.kernel.body
        strengths = [strength_of(instr) for instr in self.body]
        self.strong = np.array([strength is not None for strength in strengths])
        self.widest = np.array([strength is not None and strength.widest for strength in strengths])
        spaces = [str(instr.slots.get("space")) for instr in self.body]
        outside = np.array([not name.startswith("shared") for name in spaces])
        # Strong accesses outside of shared memory may be a lock or a flag, which orders what this does not follow.
        self.orders = bool((self.strong & outside).any())
        self.narrow = bool((self.strong & outside & ~self.widest).any())
        if self.releases is None:
            launch = cohort.launch
            self.releases = Releases(math.prod(launch.grid) // math.prod(launch.cluster))
            self.warps = -(-math.prod(launch.block) // 32)
            self.handovers = Handovers(math.prod(launch.grid) * self.warps)
            self.order = {instr.index: order for instr in self.body if (order := order_of(instr)) is not None}

    def fence(self, strand: ObservedStrand, instr: Instr) -> None:
        """A fence of whole CTAs, so far as this matters here."""
        if self.orders and instr.index in self.order:
            self._order(instr, self._numbers(strand))
        if self.orders and instr.form.name == "bar.warp.sync":
            rows = self._numbers(strand)
            warps = rows[:, None] * self.warps + strand.warps
            met = True if strand.mask is None else strand.mask.any(axis=-1)
            self.handovers.meet(warps[np.broadcast_to(met, warps.shape)])

    def _order(self, instr: Instr, cta: np.ndarray) -> None:
        """CTAs release, or acquire."""
        assert self.releases is not None, "a cohort has begun"
        self.releases.order(instr, self.order[instr.index], np.unique(self._cluster(cta)))

    def _numbers(self, strand: ObservedStrand) -> np.ndarray:
        return self.cohort.place.number if strand.rows is None else self.cohort.place.number[strand.rows]

    def _note(self, instr: Instr, cta: np.ndarray) -> None:
        """CTAs access global memory in a kernel that may have locks or flags."""
        if self.orders and self.releases is not None:
            self.releases.access(instr, np.unique(self._cluster(cta)))

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
        """Note loads and stores of all CTAs."""
        if self.orders:
            if instr.index in self.order:
                self._order(instr, self._numbers(strand))
            self._note(instr, self._numbers(strand))
        if kind == "atom" and not self.narrow and instr.index not in self.order:
            return
        offset = np.asarray(offset)
        rows = np.arange(self.cohort.ctas) if strand.rows is None else strand.rows
        warps = np.asarray(strand.warps)[:, None]
        lanes = np.arange(32)
        if kind == "ld" and mask is None and (not offset.ndim or offset.shape[0] == 1) and not self.orders:
            rows = rows[[0, -1]]  # all load the same: two stand for them
        shape = (len(rows), len(warps), 32)
        active = np.broadcast_to(np.True_ if mask is None else mask, shape)
        starts = np.broadcast_to(offset, shape)[active].astype(np.int64)
        cta = np.broadcast_to(self.cohort.place.number[rows][:, None, None], shape)[active]
        warp = np.broadcast_to(warps, shape)[active]
        if self.orders:
            left = self._not_handed_over(instr, kind, buffer, (starts, size), cta, cta * self.warps + warp)
            starts, cta, warp = starts[left], cta[left], warp[left]
        if not len(starts) or (kind == "atom" and not self.narrow):
            return
        if kind not in ("st", "atom"):
            self._load(instr, buffer, starts, size, cta)
            return
        lane = np.broadcast_to(lanes, shape)[active]
        store = self._store if kind == "st" else self._update
        store(instr, buffer, starts, size, cta, lambda i: (int(warp[i]), int(lane[i])))

    def _not_handed_over(
        self, instr: Instr, kind: str, buffer: str, where: tuple[np.ndarray, int], cta: np.ndarray, warps: np.ndarray
    ) -> np.ndarray:
        """Follow what warps hand over; of loads, which of them read something else too."""
        starts, size = where
        order = self.order.get(instr.index)
        if order is not None:
            self.handovers.order(order, kind == "st", buffer, starts, warps)
        if kind == "st":
            self._stored_over(buffer, starts, size, warps)
        if kind == "ld" and order is None:
            return ~self.handovers.read(instr.index, buffer, starts, size, cta, warps)
        return np.ones(len(starts), bool)

    def _stored_over(self, buffer: str, starts: np.ndarray, size: int, warps: np.ndarray | None) -> None:
        """Store, by warps or by copies, where others may have read what was handed over: these are readers again."""
        for index, offsets, readers, unit in self.handovers.stored(buffer, starts, size, warps):
            self._load(self.body[index], buffer, offsets, unit, readers)

    def copy(self, strand: ObservedStrand, instr: Instr, transfer: Transfer) -> None:
        """Note what copies store; what they load is looked at in the end, for buffers that are written."""
        memory = transfer.memory
        cta = self.cohort.place.number[transfer.rows]
        if memory is None or memory.kind == "atom":
            return
        self._note(instr, cta)
        if memory.kind == "ld":
            self.loads.append((instr, cta, memory))
            return
        parts = list(_flat(memory, cta))
        if self.orders:
            for starts, size, _ in parts:
                self._stored_over(memory.buffer, starts.astype(np.int64), size, None)
        if not self._stored_alone(instr, memory.buffer, parts):
            for starts, size, who in parts:
                self._store(instr, memory.buffer, starts, size, who, lambda _: transfer.thread)

    def copies(self, strand: ObservedStrand, instr: Instr, transfers: Sequence[Transfer], memory: GlobalRange) -> None:
        """Note what copies store at once, where no other CTA stores there."""
        cta = self.cohort.place.number[np.concatenate([transfer.rows for transfer in transfers])]
        if memory.kind != "st" or self.orders or not self._stored_alone(instr, memory.buffer, list(_flat(memory, cta))):
            super().copies(strand, instr, transfers, memory)

    def findings(self) -> list[Finding]:
        """Everything that was found, with what only the whole launch can tell."""
        for instr, cta, memory in self.loads:
            if memory.buffer in self.buffers and "writer" in self.buffers[memory.buffer].lines:
                for starts, size, who in _flat(memory, cta):
                    self._load(instr, memory.buffer, starts, size, who)
        self.loads.clear()
        for buffer, tables in self.buffers.items():
            for writer in ("writer", "updater"):
                for reader in ("reader", "another"):
                    if {writer, reader} <= tables.lines.keys():  # most buffers that a kernel writes are not read
                        self._compare(buffer, tables, reader, writer)
        return super().findings()

    # ---- tables --------------------------------------------------------------------------------------------------

    def _cluster(self, cta: np.ndarray) -> np.ndarray:
        gx, gy, _ = self.cohort.launch.grid
        cx, cy, cz = self.cohort.launch.cluster
        x = cta % gx // cx
        y = cta // gx % gy // cy
        z = cta // (gx * gy) // cz
        return x + gx // cx * (y + gy // cy * z)

    def _find(
        self, buffer: str, starts: np.ndarray, size: int, cta: np.ndarray
    ) -> tuple[Sparse, np.ndarray, np.ndarray, np.ndarray]:
        """(tables, places, their offsets, their CTAs), flat."""
        tables = self.buffers.setdefault(buffer, Sparse())
        places, offsets = tables.find(starts, size)
        return tables, places.reshape(-1), offsets.reshape(-1), np.repeat(cta, places.shape[1])

    def _stored_alone(self, instr: Instr, buffer: str, parts: Sequence[Part]) -> bool:
        """Become the writer of several parts at once, if no other CTA ever wrote there; else change nothing."""
        if len({size for _, size, _ in parts}) != 1:
            return False
        size = parts[0][1]
        starts, cta = (np.concatenate([part[side] for part in parts]) for side in (0, 2))
        tables, places, _, who = self._find(buffer, starts, size, cta)
        writer, line = tables.both("writer", "writer line")
        before = writer[places]
        by = line[places]
        writer[places] = who
        line[places] = instr.index
        if _alone(before, who, writer[places]):
            self.inside |= bool((before >= 0).any())
            return True
        writer[places] = before
        line[places] = by
        return False

    def _store(
        self,
        instr: Instr,
        buffer: str,
        starts: np.ndarray,
        size: int,
        cta: np.ndarray,
        thread: Callable[[int], tuple[int, int]],
    ) -> None:
        """Compare with the writers so far, and become the writer; `thread` gives warp and lane of a line of bytes."""
        tables, places, offsets, who = self._find(buffer, starts, size, cta)
        writer, line = tables.both("writer", "writer line")
        before = writer[places]
        by = line[places]
        if not self.inside:
            self.inside = self._twice(tables, places, before, who)
        writer[places] = who
        line[places] = instr.index
        if _alone(before, who, writer[places]):
            return
        # Where several CTAs of this very instruction store to one place, numpy has kept the last: it is the other one.
        collided = writer[places] != who
        before = np.where(collided, writer[places], before)
        by = np.where(collided, instr.index, by)
        clash = (before >= 0) & (self._cluster(before) != self._cluster(who))
        clash &= ~(self.widest[instr.index] & self.widest[by])
        self._meet(clash, instr, buffer, (offsets, who, before, by), lambda at: thread(at * len(starts) // len(who)))

    def _twice(self, tables: Sparse, places: np.ndarray, before: np.ndarray, who: np.ndarray) -> bool:
        """Whether one store comes twice to a place, or a cluster to one at which it was."""
        _, line = tables.both("writer", "writer line")
        own = np.arange(places.size, dtype=np.int32)
        line[places] = own  # of several the last stays
        if (line[places] != own).any() or ((before >= 0) & (self._cluster(before) == self._cluster(who))).any():
            return True
        if "reader" not in tables.lines:
            return False
        reader = tables.get("reader")[places]
        return bool(((reader >= 0) & (self._cluster(reader) == self._cluster(who))).any())

    def _meet(
        self,
        clash: np.ndarray,
        instr: Instr,
        buffer: str,
        places: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
        thread: Callable[[int], tuple[int, int]],
    ) -> None:
        """Report the first clash of an instruction with what was at places before; these are where, who, whom, what."""
        offsets, who, before, by = places
        if clash.any():
            at = int(clash.argmax())
            one = (instr, int(who[at]))
            other = (self.body[int(by[at])], int(before[at]))
            self._report(buffer, int(offsets[at]), one, other, thread(at))

    def _update(
        self,
        instr: Instr,
        buffer: str,
        starts: np.ndarray,
        size: int,
        cta: np.ndarray,
        thread: Callable[[int], tuple[int, int]],
    ) -> None:
        """An atomic in a kernel where some have a narrow scope meets other strong accesses, each as wide as it is."""
        tables, places, offsets, who = self._find(buffer, starts, size, cta)
        for names in (("writer", "writer line"), ("updater", "updater line")):
            last, line = tables.both(*names)
            before = last[places]
            by = line[places]
            if names[0] == "updater":
                last[places] = who
                line[places] = instr.index
                collided = last[places] != who
                before = np.where(collided, last[places], before)
                by = np.where(collided, instr.index, by)
            clash = (before >= 0) & (self._cluster(before) != self._cluster(who)) & self.strong[by]
            clash &= ~(self.widest[instr.index] & self.widest[by])
            self._meet(
                clash, instr, buffer, (offsets, who, before, by), lambda at: thread(at * len(starts) // len(who))
            )

    def _load(self, instr: Instr, buffer: str, starts: np.ndarray, size: int, cta: np.ndarray) -> None:
        """Become a reader, the first or one of another cluster."""
        tables, places, _, who = self._find(buffer, starts, size, cta)
        if not self.inside and "writer" in tables.lines:
            writer = tables.get("writer")[places]
            self.inside = bool(((writer >= 0) & (self._cluster(writer) == self._cluster(who))).any())
        reader, line = tables.both("reader", "reader line")
        fresh = reader[places] < 0
        reader[places[fresh]] = who[fresh]
        line[places[fresh]] = instr.index
        first = reader[places]
        if (first == who).all():
            return
        other = self._cluster(first) != self._cluster(who)
        other_reader, other_line = tables.both("another", "another line")
        other_reader[places[other]] = who[other]
        other_line[places[other]] = instr.index

    def _compare(self, buffer: str, tables: Sparse, name: str, by: str) -> None:
        """Report readers of what another cluster writes, or (``updater``) changes by atomics of other scopes."""
        for start, part in tables.known():
            reader = tables.get(name)[part]
            writer = tables.get(by)[part]
            loads = tables.get(f"{name} line")[part]
            stores = tables.get(f"{by} line")[part]
            clash = (reader >= 0) & (writer >= 0) & (self._cluster(reader) != self._cluster(writer))
            clash &= ~(self.widest[loads] & self.widest[stores])
            if by == "updater":
                clash &= self.strong[loads]
            lines: list[int] = np.unique(loads[clash]).tolist()
            for load in lines:
                at = int((clash & (loads == load)).argmax())
                one = (self.body[load], int(reader[at]))
                other = (self.body[int(stores[at])], int(writer[at]))
                self._report(buffer, start + at * tables.unit, one, other, None)

    def _report(self, buffer: str, offset: int, one: Executed, other: Executed, thread: tuple[int, int] | None) -> None:
        """``one`` meets ``other``, which stores there; it is a store too if its thread (warp, lane) is known."""
        instr, cta = one
        store, by = other
        key = (instr.index, store.index, buffer)
        if key in self.found:
            return
        where = f"buffer {buffer!r} at byte {offset}"
        if thread is not None:
            message = f"more than one CTA stores to {where}: CTA {cta} and CTA {by} (line {store.span.line})"
        else:
            message = f"CTA {cta} reads {where}, which CTA {by} writes (line {store.span.line})"
        rule = "race-global-memory"
        verdict = Verdict.error
        narrow = self._narrow(one, other)
        if self.strong[instr.index] and self.strong[store.index]:
            rule = "scope-too-narrow"
            message += ": their scopes do not include threads of other clusters; .gpu does"
        elif narrow is not None:
            rule = "scope-too-narrow"
            message += f": the {narrow.form.name} of line {narrow.span.line} does not include other clusters; .gpu does"
        elif self.orders:
            verdict = Verdict.review
            message += ": a lock or a flag must order the two; convc does not follow these between clusters"
            message += advice(strength_of(instr), strength_of(store))
        else:
            message += f": nothing orders the two{advice(strength_of(instr), strength_of(store))}"
        region = Region(space="global", buffer=buffer, runs=((offset, offset),))
        sites = site_between(one, region, thread), site_between(other, region, None)
        self.found[key] = finding(verdict, rule, message, *sites)

    def _narrow(self, one: Executed, other: Executed) -> Instr | None:
        """What would order two accesses of different clusters if its scope were wider."""
        if not self.orders or self.releases is None:
            return None
        clusters = self._cluster(np.array([one[1], other[1]])).tolist()
        return self.releases.too_narrow((one[0], clusters[0]), (other[0], clusters[1]))


def _alone(before: np.ndarray, who: np.ndarray, now: np.ndarray) -> bool:
    """Whether CTAs that have become writers are the only ones: by who wrote ``before``, and who counts ``now``."""
    return bool(((before == who) | (before < 0)).all() and (now == who).all())


def _flat(memory: GlobalRange, cta: np.ndarray) -> Iterator[Part]:
    """The parts of copies by all of some CTAs."""
    for which, starts, size in memory.lines(np.arange(len(cta))):
        inside = starts >= 0
        if inside.all():
            yield starts.reshape(-1), size, np.repeat(cta[which], starts.shape[1])
        elif inside.any():
            yield starts[inside].astype(np.int64), size, np.broadcast_to(cta[which][:, None], starts.shape)[inside]
