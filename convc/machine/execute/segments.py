"""Perform segments of instructions pack by pack (`convc.machine.execute.slp` finds them).

A segment is tried where all threads of the strand are active. A tcgen05.ld may be deferred until its warp waits for it
(`convc.machine.base.completion`): no other strand comes between the two where both are in one segment, so that it
makes no difference there; other segments are not tried then. Nothing visible changes before all of it
is known to go well: registers, memory and counters are written last. Whatever is not plain, a fault above all, leaves
the registers as they were, and the instructions are executed one by one, as if there were no segment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from convc.errors import ConvcError
from convc.machine.base.values import DTYPE, Value, array
from convc.machine.execute.pack_loads import Perform, Places, address_read, load, load_cluster, load_shared, tensor
from convc.machine.execute.pack_operands import Blocks, fetch_of, mask_of, merge_of, pairs_of
from convc.machine.execute.slp import STORES, Pack, Segment, handed_on, places_of
from convc.machine.isa.memory.rows import row_writer, shared_writer
from convc.machine.isa.operands import Read, address_of, expect
from convc.machine.isa.registry import Run
from convc.machine.isa.threads import thread_shape, threads_active
from convc.machine.state.cohort import Cohort
from convc.machine.state.replay import Event
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Address, Guard, Instr

TRIALS = 3
"""Times one after the other that a segment may turn out not to be plain before it is given up."""


def with_segments(segments: list[Segment], body: tuple[Instr, ...], table: SlotTable, ops: list[Run]) -> list[Run]:
    """The operations of a kernel with its segments in the places where they begin."""
    out = list(ops)
    handed = handed_on(segments)
    for segment in segments:
        out[segment.start] = _Runner(segment, body, table, ops, handed).run
    return out


Cells = tuple[int, int]
"""First column of tensor memory and how many, of all lanes."""


Handed = dict[tuple[int, int], np.ndarray]
"""What segments leave for others, by a number of the warps that went through and the slot."""


@dataclass(frozen=True, slots=True)
class _Through(Event):
    """Warps that went through a segment.

    Attributes:
        runner: of the segment.
        rows, warps: of the strand.
        regs: its registers, those that packs read alone.
        places: of loads. cells: what each tcgen05.ld has read.
        strand: a number of theirs. taken: slots where another segment left what this one computes with.
    """

    runner: _Runner
    rows: np.ndarray | None
    warps: np.ndarray
    regs: list[Value]
    places: Places
    cells: dict[Pack, Cells]
    strand: int
    taken: list[int]

    @property
    def read(self) -> list[tuple[int, int]]:
        """First column and how many of each tcgen05.ld."""
        return list(self.cells.values())

    def replay(self, cohort: Cohort) -> bool:
        """Do the same to the data of another cohort."""
        lazy = cohort.lazy
        assert lazy is not None, "what is taken again was deferred"
        regs = self.regs.copy()
        for slot in self.taken:
            regs[slot] = lazy.handed[self.strand, slot]
        strand = Strand(cohort, cohort.launch.program, [], self.rows, self.warps, regs)
        return self.runner.again(strand, self, lazy.handed)


class _Runner:
    """A segment that is ready to run."""

    def __init__(
        self, segment: Segment, body: tuple[Instr, ...], table: SlotTable, ops: list[Run], handed: frozenset[int]
    ) -> None:
        self.segment = segment
        self.ops = ops
        self.skipped = segment.stop - segment.start - 1
        self.trials = TRIALS
        make = {
            "tensor": tensor,
            "load": load,
            "ld.shared": load_shared,
            "ld.cluster": load_cluster,
            "apply": _apply,
        }
        stores = {"store": _Store, "st.shared": _SharedStore}
        last = segment.packs[-1]
        self.packs = [(p, make[p.kind](p, body, table)) for p in segment.packs if p.kind not in STORES]
        self.store = stores[last.kind](last, body, table) if last.kind in STORES else None
        self.loads = [p for p in segment.packs if p.kind == "load"]
        tensors = [member for p in segment.packs if p.kind == "tensor" for member in p.members]
        self.tensors = len(tensors)
        waits = [index for index in segment.scalars if body[index].form.name == "tcgen05.wait"]
        self.waited = not tensors or max(tensors) < max(waits, default=-1)
        reading = [pack for pack in segment.packs if pack.kind not in (*STORES, "apply")]
        self.steps: list[tuple[int | None, list[tuple[Pack, Read]]]] = [
            (index, [(p, address_read(body[p.members[0]], table)) for p in reading if p.before == at])
            for at, index in enumerate([None, *segment.scalars])
        ]
        self.inputs = places_of(segment, body, loads=False) | segment.values
        self.takes = segment.values & handed
        lefts = zip(segment.packs, segment.left, strict=True)
        self.hands = [(pack, at, slot) for pack, left in lefts for at, slot in left if slot in handed] if handed else []

    def run(self, strand: Strand) -> int | None:
        """Run the segment, or its first instruction alone."""
        ends = self.waited or strand.cohort.pending.eager
        under_way = strand.loads or strand.multiplies
        if self.trials and ends and strand.mask is None and strand.keep is None and not under_way:
            before = strand.regs
            strand.regs = before.copy()
            try:
                done = self._attempt(strand)
            except ConvcError:  # the instructions, one by one, say so at their place
                done = False
            if done:
                self.trials = TRIALS
                strand.skipped += self.skipped
                return self.segment.stop
            strand.regs = before
            self.trials -= 1
        if strand.cohort.lazy is not None and strand.cohort.lazy.record is not None:
            strand.cohort.lazy.record.spoiled = True
        return self.ops[self.segment.start](strand)

    def _attempt(self, strand: Strand) -> bool:
        """Compute everything, then write it; False where something is not plain."""
        places: Places = {}
        for index, loads in self.steps:
            if index is not None:
                self.ops[index](strand)
            for pack, address in loads:
                places[pack] = address(strand.regs)
        blocks: Blocks = {}
        found = self._work(strand, blocks, places)
        if found is None:
            return False
        self._note(strand, places)
        self._own(blocks)
        self._keep(strand.regs, blocks)
        if strand.cohort.lazy is not None and strand.cohort.lazy.record is not None:
            record = strand.cohort.lazy.record
            self._hand(id(strand), blocks, record.left)
            for _, _, slot in self.hands:  # known by the object, so that it can be no number
                strand.regs[slot] = record.left[id(strand), slot]
                record.parted.discard((id(strand), slot))
        counters = strand.cohort.counters
        counters.tensor_loads += self.tensors * strand.row_count * len(strand.warps)
        for _ in range(self.tensors):
            strand.cohort.pending.later()  # asked for each load, so that the policy goes on as it would
        counters.global_load_bytes += sum(4 * len(pack.targets) * _threads(pack.guard, strand) for pack in self.loads)
        found()
        return True

    def _work(self, strand: Strand, blocks: Blocks, places: Places) -> Callable[[], None] | None:
        """Compute the ``blocks`` that are not there yet; returns what stores them, or None where that is not plain."""
        for pack, perform in self.packs:
            if pack not in blocks and not perform(strand, blocks, places.get(pack, 0)):
                return None
        return _nothing if self.store is None else self.store.prepare(strand, blocks)

    def _note(self, strand: Strand, places: Places) -> None:
        """Keep what the packs compute from, where the cohort is recorded."""
        lazy = strand.cohort.lazy
        if lazy is None or lazy.record is None:
            return
        regs: list[Value] = [0] * len(strand.regs)
        for slot in self.inputs:
            regs[slot] = strand.regs[slot]
        cells: dict[Pack, Cells] = {}
        for pack in [pack for pack in places if pack.kind == "tensor"]:
            at = places.pop(pack)
            first = int(at.flat[0]) if isinstance(at, np.ndarray) else at
            cells[pack] = first & 0xFFFF, len(pack.targets)  # `loaded` has seen that all warps name this column
        name = id(strand)
        taken = [slot for slot in self.takes if lazy.record.taken((name, slot), regs[slot])]
        for slot in taken:
            regs[slot] = 0
        lazy.record.events.append(_Through(self, strand.rows, strand.warps, regs, places, cells, name, taken))

    def _own(self, blocks: Blocks) -> None:
        """Copy what was loaded from tensor memory and is left behind: it is a view of cells, which may change."""
        for pack, left in zip(self.segment.packs, self.segment.left, strict=True):
            if left and pack.kind == "tensor":
                blocks[pack] = blocks[pack].copy()

    def _hand(self, strand: int, blocks: Blocks, handed: Handed) -> None:
        """Leave what other segments compute with."""
        for pack, at, slot in self.hands:
            element = blocks[pack][..., at]
            handed[strand, slot] = element.copy() if element.size == 1 else element

    def again(self, strand: Strand, through: _Through, handed: Handed) -> bool:
        """Do to other data what the segment did; False, and nothing has happened, where that is not plain."""
        blocks: Blocks = {}
        for pack, (first, count) in through.cells.items():
            part = strand.cohort.tensor.peek(first, count)
            part = part if strand.rows is None else part[strand.rows]
            blocks[pack] = part.reshape(len(part), 4, 32, count)
        found = self._work(strand, blocks, through.places)
        if found is None:
            return False
        if self.hands:
            self._own(blocks)
            self._hand(through.strand, blocks, handed)
        found()
        return True

    def _keep(self, regs: list[Value], blocks: Blocks) -> None:
        """Leave in the registers what the instructions would."""
        for pack, left in zip(self.segment.packs, self.segment.left, strict=True):
            if not left:
                continue
            block = blocks[pack]
            mask = mask_of(pack.guard, regs)
            if mask is not None:
                for at, slot in left:
                    regs[slot] = np.where(mask, block[..., at], array(regs[slot], 32))
                continue
            if block.size == block.shape[-1]:
                values = block.reshape(-1).tolist()
                for at, slot in left:
                    regs[slot] = values[at]
                continue
            for at, slot in left:
                regs[slot] = block[..., at]


def _apply(pack: Pack, body: tuple[Instr, ...], table: SlotTable) -> Perform:
    applied = table.applied[pack.members[0]]
    count = len(pack.targets)
    bits = table.widths[applied.target]
    whole = pairs_of(pack.sources)
    if applied.pairs is not None and whole is not None and pack.only is None:
        first, part = whole
        pairs = applied.pairs

        def convert(strand: Strand, blocks: Blocks, address: Value) -> bool:
            blocks[pack] = pairs(np.ascontiguousarray(blocks[first][..., part]))
            return True

        return convert
    function = applied.function
    fetches = [fetch_of(sources, table) for sources in pack.sources]
    merge = merge_of(pack, table)

    def perform(strand: Strand, blocks: Blocks, address: Value) -> bool:
        regs = strand.regs
        block = array(function(*[fetch(blocks, regs) for fetch in fetches]), bits)
        if block.ndim == 3:
            block = block[..., None]
        mask = mask_of(pack.only, regs)
        if mask is not None:
            block = merge(mask, block, blocks, regs)
        blocks[pack] = np.broadcast_to(block, (*block.shape[:3], count)) if block.shape[3] != count else block
        return True

    return perform


class _Store:
    """st.global of one row of words in each thread."""

    def __init__(self, pack: Pack, body: tuple[Instr, ...], table: SlotTable) -> None:
        first = body[pack.members[0]]
        [sources] = pack.sources
        self.address: Read = address_of(first.operands[0], table)
        self.fetch = fetch_of(sources, table)
        self.words = len(sources)
        self.size = 4 * self.words // len(pack.members)
        self.guard = pack.guard

    def prepare(self, strand: Strand, blocks: Blocks) -> Callable[[], None] | None:
        """What stores the rows; None where that is not plain."""
        if strand.cohort.launch.memory.watch is not None:
            return None
        regs = strand.regs
        mask = mask_of(self.guard, regs)
        if mask is not None and mask.size == 1 and not mask.any():
            return _nothing
        words = self.fetch(blocks, regs)
        if not isinstance(words, np.ndarray) or words.ndim != 4 or words.dtype != DTYPE[32]:
            return None
        return row_writer(strand, self.address(regs), words, mask, self.size)


class _SharedStore:
    """st.shared of words in each thread, each instruction with an address of its own."""

    def __init__(self, pack: Pack, body: tuple[Instr, ...], table: SlotTable) -> None:
        [sources] = pack.sources
        self.addresses: list[tuple[Read, list[int]]] = []
        last = None
        for member in pack.members:
            address = expect(body[member].operands[0], Address)
            if last is not None and address.base == last.base:
                self.addresses[-1][1].append(address.offset - last.offset)
            else:
                last = address
                self.addresses.append((address_of(address, table), [0]))
        self.fetch = fetch_of(sources, table)
        self.size = 4 * len(sources) // len(pack.members)
        self.guard = pack.guard

    def prepare(self, strand: Strand, blocks: Blocks) -> Callable[[], None] | None:
        """What stores the words; None where that is not plain."""
        words = self.fetch(blocks, strand.regs)
        if not isinstance(words, np.ndarray) or words.ndim != 4 or words.dtype != DTYPE[32]:
            return None
        regs = strand.regs
        mask = mask_of(self.guard, regs)
        addresses = [(read(regs), steps) for read, steps in self.addresses]
        return shared_writer(strand, addresses, words, mask, self.size)


def _threads(guard: Guard | None, strand: Strand) -> int:
    mask = mask_of(guard, strand.regs)
    if mask is None:
        return threads_active(strand)
    return int(np.count_nonzero(np.broadcast_to(mask, thread_shape(strand))))


def _nothing() -> None:
    """No thread stores."""
