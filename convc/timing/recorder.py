"""An observer that writes down a trace of the first cluster of a launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from convc.errors import UnmodelledError
from convc.machine.isa.observe import actors
from convc.machine.isa.operands import modifier
from convc.machine.state.barriers import ELSEWHERE
from convc.machine.state.observed import ObservedCohort, ObservedStrand
from convc.machine.state.observer import LaneAccess, Observer, Operation, Places, Transfer
from convc.machine.state.warpgroups import WARPS
from convc.ptx import Address, Instr
from convc.timing.accesses import LINE, lonely, requests, sectors, wavefronts
from convc.timing.forms import BarrierNames, TracedForm, form_of, mode_of, warpgroup_shape
from convc.timing.loops import Unrolled
from convc.timing.tensor_core import MmaShape
from convc.timing.trace import Contribution, Item, Meeting, Trace, Warp, Work
from convc.timing.values import Reading, Values

BESIDES = 34
"""Registers of a thread that ptxas needs besides the accumulator of a wgmma: 32 to 44 in kernels of ours."""

LONGEST_POLL = 64
"""Instructions of the longest loop around a test_wait of which one round is kept."""

MOST_ITEMS = 1_000_000
"""Instructions of warps in a trace: a kernel that takes more waits for what is not there."""


class Recorder(Observer):
    """Writes the trace of the first cluster that is run."""

    wants = frozenset({"shared"})

    def __init__(self, unrolled: Unrolled = Unrolled()) -> None:  # noqa: B008 - frozen record
        """``unrolled``: loops of the text that ptxas unrolls."""
        self._unrolled = unrolled
        self.trace = Trace(items={}, works=[], phases={}, arrivals={}, ctas=1)
        self._open: dict[tuple[int, int], list[Contribution]] = {}
        self._counted: dict[tuple[int, int], int] = {}
        self._before: dict[tuple[int, int], int] = {}  # phases of objects that were at the same place earlier
        self._tensor: dict[tuple[int, tuple[int, int]], list[int]] = {}
        self._multiplied: Counter[Warp] = Counter()  # wgmma of each warp so far
        self._joint: dict[Meeting, int] = {}  # the work of each wgmma of a warpgroup
        self._names = BarrierNames()
        self._items = 0
        self.registers = 0  # of a thread that multiplies by wgmma, about; else 0, which is not known
        self.most_columns = 0  # of tensor memory that a CTA holds
        self._columns: dict[int, int] = {}
        self.read: set[str] = set()  # buffers
        self.written: set[str] = set()
        self._values: dict[Warp, Values] = {}
        self._readings: dict[int, Reading] = {}
        self._forms: dict[int, TracedForm] = {}
        self._asked: tuple[object, object, object] = (None, None, None)
        self._who: list[Warp] = []

    def begin(self, cohort: ObservedCohort) -> None:
        """Take the cohort whose CTAs are watched."""
        self.cohort = cohort
        self.trace.ctas = cohort.watched

    def end(self, cohort: ObservedCohort) -> None:
        """Let the cohort go, which knows this observer: in a circle, its buffers would live until it is collected."""
        del self.cohort

    # ---- items -----------------------------------------------------------------------------------------------------

    def step(self, strand: ObservedStrand, instr: Instr) -> None:
        """A new item for each warp, or the same wait once more."""
        form = self._forms.get(instr.index)
        if form is None:
            form = self._forms[instr.index] = form_of(instr, self._unrolled)
            self.trace.prefetches |= instr.form.name == "prefetch.tensormap"
        for warp in self._warps(strand):
            items = self.trace.items.get(warp)
            if items is None:
                items = self.trace.items[warp] = []
                self._values[warp] = Values(self._unrolled.counters, self._readings)
            again = form.waits and items and items[-1].index == instr.index and items[-1].waits is None
            if again:
                items[-1] = form.item(items[-1].needs, False)
            else:
                if form.polls and items:
                    _drop_round(items, form.index, self._forms)
                self._count(instr)
                known = self._values[warp].note(instr, len(items))
                needs = tuple(at for at in known.needs if max(at, ~at) < len(items))  # others were dropped
                items.append(form.item(needs, known.repeats))

    def _warps(self, strand: ObservedStrand) -> list[Warp]:
        """The warps that execute, as (row, warp); a strand has the same arrays until that changes."""
        asked = (strand.rows, strand.warps, strand.mask)
        if any(new is not old for new, old in zip(asked, self._asked, strict=True)):
            self._asked = asked
            self._who = [(row, warp) for _, row, _, warp, _ in actors(strand)]
        return self._who

    def _count(self, instr: Instr) -> None:
        """One instruction more; `UnmodelledError` where there are so many that the kernel does not seem to end."""
        self._items += 1
        if self._items > MOST_ITEMS:
            raise UnmodelledError(
                f"more than {MOST_ITEMS} instructions were recorded without an end",
                span=instr.span,
                hint="one cluster is traced alone: a kernel that waits for other clusters cannot be timed; for a "
                "loop that depends on data, name the data in the launch file",
            )

    def _last(self, row: int, warp: int) -> Item:
        return self.trace.items[row, warp][-1]

    def _here(self, row: int, warp: int, works: Iterable[int] = ()) -> Contribution:
        return Contribution((row, warp), len(self.trace.items[row, warp]) - 1, tuple(works))

    # ---- works -----------------------------------------------------------------------------------------------------

    def copy(self, strand: ObservedStrand, instr: Instr, transfer: Transfer) -> None:
        """A TMA copy, which arrives at a barrier or belongs to a group."""
        told: set[tuple[int, int]] = set()
        at = {row: position for position, row in enumerate(transfer.rows.tolist())}
        for row, position in at.items():
            if row >= self.cohort.watched:
                continue
            number = self._work(strand, instr, row, transfer, position)
            self._last(row, transfer.thread[0]).works.append(number)
            if transfer.barrier is None:
                continue
            for home in transfer.signals[position].tolist():
                if home < self.cohort.watched:
                    self._open.setdefault((home, transfer.barrier), []).append(Contribution(None, 0, (number,)))
                    told.add((home, transfer.barrier))
        self._settle(told)

    def _work(self, strand: ObservedStrand, instr: Instr, row: int, transfer: Transfer, position: int) -> int:
        """Write down a CTA's copy."""
        moved = max(len(transfer.reads), len(transfer.writes))
        mode = mode_of(instr)
        requested = 0
        filled = 0
        outside = apart = 0
        if transfer.memory is not None:
            for _, offsets, size in transfer.memory.lines(np.array([position])):
                filled = moved - int(np.count_nonzero(offsets >= 0)) * size
                if mode != "bulk":
                    requested = requests(offsets.ravel(), size, moved // offsets.size)
                    outside = int(np.count_nonzero(offsets < 0))
                    apart = lonely(offsets.ravel(), size)
            self._note(transfer.memory.buffer, transfer.memory.kind)
        self.trace.works.append(
            Work(
                kind="store" if transfer.barrier is None and len(transfer.reads) else "load",
                row=row,
                step=instr.step or "",
                line=instr.span.line,
                bytes=moved,
                filled=filled,
                requests=requested,
                outside=outside,
                apart=apart,
                mode=mode,
                buffer="" if transfer.memory is None else transfer.memory.buffer,
                reaches=tuple(home - row for home in transfer.homes[position].tolist() if home != row),
            )
        )
        return len(self.trace.works) - 1

    def _note(self, buffer: str, kind: str) -> None:
        """A buffer is read, or only written so far."""
        (self.written if kind == "st" else self.read).add(buffer)

    def tensor_op(self, strand: ObservedStrand, instr: Instr, operation: Operation) -> None:
        """An operation of the tensor core, in the order of its thread."""
        for row in (each for each in operation.rows if each < self.cohort.watched):
            shape = None
            if operation.target is not None:
                _, _, m, n, pair, ws = operation.target
                shape = MmaShape(m=m, n=n, pair=pair, a_in_tensor=isinstance(instr.args["a"], Address), ws=ws)
            self.trace.works.append(
                Work(
                    kind=operation.kind,
                    row=row,
                    step=instr.step or "",
                    line=instr.span.line,
                    bytes=len(operation.shared),
                    mma=shape,
                    pair=operation.pair,
                )
            )
            number = len(self.trace.works) - 1
            self._last(row, operation.thread[0]).works.append(number)
            self._tensor.setdefault((row, operation.thread), []).append(number)

    def warpgroup_multiply(self, strand: ObservedStrand, instr: Instr, accesses: Sequence[LaneAccess]) -> None:
        """A wgmma: one work of four warps, which begins when the last of them is there; all of them wait for it."""
        shape = warpgroup_shape(instr)
        self.registers = max(self.registers, shape.n // 2 + BESIDES)
        for row, warp in self._warps(strand):
            number = self._multiplied[row, warp]
            self._multiplied[row, warp] += 1
            meeting = ("warpgroup", row, warp // WARPS, number)
            if meeting not in self._joint:
                self._joint[meeting] = len(self.trace.works)
                step = instr.step or ""
                self.trace.works.append(Work(kind="mma", row=row, step=step, line=instr.span.line, mma=shape))
            self._last(row, warp).works.append(self._joint[meeting])
            self._meet(meeting, (row, warp), False)
            self._meet(meeting, (row, warp), True)

    # ---- barriers --------------------------------------------------------------------------------------------------

    def _settle(self, homes: Iterable[tuple[int, int]]) -> None:
        """Close the phases that have completed; to be called when a whole event has been told."""
        for row, address in homes:
            barrier = self.cohort.barriers.get(address)
            if barrier is None:
                continue
            phase = barrier.phase if isinstance(barrier.phase, int) else int(barrier.phase[row])
            counted = self._counted.get((row, address), 0)
            if phase != counted:
                before = self._before.get((row, address), 0)
                self.trace.phases[row, address, before + phase - 1] = self._open.pop((row, address), [])
                self._counted[row, address] = phase

    def init(self, strand: ObservedStrand, instr: Instr, barrier: int) -> None:
        """A new object, also where there was one before: its phases are counted on."""
        for _, row, _, _, _ in actors(strand):
            home = (row, barrier)
            called = self._names.called(instr.span.text, instr.index, row, barrier)
            if called is not None:
                self.trace.barriers[home] = called
            self._open.pop(home, None)
            self._before[home] = self._before.get(home, 0) + self._counted.pop(home, 0)

    def arrive(self, strand: ObservedStrand, instr: Instr, barrier: int, homes: np.ndarray | None) -> None:
        """Warps arrive."""
        told: set[tuple[int, int]] = set()
        for at, row, _, warp, _ in actors(strand):
            home = (row if homes is None else int(homes[at]), barrier)
            self._open.setdefault(home, []).append(self._here(row, warp))
            told.add(home)
        self._settle(told)

    def commit(
        self, strand: ObservedStrand, instr: Instr, barrier: int, signals: Sequence[tuple[int, tuple[int, int], int]]
    ) -> None:
        """An arrival after all earlier operations of the thread."""
        for row, thread, home in signals:
            works = self._tensor.get((row, thread), [])
            self._open.setdefault((home, barrier), []).append(self._here(row, thread[0], works[-1:]))
        self._settle({(home, barrier) for _, _, home in signals})

    def wait(self, strand: ObservedStrand, instr: Instr, barrier: int, done: np.ndarray) -> None:
        """The phase that let the warps through is the last that completed."""
        waiting = [(row, warp) for at, row, _, warp, _ in actors(strand) if done[at]]
        self._settle({(row, barrier) for row, _ in waiting})
        for row, warp in waiting:
            home = (row, barrier)
            counted = self._counted.get(home, 0)
            if counted:  # before its first phase a wait for the parity of the phase before is over at once
                self._last(row, warp).waits = (row, barrier, self._before.get(home, 0) + counted - 1)

    def cta_barrier(self, strand: ObservedStrand, instr: Instr, leave: bool) -> None:
        """bar.sync and its kin."""
        assert strand.ticket is not None, "a warp at a CTA barrier holds a ticket"
        for at, row, warp_at, warp, _ in actors(strand):
            for meeting in strand.ticket.meetings:
                generation = int(meeting.generation[at, warp_at])
                if generation != ELSEWHERE:
                    self._meet(("cta", row, meeting.index, generation), (row, warp), leave)

    def cluster_barrier(self, strand: ObservedStrand, instr: Instr, leave: bool) -> None:
        """barrier.cluster."""
        tickets = self.cohort.cluster_barrier.ticket
        for _, row, _, warp, _ in actors(strand):
            self._meet(("cluster", int(tickets[row, warp])), (row, warp), leave)

    def _meet(self, meeting: Meeting, warp: Warp, leave: bool) -> None:
        items = self.trace.items[warp]
        if leave:
            items[-1].leaves = meeting
        else:
            items[-1].meets = meeting
            self.trace.arrivals.setdefault(meeting, []).append((warp, len(items) - 1))

    def commit_group(self, strand: ObservedStrand, instr: Instr) -> None:
        """The copies of a thread so far are a group."""
        for _, row, _, warp, _ in actors(strand):
            self._last(row, warp).group = True

    def wait_group(self, strand: ObservedStrand, instr: Instr, left: int) -> None:
        """At most ``left`` groups may be under way."""
        for _, row, _, warp, _ in actors(strand):
            self._last(row, warp).left = left

    # ---- accesses --------------------------------------------------------------------------------------------------

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
        """Count the sectors that each warp touches."""
        self._note(buffer, kind)
        shape = (strand.row_count, len(strand.warps), 32)
        starts = np.broadcast_to(np.asarray(offset), shape)
        active = None if mask is None else np.broadcast_to(mask, shape)
        for at, row, warp_at, warp, lanes in actors(strand):
            if active is not None:
                lanes = lanes[active[at, warp_at, lanes]]
            item = self._last(row, warp)
            item.sectors = sectors(starts[at, warp_at, lanes], size)
            if item.loads:
                touched = np.unique(starts[at, warp_at, lanes] // LINE)
                item.cached = tuple((buffer, int(place)) for place in touched)

    def shared(self, strand: ObservedStrand, instr: Instr, kind: str, accesses: Sequence[LaneAccess]) -> None:
        """Count the wavefronts of each warp's access of its own shared memory, and the bytes of another CTA's."""
        for access in accesses:
            if access.row >= self.cohort.watched:
                continue
            if access.home == access.row:
                self._last(access.row, access.warp).wavefronts += wavefronts(access.places)
            else:
                self._last(access.row, access.warp).remote += access.places.size

    def tensor(self, strand: ObservedStrand, instr: Instr, kind: str, accesses: Sequence[LaneAccess]) -> None:
        """tcgen05.ld and st."""
        for access in accesses:
            item = self._last(access.row, access.warp)
            item.cells = access.places.shape[-1]
            item.shape = modifier(instr, "shape")

    def allocate(
        self, strand: ObservedStrand, instr: Instr, row: int, warp: int, column: int, columns: int, free: bool
    ) -> None:
        """Count the columns that a CTA holds."""
        self._columns[row] = self._columns.get(row, 0) + (-columns if free else columns)
        self.most_columns = max(self.most_columns, self._columns[row])


def _drop_round(items: list[Item], index: int, forms: Mapping[int, TracedForm]) -> None:
    """Forget the round of a loop that has polled in vain, and done nothing else, since it came to that instruction."""
    for at in range(len(items) - 1, max(-1, len(items) - LONGEST_POLL), -1):
        item = items[at]
        plain = not item.works and item.waits is None and item.meets is item.leaves is item.left is None
        if not plain or not forms[item.index].idle:
            return
        if item.index == index:
            del items[at:]
            return
