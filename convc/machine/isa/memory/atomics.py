"""atom and red (PTX manual, 9.7.13.5 and 9.7.13.6): lanes that hit the same place act one after the other.

The order is CTA by CTA, warp by warp, lane by lane, or the opposite (the switch ``atomic_order``). Sums of floating-
point numbers depend on it; the hardware's order is not defined.
"""

from __future__ import annotations

import operator

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import BITWISE, DTYPE, Function, TernaryArray, Value, array, packed, width
from convc.machine.isa import threads
from convc.machine.isa.float import floating
from convc.machine.isa.memory import shared_space, spaces
from convc.machine.isa.memory.ld_st import space_of
from convc.machine.isa.observe import notify_shared
from convc.machine.isa.operands import address_of, type_of
from convc.machine.isa.registry import Traits, op
from convc.machine.isa.scalar import integer
from convc.machine.memory.global_memory import Buffer
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

OPERATIONS = ("add", "and", "or", "xor", "exch", "inc", "dec", "min", "max", "cas")


def update_of(name: str, kind: str) -> Function:
    """(old, operand, …) -> new, on arrays of bit patterns."""
    match name:
        case "exch":
            return _given
        case "cas":
            return _swap_if_equal(width(kind))
        case "and" | "or" | "xor":
            return BITWISE[name]
        case "inc":
            return _count_up
        case "dec":
            return _count_down
        case _:
            return _arithmetic(name, kind)


def _arithmetic(name: str, kind: str) -> Function:
    pair = kind.endswith("x2")
    single = kind[:-2] if pair else kind
    if single in ("f16", "bf16", "f32", "f64"):
        function = floating.arithmetic("add", single) if name == "add" else floating.extreme(name == "max", single)
        return packed(function, 16) if pair else function
    return operator.add if name == "add" else integer.extreme(width(kind), kind.startswith("s"), name == "max")


def _given(_: np.ndarray, b: np.ndarray) -> np.ndarray:
    return b


def _count_up(old: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(old >= b, 0, old + old.dtype.type(1)).astype(old.dtype)


def _count_down(old: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((old == 0) | (old > b), b, old - old.dtype.type(1)).astype(old.dtype)


def _swap_if_equal(bits: int) -> TernaryArray:
    if bits == 128:
        return lambda old, b, c: np.where((old == b).all(axis=-1, keepdims=True), c, old)
    return lambda old, b, c: np.where(old == b, c, old)


def in_turn(words: np.ndarray, at: np.ndarray, operands: list[np.ndarray], update: Function) -> np.ndarray:
    """Apply ``update`` to ``words[at]``, colliding places in the order given; returns the old values.

    Args:
        words: (places, ...): memory, changed in place.
        at: int (accesses,): the place of each access.
        operands: (accesses, ...) each, what the accesses bring.
        update: (old, operand, …) -> new, on arrays.
    """
    # Numpy writes a place that an index names twice only once. So the accesses go in rounds: the n-th access of every
    # place in the n-th round, in which no place comes twice. Mostly all places differ, and there is one round.
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    count = np.arange(len(at))
    fresh = np.append(True, ordered[1:] != ordered[:-1])
    # Sorted by place, an access's round is how far it stands behind the first access of its place.
    rounds = np.empty(len(at), np.int64)
    rounds[order] = count - np.maximum.accumulate(np.where(fresh, count, 0))
    by_round = np.argsort(rounds, kind="stable")
    ends = np.cumsum(np.bincount(rounds)).tolist()
    old = np.empty((len(at), *words.shape[1:]), words.dtype)
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        who = by_round[start:end]
        place = at[who]
        before = words[place]
        old[who] = before
        with np.errstate(over="ignore"):
            words[place] = update(before, *[operand[who] for operand in operands])
    return old


def _flat_operand(value: Value, bits: int, shape: tuple[int, ...], active: np.ndarray) -> np.ndarray:
    """A register's values in the active threads, one after the other; of 128 bits as two words each."""
    flat = np.broadcast_to(array(value, bits), shape)[active]
    return np.ascontiguousarray(flat).view(np.uint64).reshape(-1, 2) if bits == 128 else flat


class Atomic:
    """atom.op d, [a], b{, c}: read, combine, write; d gets the old value. red.op [a], b: without d."""

    def __init__(self, instr: Instr, table: SlotTable) -> None:
        kind = type_of(instr)
        name = next(m for m in instr.mods if m in OPERATIONS)
        self.instr = instr
        self.space = space_of(instr)
        self.bits = width(kind)
        self.size = self.bits // 8
        self.update = update_of(name, kind)
        # atom.add.f32 flushes subnormals in global memory and keeps them in shared memory (PTX manual, atom).
        flushes = (name, kind) == ("add", "f32")
        self.global_update = floating.modified(self.update, "f32", {"ftz"}) if flushes else self.update
        has_result = instr.form.name.startswith("atom")
        operands = instr.operands[1:] if has_result else instr.operands
        self.results = table.targets(instr.operands[0]) if has_result else []
        self.address = address_of(operands[0], table)
        self.sources = [table.slots(o, self.bits) for o in operands[1 : 3 if name == "cas" else 2]]
        self.count = len(self.sources[0])

    def __call__(self, strand: Strand) -> None:
        shape = threads.thread_shape(strand)
        olds = [np.zeros(shape, DTYPE[self.bits]) for _ in range(self.count)] if self.results else []
        address = self.address(strand.regs)
        if self.space is not None:
            self._visit(strand, self.space, address, olds)
        else:

            def visit(space: str, inside: Value, _: np.ndarray | None) -> None:
                self._visit(strand, "cluster" if space == "shared" else space, inside, olds)

            spaces.by_space(strand, address, visit)
        for slot, old in zip(self.results, olds, strict=False):
            if slot is not None:
                strand.write(slot, old)

    def _visit(self, strand: Strand, space: str, address: Value, olds: list[np.ndarray]) -> None:
        """Act on one state space; ``olds`` take the old values of the active threads."""
        if space == "global":
            self._visit_global(strand, address, olds)
        elif space in ("shared", "cluster"):
            self._visit_shared(strand, address, olds, cluster=space == "cluster")
        else:
            raise MachineFault(f"{self.instr.form.name}: {space} memory has no atomic operations")

    def _visit_global(self, strand: Strand, address: Value, olds: list[np.ndarray]) -> None:
        cohort = strand.cohort
        total = self.size * self.count
        moved = total * threads.threads_active(strand)
        cohort.counters.global_store_bytes += moved
        cohort.counters.global_load_bytes += moved
        full = np.broadcast_to(array(address, 64), threads.thread_shape(strand))
        spaces.note_writers(strand, self.instr, full, total)

        def visit(buffer: Buffer, offset: int | np.ndarray, _: np.ndarray | None) -> None:
            if cohort.observer is not None:
                cohort.observer.global_access(strand, self.instr, "atom", buffer.name, offset, total, strand.mask)
            cohort.launch.about_to_change(buffer.name)
            self._perform(strand, buffer.data, np.asarray(offset), olds, self.global_update)
            cohort.launch.contents_changed(buffer.name)

        spaces.in_buffers(strand, full, total, visit)

    def _visit_shared(self, strand: Strand, address: Value, olds: list[np.ndarray], cluster: bool) -> None:
        cohort = strand.cohort
        cohort.core.seal()
        address, rows = shared_space.remote(strand, address) if cluster else (address, None)
        total = self.size * self.count
        offset = shared_space.shared_offset(strand, address, total, self.instr.form.name)
        shared_space.check_written(strand, self.instr, offset, total, rows)
        full = np.broadcast_to(np.asarray(offset), threads.thread_shape(strand))
        base = (threads.rows_of(strand) if rows is None else rows) * cohort.shared.bytes.shape[1]
        self._perform(strand, cohort.shared.bytes.reshape(-1), full + base, olds, self.update)
        shared_space.mark_written(strand, full, total, rows)
        if self.instr.form.name != "red.async":  # which says more, see `async_stores`
            notify_shared(strand, self.instr, "atom", full, total, rows)

    def _perform(
        self, strand: Strand, data: np.ndarray, offset: np.ndarray, olds: list[np.ndarray], update: Function
    ) -> None:
        """Update the elements at byte offsets of ``data``, one element of each thread's vector after another."""
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


op("atom", "atom.cas", traits=Traits.ATOMIC)(Atomic)
op("red", "multimem.red", traits=Traits.ATOMIC, result=False)(Atomic)
