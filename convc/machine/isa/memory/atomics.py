"""atom and red (PTX manual, 9.7.13.5 and 9.7.13.6): lanes that hit the same place act one after the other.

The order is CTA by CTA, warp by warp, lane by lane, or the opposite (the switch ``atomic_order``). Sums of floating-
point numbers depend on it; the hardware's order is not defined.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import DTYPE, Value, array, packed, width
from convc.machine.isa import threads
from convc.machine.isa.float import floating
from convc.machine.isa.memory import shared_space, spaces
from convc.machine.isa.memory.ld_st import space_of
from convc.machine.isa.observe import notify_shared
from convc.machine.isa.operands import address_of, type_of
from convc.machine.isa.registry import Run, op
from convc.machine.isa.scalar import integer
from convc.machine.memory.global_memory import Buffer
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr, Sink, Vector

Update = Callable[..., np.ndarray]
OPERATIONS = ("add", "and", "or", "xor", "exch", "inc", "dec", "min", "max", "cas")


def update_of(instr: Instr, name: str, kind: str) -> Update:
    """(old, operand, …) -> new, on arrays of bit patterns."""
    bits = width(kind)
    if name == "exch":
        return lambda old, b: b
    if name == "cas":
        return _swap_if_equal(bits)
    if name in ("and", "or", "xor"):
        return {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[name]
    if name == "inc":
        return lambda old, b: np.where(old >= b, 0, old + old.dtype.type(1)).astype(old.dtype)
    if name == "dec":
        return lambda old, b: np.where((old == 0) | (old > b), b, old - old.dtype.type(1)).astype(old.dtype)
    single, pair = (kind[:-2], True) if kind.endswith("x2") else (kind, False)
    if single in ("f16", "bf16", "f32", "f64"):
        if name == "add":
            function = floating.arithmetic("add", single)
        else:
            function = floating.extreme(name == "max", single)
        return packed(function, 16) if pair else function
    if name == "add":
        return operator.add
    return integer.extreme(bits, kind.startswith("s"), name == "max")


def _swap_if_equal(bits: int) -> Update:
    if bits == 128:
        return lambda old, b, c: np.where((old == b).all(axis=-1, keepdims=True), c, old)
    return lambda old, b, c: np.where(old == b, c, old)


def in_turn(words: np.ndarray, at: np.ndarray, operands: list[np.ndarray], update: Update) -> np.ndarray:
    """Apply ``update`` to ``words[at]``, colliding places in the order given; returns the old values."""
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    count = np.arange(len(at))
    fresh = np.append(True, ordered[1:] != ordered[:-1])
    turn = np.empty(len(at), np.int64)
    turn[order] = count - np.maximum.accumulate(np.where(fresh, count, 0))
    old = np.empty((len(at), *words.shape[1:]), words.dtype)
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        who = by_turn[start:end]
        place = at[who]
        before = words[place]
        old[who] = before
        with np.errstate(over="ignore"):
            words[place] = update(before, *[o[who] for o in operands])
    return old


def _flat_operand(value: Value, bits: int, shape: tuple[int, ...], active: np.ndarray) -> np.ndarray:
    flat = np.broadcast_to(array(value, bits), shape)[active]
    return np.ascontiguousarray(flat).view(np.uint64).reshape(-1, 2) if bits == 128 else flat


class Atomic:
    """One atom or red instruction."""

    def __init__(self, instr: Instr, table: SlotTable) -> None:
        self.instr = instr
        self.space = space_of(instr)
        kind = type_of(instr)
        self.bits = width(kind)
        self.size = width(kind) // 8
        name = next(m for m in instr.mods if m in OPERATIONS)
        self.update = update_of(instr, name, kind)
        # atom.add.f32 flushes subnormals in global memory and keeps them in shared memory (PTX manual, atom).
        plain = self.update
        self.global_update = floating.modified(plain, "f32", {"ftz"}) if (name, kind) == ("add", "f32") else plain
        has_result = instr.form.name.startswith("atom")
        operands = instr.operands[1:] if has_result else instr.operands
        self.results = self._slots(instr.operands[0], table) if has_result else []
        self.address = address_of(operands[0], table)
        count = 2 if name == "cas" else 1
        self.sources = [self._slots(o, table) for o in operands[1 : 1 + count]]
        self.count = len(self.sources[0])

    def _slots(self, operand, table: SlotTable) -> list[int | None]:
        items = operand.items if isinstance(operand, Vector) else (operand,)
        return [None if isinstance(o, Sink) else table.slot(o, self.bits) for o in items]

    def __call__(self, strand: Strand) -> None:
        shape = threads.thread_shape(strand)
        olds = [np.zeros(shape, DTYPE[self.bits]) for _ in range(self.count)] if self.results else []
        address = self.address(strand.regs)
        if self.space is not None:
            self._visit(strand, self.space, address, olds)
        else:
            spaces.by_space(
                strand,
                address,
                lambda space, inside, _: self._visit(strand, "cluster" if space == "shared" else space, inside, olds),
            )
        for slot, old in zip(self.results, olds, strict=False):
            if slot is not None:
                strand.write(slot, old)

    def _visit(self, strand: Strand, space: str, address: Value, olds: list[np.ndarray]) -> None:
        total = self.size * self.count
        shape = threads.thread_shape(strand)
        cohort = strand.cohort
        if space == "global":
            moved = total * threads.threads_active(strand)
            cohort.counters.global_store_bytes += moved
            cohort.counters.global_load_bytes += moved
            full = np.broadcast_to(array(address, 64), shape)
            if cohort.launch.memory.watch is not None:
                spaces.watch(strand, self.instr, full, total)

            def visit(buffer: Buffer, offset: np.ndarray, _) -> None:
                if cohort.observer is not None:
                    cohort.observer.global_access(strand, self.instr, "atom", buffer.name, offset, total, strand.mask)
                self._perform(strand, buffer.data, offset, olds, self.global_update)
                spaces.changed(strand, buffer)

            spaces.in_buffers(strand, full, total, visit)
            return
        if space not in ("shared", "cluster"):
            raise MachineFault(f"{self.instr.form.name}: {space} memory has no atomic operations")
        cohort.core.seal()
        local, rows = shared_space.remote(strand, address) if space == "cluster" else (address, None)
        offset = shared_space.shared_offset(strand, local, total, self.instr.form.name)
        shared_space.check_written(strand, self.instr, offset, total, rows)
        full = np.broadcast_to(np.asarray(offset), shape)
        base = (threads.rows_of(strand) if rows is None else rows) * cohort.shared.bytes.shape[1]
        self._perform(strand, cohort.shared.bytes.reshape(-1), full + base, olds, self.update)
        shared_space.mark_written(strand, full, total, rows)
        if self.instr.form.name != "red.async":  # which says more, see `async_stores`
            notify_shared(strand, self.instr, "atom", full, total, rows)

    def _perform(
        self, strand: Strand, data: np.ndarray, offset: np.ndarray, olds: list[np.ndarray], update: Update
    ) -> None:
        shape = offset.shape
        active = np.ones(shape, bool) if strand.mask is None else np.broadcast_to(strand.mask, shape)
        words = data[: data.size // self.size * self.size].view(DTYPE[self.bits])
        if self.bits == 128:
            words = data[: data.size // 16 * 16].view(np.uint64).reshape(-1, 2)
        at = offset[active] // self.size
        regs = strand.regs
        step = -1 if strand.cohort.launch.switches.atomic_order == "descending" else 1
        for i in range(self.count):
            operands = [_flat_operand(regs[slots[i]], self.bits, shape, active)[::step] for slots in self.sources]
            old = in_turn(words, at[::step] + i, operands, update)[::step]
            if olds:
                olds[i][active] = old.view(DTYPE[128])[:, 0] if self.bits == 128 else old


@op("atom", "atom.cas")
def atom(instr: Instr, table: SlotTable) -> Run:
    """atom.op d, [a], b{, c}: read, combine, write; d gets the old value."""
    return Atomic(instr, table)


@op("red", result=False)
def red(instr: Instr, table: SlotTable) -> Run:
    """red.op [a], b: atom without the old value."""
    return Atomic(instr, table)
