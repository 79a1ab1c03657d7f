"""wmma.load, wmma.store and wmma.mma (PTX manual, 9.7.14.4), in every dense shape that ptxas takes for sm_100a.

`wmma_fragments` says which lane has which element, `mma_sums` how products are added. As in the machine code of ptxas,
tf32 is two products of depth 4, and a D of f16 with a C of f32 is a sum of f32 that is rounded once more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import DTYPE, MASK, Value, array
from convc.machine.isa.memory import spaces
from convc.machine.isa.memory.ld_st import space_of
from convc.machine.isa.operands import address_of, expect, modifier
from convc.machine.isa.registry import CROSS_LANE, ORDINARY, Run, Traits, op
from convc.machine.isa.tcgen05.collective import whole_warps
from convc.machine.isa.threads import per_warp, thread_shape
from convc.machine.isa.warp import fragments, mma_sums
from convc.machine.isa.warp.wmma_fragments import BITS, fragment_of, shape_of, storage_of
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Address, Instr, Reg

TF32_DEPTH = 4
"""Elements of k that ptxas gives to one instruction of tf32."""


def _types(instr: Instr) -> list[str]:
    return [mod for mod in instr.mods if mod in BITS]


class FragmentAddresses:
    """The addresses at which a matrix lies."""

    def __init__(self, instr: Instr, table: SlotTable, matrix: str) -> None:
        (kind,) = _types(instr)
        self.space = space_of(instr)
        self.storage = storage_of(shape_of(modifier(instr, "shape")), matrix, kind, "row" in instr.mods, self.space)
        self.name = instr.form.name
        base = expect(instr.args["p"], Address).base
        self.address = address_of(instr.args["p"], table)
        self.bits = table.widths[base.slot] if isinstance(base, Reg) else 64
        stride = instr.args["stride"]
        self.stride = None if stride is None else table.slot(stride, 32)

    def of(self, strand: Strand) -> Iterator[np.ndarray]:
        """An address (rows | 1, warps | 1, 32) for each piece.

        Raises:
            MachineFault: some lanes of a warp execute it and others do not, or their operands differ, or the start
                or the stride is less aligned than hardware reads it right.
        """
        whole_warps(strand, self.name)
        storage = self.storage
        start = _by_warp(per_warp(strand, self.address(strand.regs), f"the address of {self.name}"))
        step = np.full((1, 1, 1), storage.length, np.int64)
        if self.stride is not None:
            given = _by_warp(per_warp(strand, strand.regs[self.stride], f"the stride of {self.name}"))
            step = given.astype(np.uint32).view(np.int32).astype(np.int64)
        self._expect_aligned(start, step)
        for lines, inside in zip(storage.lines, storage.inside, strict=True):
            at = start + (lines * step * storage.element + inside) // 8
            yield at.astype(DTYPE[64]) if self.bits == 64 else (at & MASK[32]).astype(DTYPE[32])

    def _expect_aligned(self, start: np.ndarray, step: np.ndarray) -> None:
        """Recorded: hardware faults at a start that is off, and rounds some strides; the manual asks for more."""
        unit = self.storage.unit
        bits = step * self.storage.element
        for what, wrong in (("start", start % unit != 0), ("stride", bits % (8 * unit) != 0)):
            if wrong.any():
                raise MachineFault(
                    f"{self.name}: the {what} of the matrix is no multiple of {unit} bytes",
                    hint="PTX manual: each row or column starts at a multiple of the fragment's size",
                )


def _by_warp(table: int | np.ndarray) -> np.ndarray:
    """What `per_warp` gives, as int64 (rows | 1, warps | 1, 1): sums wrap around as those of 64 bits do."""
    whole = np.asarray(table, np.uint64).view(np.int64)
    return whole.reshape(1, 1, 1) if whole.ndim == 0 else whole[:, :, None]


@op("wmma.load", traits=Traits.MEMORY_LOAD)
def load(instr: Instr, table: SlotTable) -> Run:
    """wmma.load.{a, b, c}.sync.aligned.layout.shape{.space}.type d, [p] {, stride}."""
    places = FragmentAddresses(instr, table, instr.mods[1])
    storage = places.storage
    targets = table.targets(instr.args["d"])
    width = 64 if storage.element == 64 else 32
    needed = len(storage.lines) * storage.bits * storage.words // width

    def run(strand: Strand) -> None:
        values: list[Value] = []
        for at in places.of(strand):
            values += spaces.load(strand, instr, places.space, at, storage.bits, storage.words)
        shape = thread_shape(strand)
        words = np.stack([np.broadcast_to(array(value, storage.bits), shape) for value in values], axis=-1)
        registers = fragments.pack(words, width)
        for number, slot in enumerate(targets):
            if slot is not None:
                strand.write(slot, registers[number % needed])

    return run


@op("wmma.store", traits=ORDINARY, result=False)
def store(instr: Instr, table: SlotTable) -> Run:
    """wmma.store.d.sync.aligned.layout.shape{.space}.type [p], d {, stride}."""
    places = FragmentAddresses(instr, table, "d")
    storage = places.storage
    width = 64 if storage.element == 64 else 32
    sources = table.slots(instr.args["d"], width)

    def run(strand: Strand) -> None:
        registers = [strand.regs[slot] for slot in sources]
        elements = fragments.unpack(registers, len(strand.warps), width, storage.bits)
        for number, at in enumerate(places.of(strand)):
            first = number * storage.words
            values: list[Value] = [elements[..., first + i] for i in range(storage.words)]
            spaces.store(strand, instr, places.space, at, values, storage.bits)

    return run


@op("wmma.mma", traits=CROSS_LANE | Traits.WARP_MMA)
def mma(instr: Instr, table: SlotTable) -> Run:
    """wmma.mma.sync.aligned.alayout.blayout.shape.dtype{.atype.btype}.ctype d, a, b, c: d = a b + c."""
    shape = shape_of(next(mod for mod in instr.mods if mod.startswith("m") and mod[1].isdigit()))
    d_type, *middle, c_type = _types(instr)
    kinds = [*(middle or ["f16", "f16"]), c_type, d_type]
    held = [fragment_of(shape, matrix, kind) for matrix, kind in zip("abcd", kinds, strict=True)]
    widths = [64 if kind == "f64" else 32 for kind in kinds]
    targets = table.targets(instr.args["d"])
    sources = [
        table.slots(instr.args[name], width)[: shape.of(name)[0] * shape.of(name)[1] * part.bits // (32 * width)]
        for name, width, part in zip("abc", widths, held, strict=False)
    ]
    sums = {exact: _sum(instr, kinds, exact) for exact in (False, True)}

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        warps = len(strand.warps)
        active = whole_warps(strand, "wmma.mma")
        matrices: list[np.ndarray] = []
        for registers, part, width in zip(sources, held, widths, strict=False):
            elements = fragments.unpack([strand.regs[slot] for slot in registers], warps, width, part.bits)
            matrices.append(part.layout.matrix(elements))
        a, b = (mma_sums.numbers(codes, kind) for codes, kind in zip(matrices[:2], kinds[:2], strict=True))
        c = matrices[2]
        if shape.turned:
            c = c.swapaxes(-1, -2)
        result = sums[cohort.launch.switches.numerics == "exact"](a, b, np.ascontiguousarray(c))
        if shape.turned:
            result = result.swapaxes(-1, -2)
        values = held[3].layout.registers(np.ascontiguousarray(result), widths[3])
        for slot, value in zip(targets, values, strict=True):
            if slot is not None:
                strand.write(slot, value)
        count = int(np.broadcast_to(active, (strand.row_count, warps)).sum())
        cohort.counters.warp_mma += count
        cohort.counters.warp_multiply_adds += count * shape.m * shape.n * shape.k

    return run


def _sum(instr: Instr, kinds: list[str], exact: bool) -> mma_sums.Sum:
    """How the products of these types (of A, B, C and D) are added."""
    a_type, b_type, c_type, d_type = kinds
    if a_type == "f64":
        return mma_sums.double_sum(instr.slots["rnd"] or "rn")
    if a_type == "b1":
        return mma_sums.bit_sum(modifier(instr, "bitOp"))
    if a_type in mma_sums.INTEGERS:
        return mma_sums.integer_sum(instr.slots["satfinite"] is not None)
    if a_type == "tf32":
        return _in_steps(mma_sums.float_sum(a_type, b_type, d_type, exact))
    if c_type == d_type:
        return mma_sums.float_sum(a_type, b_type, d_type, exact)
    return _of_two_types(mma_sums.float_sum(a_type, b_type, "f32", exact), c_type)


def _in_steps(add: mma_sums.Sum) -> mma_sums.Sum:
    """A sum that goes along k in steps of the depth of tf32."""

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        for k in range(0, a.shape[-1], TF32_DEPTH):
            part = slice(k, k + TF32_DEPTH)
            c = np.ascontiguousarray(add(a[..., part], b[..., part], c))
        return c

    return run


def _of_two_types(add: mma_sums.Sum, c_type: str) -> mma_sums.Sum:
    """A sum of f32 whose C is f16 and widened, or whose D is f16 and rounded."""

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        if c_type == "f16":
            return add(a, b, np.ascontiguousarray(mma_sums.numbers(c, "f16").view(np.uint32)))
        result = np.ascontiguousarray(add(a, b, c)).view(np.float32).astype(np.float16)
        return np.asarray(mma_sums.floating.canonical(result, 16))

    return run
