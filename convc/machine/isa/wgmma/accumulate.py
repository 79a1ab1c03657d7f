"""wgmma performed: products of the warps of a strand are added to their accumulators.

Instructions that continue one accumulation are one product over their joint K. D of a strand is one array, (CTAs,
warps, 16 rows, columns in the order of `column_order`), of which every register is a view; where the registers still
are such views, nothing has to be gathered for the next product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from convc.machine.base.values import MASK, Value, array
from convc.machine.isa.tcgen05.collective import whole_warps
from convc.machine.isa.warp import fragments
from convc.machine.state.strand import Strand
from convc.machine.state.warpgroups import WARPS, WarpgroupMultiply
from convc.machine.tensor_core import formats
from convc.machine.tensor_core.warpgroup import (
    QUARTER,
    ROWS,
    Select,
    SmemMatrix,
    WarpgroupShape,
    column_order,
    multiply,
    quarter_rows,
)

D_DTYPE = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "s32": np.dtype(np.int32)}

Words = tuple[int, int, bool]
"""Descriptor of A (0: in registers), descriptor of B, and scale-d."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Warps of one warpgroup that execute with the same operands in some CTAs.

    Attributes:
        part: the CTAs, as positions in the strand. select: the same, as rows in the cohort.
        warps: positions of the warps in the strand.
        words: operands of each instruction.
    """

    part: Select
    select: Select
    warps: np.ndarray
    words: tuple[Words, ...]


def matrices(
    shape: WarpgroupShape, quarters: tuple[int, ...], a: tuple[int, ...] | None, b: tuple[int, ...]
) -> tuple[SmemMatrix | None, SmemMatrix]:
    """The operands that consecutive instructions of some quarters of a warpgroup read.

    Args:
        shape: of all of them. quarters: numbers of the warps in the warpgroup.
        a, b: descriptors; no ``a`` where it is in registers.
    """
    right = SmemMatrix(
        name="B",
        words=b,
        extent=shape.n,
        rows=column_order(shape.n),
        columns=shape.k,
        element=shape.b_type,
        mn_major=shape.b_mn_major,
    )
    if a is None:
        return None, right
    rows = quarter_rows(quarters)
    left = SmemMatrix(
        name="A", words=a, extent=ROWS, rows=rows, columns=shape.k, element=shape.a_type, mn_major=shape.a_mn_major
    )
    return left, right


class Accumulation:
    """Instructions with the same accumulators and shape, performed for the active warps of a strand."""

    def __init__(self, strand: Strand, run: Sequence[WarpgroupMultiply]) -> None:
        self.strand = strand
        self.run = run
        self.first = run[0]
        self.shape = self.first.shape
        self.exact = strand.cohort.launch.switches.numerics == "exact"

    def perform(self) -> None:
        """Multiply, and fill the registers of D."""
        strand = self.strand
        active = whole_warps(strand, "wgmma.mma_async")
        batches = list(self._batches(active))
        count = len(strand.warps)
        old = None
        if any(batch.words[0][2] for batch in batches):
            old = self._accumulators()
        results = [self._product(batch, old) for batch in batches]
        if len(batches) == 1 and isinstance(batches[0].part, slice) and len(batches[0].warps) == count:
            self._fill(results[0].reshape(-1, count, QUARTER, self.shape.n))
            return
        room = np.zeros((strand.row_count, count, QUARTER, self.shape.n), D_DTYPE[self.shape.d_type])
        everyone = np.arange(strand.row_count)
        for batch, result in zip(batches, results, strict=True):
            room[np.ix_(everyone[batch.part], batch.warps)] = result.reshape(
                -1, len(batch.warps), QUARTER, self.shape.n
            )
        self._fill(room)

    # ---- who -----------------------------------------------------------------------------------------------------

    def _batches(self, active: np.ndarray) -> Iterator[Batch]:
        """The active warps by warpgroup and by operands."""
        strand = self.strand
        for group in np.unique(strand.warps // WARPS).tolist():
            warps = np.flatnonzero(strand.warps // WARPS == group)
            yield from self._of_warps(warps, active[:, warps])

    def _of_warps(self, warps: np.ndarray, active: np.ndarray) -> Iterator[Batch]:
        """Batches of warps of one warpgroup; one by one where they do not do the same in all CTAs."""
        tables = [self._table(each, warps) for each in self.run]
        alike = (active == active[:, :1]).all() and all((t == t[:, :1]).all() for table in tables for t in table)
        if not alike:
            for position in range(len(warps)):
                yield from self._of_warps(warps[position : position + 1], active[:, position : position + 1])
            return
        columns = [t[:, 0] for table in tables for t in table] + [active[:, 0].astype(np.uint64)]
        lines = np.stack(np.broadcast_arrays(*columns), axis=1)
        distinct, member = np.unique(lines, axis=0, return_inverse=True)
        for number, line in enumerate(distinct.tolist()):
            if not line[-1]:
                continue
            words = tuple((line[i], line[i + 1], bool(line[i + 2])) for i in range(0, len(line) - 1, 3))
            if len(distinct) == 1:
                rows = self.strand.rows
                yield Batch(part=slice(None), select=slice(None) if rows is None else rows, warps=warps, words=words)
            else:
                part = np.flatnonzero(member.reshape(-1) == number)
                rows = self.strand.cohort.rows_or_all(self.strand.rows)[part]
                yield Batch(part=part, select=rows, warps=warps, words=words)

    @staticmethod
    def _table(each: WarpgroupMultiply, warps: np.ndarray) -> list[np.ndarray]:
        """Operands of one instruction, uint64 (rows | 1, warps | 1)."""
        tables: list[np.ndarray] = []
        for value in (each.a, each.b, each.accumulate):
            if not isinstance(value, np.ndarray):
                tables.append(np.full((1, 1), int(value) & MASK[64], np.uint64))
                continue
            table = value[:, :, 0].astype(np.uint64)
            tables.append(table if table.shape[1] == 1 else table[:, warps])
        return tables

    # ---- arithmetic ------------------------------------------------------------------------------------------------

    def _product(self, batch: Batch, old: np.ndarray | None) -> np.ndarray:
        """D (ctas or 1, rows, n) of a batch."""
        shape = self.shape
        c = None
        if old is not None and batch.words[0][2]:
            c = old if len(old) == 1 else old[batch.part]
            c = c[:, batch.warps].reshape(len(c), -1, shape.n)
        longest = shape.longest_run(self.exact)
        start = 0
        while start < len(batch.words):
            stop = start + 1
            while stop < len(batch.words) and batch.words[stop][2] and stop - start < longest:
                stop += 1
            if not batch.words[start][2]:
                c = None
            a, b = self._operands(batch, start, stop)
            c = multiply(shape, a, b, c, self.exact)
            start = stop
        assert c is not None, "a batch has instructions"
        return c

    def _operands(self, batch: Batch, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """A and B (ctas or 1, rows, k) of some of the instructions."""
        cohort = self.strand.cohort
        quarters = tuple((self.strand.warps[batch.warps] % WARPS).tolist())
        words = batch.words[start:stop]
        in_registers = bool(self.first.sources)
        a_words = None if in_registers else tuple(word[0] for word in words)
        left, right = matrices(self.shape, quarters, a_words, tuple(word[1] for word in words))
        rows = None if isinstance(batch.select, slice) else batch.select
        for matrix in (left, right):
            if matrix is not None:
                matrix.check(cohort.shared, cohort.findings, self.first.instr, rows)
        if left is None:
            parts = [self._fragments(each, batch) for each in self.run[start:stop]]
            ctas = max(map(len, parts))  # those that are the same in all CTAs come once
            a = np.concatenate([np.broadcast_to(part, (ctas, *part.shape[1:])) for part in parts], axis=2)
        else:
            a = left.fetch(cohort.shared)(batch.select)
        return a, right.fetch(cohort.shared)(batch.select)

    def _fragments(self, each: WarpgroupMultiply, batch: Batch) -> np.ndarray:
        """A (ctas or 1, rows, k) from the registers of one instruction."""
        bits = formats.BITS[self.shape.a_type]
        regs = self.strand.regs
        values = [regs[slot] for slot in each.sources] if each.fragments is None else list(each.fragments)
        elements = fragments.unpack(values, len(self.strand.warps), 32, bits)
        matrix = fragments.operand(QUARTER, self.shape.k, bits).matrix(elements)[:, batch.warps, 0]
        if len(matrix) > 1:
            matrix = matrix[batch.part]
        raw = np.ascontiguousarray(matrix).reshape(len(matrix), -1, self.shape.k)
        return formats.widen(raw, self.shape.a_type, "plain").reshape(raw.shape)

    # ---- registers -------------------------------------------------------------------------------------------------

    def _places(self) -> list[tuple[int, int]]:
        """(half, column) of every register of D in `_words`."""
        if self.shape.d_type == "f16":
            return [(i & 1, i >> 1) for i in range(self.shape.registers)]
        return [(i >> 1 & 1, 2 * (i >> 2) + (i & 1)) for i in range(self.shape.registers)]

    def _words(self, block: np.ndarray) -> np.ndarray:
        """D (ctas or 1, warps, 16, n) as uint32 (ctas or 1, warps, halves, lanes, registers of a half)."""
        return block.view(np.uint32).reshape(*block.shape[:2], 2, fragments.LANES, -1)

    def _fill(self, block: np.ndarray) -> None:
        """Registers become views of D, or copies where they hold two numbers, which are taken apart as such."""
        words = self._words(block)
        for slot, (half, column) in zip(self.first.targets, self._places(), strict=True):
            value = words[:, :, half, :, column]
            self.strand.write(slot, value if self.shape.d_type != "f16" else np.ascontiguousarray(value))

    def _accumulators(self) -> np.ndarray:
        """D as the registers have it, (ctas or 1, warps, 16, n) in its type."""
        regs = self.strand.regs
        values = [regs[slot] for slot in self.first.targets]
        dtype = D_DTYPE[self.shape.d_type]
        whole = self._still_views(values)
        if whole is not None:
            return whole.view(dtype)
        rows = max((len(value) for value in values if isinstance(value, np.ndarray)), default=1)
        block = np.empty((rows, len(self.strand.warps), QUARTER, self.shape.n), dtype)
        words = self._words(block)
        for value, (half, column) in zip(values, self._places(), strict=True):
            words[:, :, half, :, column] = array(value, 32)
        return block

    def _still_views(self, values: list[Value]) -> np.ndarray | None:
        """The array of which registers are the views that `_fill` made, uint32; None where they are not."""
        first = values[0]
        if not isinstance(first, np.ndarray) or not isinstance(first.base, np.ndarray):
            return None
        owner = first.base
        size = len(first) * len(self.strand.warps) * QUARTER * self.shape.n
        if owner.itemsize != 4 or owner.size != size or not owner.flags.c_contiguous:
            return None
        whole = owner.view(np.uint32).reshape(len(first), len(self.strand.warps), QUARTER, self.shape.n)
        words = self._words(whole)
        for value, (half, column) in zip(values, self._places(), strict=True):
            if not isinstance(value, np.ndarray) or value.base is not owner:
                return None
            wanted = words[:, :, half, :, column]
            if value.strides != wanted.strides or value.shape != wanted.shape or _address(value) != _address(wanted):
                return None
        return whole


def _address(values: np.ndarray) -> int:
    return int(values.__array_interface__["data"][0])
