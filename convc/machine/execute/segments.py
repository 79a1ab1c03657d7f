"""Perform straight runs of instructions pack by pack (`convc.machine.execute.straight` finds them).

A segment is tried where all threads of the strand are active. Nothing that anybody could see changes before all of it
is known to go well: registers, memory and counters are written last. Whatever is not plain, a fault above all, leaves
the registers as they were, and the instructions are executed one by one, as if there were no segment.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.errors import ConvcError
from convc.machine.base.values import DTYPE, Value, array
from convc.machine.execute.straight import Element, Pack, Segment, Source, segments_of
from convc.machine.isa.memory.rows import read_rows, row_writer
from convc.machine.isa.operands import Read, address_of
from convc.machine.isa.registry import Run
from convc.machine.isa.tcgen05.ld_st import loaded
from convc.machine.isa.threads import threads_active
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

TRIALS = 3
"""Times one after the other that a segment may turn out not to be plain before it is given up."""

Blocks = dict[Pack, np.ndarray]
"""Results of packs: (rows | 1, warps | 1, lanes | 1, elements)."""

Fetch = Callable[[Blocks, list[Value]], Value]
"""From results of packs and the registers to an operand of a pack."""

Perform = Callable[[Strand, Blocks], bool]
"""Performs a pack; False where it is not plain."""


def with_segments(body: tuple[Instr, ...], table: SlotTable, ops: list[Run]) -> list[Run]:
    """The operations of a kernel with its segments in the places where they begin."""
    out = list(ops)
    for segment in segments_of(body, table):
        out[segment.start] = _Runner(segment, body, table, ops).run
    return out


class _Runner:
    """A segment that is ready to run."""

    def __init__(self, segment: Segment, body: tuple[Instr, ...], table: SlotTable, ops: list[Run]) -> None:
        self.segment = segment
        self.ops = ops
        self.skipped = segment.stop - segment.start - 1
        self.trials = TRIALS
        make = {"tensor": _tensor, "load": _load, "apply": _apply}
        store = segment.packs[-1] if segment.packs[-1].kind == "store" else None
        self.packs = [(p, make[p.kind](p, body, table)) for p in segment.packs if p is not store]
        self.store = None if store is None else _Store(store, body, table)
        self.loads = [p for p in segment.packs if p.kind == "load"]
        self.tensors = sum(p.kind == "tensor" for p in segment.packs)

    def run(self, strand: Strand) -> int | None:
        """Run the segment, or its first instruction alone."""
        if self.trials and strand.mask is None and strand.keep is None and not strand.loads:
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
        return self.ops[self.segment.start](strand)

    def _attempt(self, strand: Strand) -> bool:
        """Compute everything, then write it; False where something is not plain."""
        for index in self.segment.scalars:
            self.ops[index](strand)
        blocks: Blocks = {}
        for _, perform in self.packs:
            if not perform(strand, blocks):
                return False
        write = None
        if self.store is not None:
            write = self.store.prepare(strand, blocks)
            if write is None:
                return False
        self._keep(strand.regs, blocks)
        counters = strand.cohort.counters
        counters.tensor_loads += self.tensors * strand.row_count * len(strand.warps)
        counters.global_load_bytes += sum(4 * len(pack.targets) for pack in self.loads) * threads_active(strand)
        if write is not None:
            write()
        return True

    def _keep(self, regs: list[Value], blocks: Blocks) -> None:
        """Leave in the registers what the instructions would."""
        for pack, left in zip(self.segment.packs, self.segment.left, strict=True):
            if not left:
                continue
            block = blocks[pack]
            if block.size == block.shape[-1]:
                values = block.reshape(-1).tolist()
                for at, slot in left:
                    regs[slot] = values[at]
                continue
            if pack.kind == "tensor":  # a view of cells that may change
                block = block.copy()
            for at, slot in left:
                regs[slot] = block[..., at]


def _tensor(pack: Pack, body: tuple[Instr, ...], table: SlotTable) -> Perform:
    """tcgen05.ld."""
    instr = body[pack.members[0]]
    address = address_of(instr.args["taddr"], table)
    count = len(pack.targets)

    def perform(strand: Strand, blocks: Blocks) -> bool:
        block = loaded(strand, instr, address(strand.regs), count)
        if block is None:
            return False
        blocks[pack] = block
        return True

    return perform


def _load(pack: Pack, body: tuple[Instr, ...], table: SlotTable) -> Perform:
    """ld.global of a row of words in each thread."""
    address = address_of(body[pack.members[0]].operands[1], table)
    words = len(pack.targets)
    size = 4 * words // len(pack.members)

    def perform(strand: Strand, blocks: Blocks) -> bool:
        block = read_rows(strand.cohort.launch.memory, address(strand.regs), words, size)
        if block is None:
            return False
        blocks[pack] = block
        return True

    return perform


def _apply(pack: Pack, body: tuple[Instr, ...], table: SlotTable) -> Perform:
    """Arithmetic and conversions."""
    applied = table.applied[pack.members[0]]
    count = len(pack.targets)
    bits = table.widths[applied.target]
    whole = _pairs(pack.sources)
    if applied.pairs is not None and whole is not None:
        first, part = whole
        pairs = applied.pairs

        def convert(strand: Strand, blocks: Blocks) -> bool:
            blocks[pack] = pairs(np.ascontiguousarray(blocks[first][..., part]))
            return True

        return convert
    function = applied.function
    fetches = [_fetch(sources, table) for sources in pack.sources]

    def perform(strand: Strand, blocks: Blocks) -> bool:
        regs = strand.regs
        block = array(function(*[fetch(blocks, regs) for fetch in fetches]), bits)
        if block.ndim == 3:
            block = block[..., None]
        blocks[pack] = np.broadcast_to(block, (*block.shape[:3], count)) if block.shape[3] != count else block
        return True

    return perform


def _pairs(sources: list[list[Source]]) -> tuple[Pack, slice] | None:
    """The pack and its part whose odd elements are the first source, and its even ones the second."""
    if len(sources) != 2:
        return None
    high = _stretch(sources[0])
    low = _stretch(sources[1])
    if high is None or low is None or high[0] is not low[0] or high[2] != 2 or low[2] != 2 or high[1] != low[1] + 1:
        return None
    return low[0], slice(low[1], low[1] + 2 * len(sources[0]))


def _stretch(sources: list[Source]) -> tuple[Pack, int, int] | None:
    """The pack, the first element and the step of sources that are evenly spaced in one pack."""
    elements: list[Element] = [source for source in sources if not isinstance(source, int)]
    if len(elements) != len(sources) or any(pack is not elements[0][0] for pack, _ in elements):
        return None
    first = elements[0][1]
    step = elements[1][1] - first if len(elements) > 1 else 1
    even = step > 0 and all(at == first + step * i for i, (_, at) in enumerate(elements))
    return (elements[0][0], first, step) if even else None


def _fetch(sources: list[Source], table: SlotTable) -> Fetch:
    """Collect an operand of all members of a pack."""
    stretch = _stretch(sources)
    if stretch is not None:
        pack, first, step = stretch
        part = slice(first, first + step * (len(sources) - 1) + 1, step)
        return lambda blocks, regs: blocks[pack][..., part]
    slots = [source for source in sources if isinstance(source, int)]
    if len(slots) == len(sources) and len(set(slots)) == 1:
        slot = slots[0]
        return lambda blocks, regs: v[..., None] if isinstance(v := regs[slot], np.ndarray) else v
    bits = max((table.widths[slot] for slot in slots), default=32)

    def collect(blocks: Blocks, regs: list[Value]) -> np.ndarray:
        parts = [array(regs[s], bits) if isinstance(s, int) else blocks[s[0]][..., s[1]] for s in sources]
        if len({part.shape for part in parts}) > 1:
            parts = np.broadcast_arrays(*parts)
        return np.stack(parts, axis=-1)

    return collect


class _Store:
    """st.global of one row of words in each thread."""

    def __init__(self, pack: Pack, body: tuple[Instr, ...], table: SlotTable) -> None:
        first = body[pack.members[0]]
        [sources] = pack.sources
        self.address: Read = address_of(first.operands[0], table)
        self.fetch = _fetch(sources, table)
        self.words = len(sources)
        self.size = 4 * self.words // len(pack.members)
        self.guard = first.guard

    def prepare(self, strand: Strand, blocks: Blocks) -> Callable[[], None] | None:
        """What stores the rows; None where that is not plain."""
        if strand.cohort.launch.memory.watch is not None:
            return None
        regs = strand.regs
        mask: np.ndarray | None = None
        if self.guard is not None:
            predicate = regs[self.guard.slot]
            if isinstance(predicate, np.ndarray):
                mask = ~predicate if self.guard.negate else predicate
            elif bool(predicate) == self.guard.negate:
                return _nothing
        words = self.fetch(blocks, regs)
        if not isinstance(words, np.ndarray) or words.ndim != 4 or words.dtype != DTYPE[32]:
            return None
        return row_writer(strand, self.address(regs), words, mask, self.size)


def _nothing() -> None:
    """No thread stores."""
