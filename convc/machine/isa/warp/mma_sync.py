"""mma.sync and mma.sp: a warp multiplies small matrices held in its registers (PTX manual, 9.7.14.5.14, 9.7.14.6.3).

`fragments` says which lane has which element, `sparse` what metadata mean, `mma_sums` how the products are added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from convc.machine.base.findings import Who
from convc.machine.base.values import Value, array
from convc.machine.isa.operands import modifier, number
from convc.machine.isa.registry import CROSS_LANE, Run, Traits, op
from convc.machine.isa.tcgen05.collective import whole_warps
from convc.machine.isa.warp import fragments, mma_sums
from convc.machine.isa.warp.fragments import FragmentLayout
from convc.machine.isa.warp.sparse import sparsity
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

BITS = {
    "f64": 64, "s32": 32, "f32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8,
    "s4": 4, "u4": 4, "b1": 1,
}  # fmt: skip
"""Bits that an element takes in a register."""

SHAPE = re.compile(r"m\d+n\d+k\d+")


@op("mma", "mma.sp", traits=CROSS_LANE | Traits.WARP_MMA)
def mma(instr: Instr, table: SlotTable) -> Run:
    """mma.sync.aligned.shape.alayout.blayout.dtype.atype.btype.ctype d, a, b, c: d = a b + c.

    mma.sp has metadata and a selector behind them, and A without what they leave out.
    """
    slots = instr.slots
    m, n, k = map(int, re.findall(r"\d+", next(mod for mod in instr.mods if SHAPE.fullmatch(mod))))
    d_type, *types = (mod for mod in instr.mods if mod in BITS)
    types.append(d_type)
    expand = _Expansion(instr, table, k, BITS[types[0]]) if instr.form.name == "mma.sp" else None
    layouts = _layouts(slots, types, (m, n, k), stored=k if expand is None else k // 2)
    widths = [64 if kind == "f64" else 32 for kind in types]
    targets = table.targets(instr.args["d"])
    sources = [table.slots(instr.args[name], bits) for name, bits in zip("abc", widths, strict=False)]
    sums = {exact: _sum(instr, types, exact) for exact in (False, True)}

    def held(at: int, registers: Sequence[Value]) -> np.ndarray:
        """Matrix A, B or C that registers hold; one for all warps where they are the same in all."""
        warps = max([value.shape[1] if isinstance(value, np.ndarray) else 1 for value in registers])
        return layouts[at].matrix(fragments.unpack(registers, warps, widths[at], BITS[types[at]]))

    def operand(at: int, registers: Sequence[Value]) -> np.ndarray:
        """Numbers of A or B."""
        return mma_sums.numbers(held(at, registers), types[at])

    def run(strand: Strand) -> None:
        regs = strand.regs
        cohort = strand.cohort
        active = None if strand.mask is None else whole_warps(strand, "mma.sync")
        a, b, c = ([regs[slot] for slot in registers] for registers in sources)
        left = operand(0, a)
        if expand is not None:
            left = expand(strand, left, active)
        right = operand(1, b)
        result = sums[cohort.launch.switches.numerics == "exact"](left, right, held(2, c))
        values = layouts[3].registers(result, widths[3])
        for slot, value in zip(targets, values, strict=True):
            if slot is not None:
                strand.write(slot, value)
        warps = (strand.row_count, len(strand.warps))
        count = warps[0] * warps[1] if active is None else int(np.broadcast_to(active, warps).sum())
        cohort.counters.warp_mma += count
        cohort.counters.warp_multiply_adds += count * m * n * layouts[0].shape[2] * layouts[3].shape[0]

    return run


class _Expansion:
    """Makes A whole by the metadata of an instruction."""

    def __init__(self, instr: Instr, table: SlotTable, depth: int, bits: int) -> None:
        self.instr = instr
        self.slot = table.slot(instr.args["e"], 32)
        self.sparsity = sparsity(depth, bits, number(instr.args["f"]))
        self.ordered = instr.slots["variant"] == "sp::ordered_metadata"

    def __call__(self, strand: Strand, stored: np.ndarray, active: np.ndarray | None) -> np.ndarray:
        metadata = array(strand.regs[self.slot], 32)
        warps = len(strand.warps)
        chunks = self.sparsity.chunks(np.broadcast_to(metadata, (len(metadata), warps, 32)))
        wrong = self.sparsity.meaningless(chunks, self.ordered)
        bad = np.asarray(wrong.any(axis=(2, 3)) & (np.True_ if active is None else active))
        if bad.any():
            self._report(strand, chunks, wrong, bad)
        return self.sparsity.dense(stored, chunks)

    def _report(self, strand: Strand, chunks: np.ndarray, wrong: np.ndarray, bad: np.ndarray) -> None:
        cta, warp = np.argwhere(bad)[0].tolist()
        row, chunk = np.argwhere(wrong[cta, warp])[0].tolist()
        what = "name no two of four in ascending order" if self.sparsity.pairs else "are not 0100 or 1110"
        who = Who(
            row=int(strand.cohort.rows_or_all(strand.rows)[cta]),
            warp=int(strand.warps[warp]),
            lanes=(int(self.sparsity.lanes[row, chunk]),),
        )
        strand.cohort.findings.report(
            "sparse-metadata",
            f"the bits {chunks[cta, warp, row, chunk]:04b} of chunk {chunk} of row {row} of A {what}: undefined",
            self.instr,
            who=who,
        )


def _layouts(
    slots: Mapping[str, str | None], types: list[str], shape: tuple[int, int, int], stored: int
) -> list[FragmentLayout]:
    """Of A, of whose columns some are ``stored``, B (as n x k), C and D."""
    m, n, k = shape
    a_type, b_type, *others = types
    if slots.get("alayout") is not None:
        rows = fragments.quad_rows
        columns = fragments.quad_columns
        return [
            rows(k) if slots["alayout"] == "row" else columns(),
            rows(k) if slots["blayout"] == "col" else columns(),
            *(rows(n) if kind == "f16" else fragments.quad_sums() for kind in others),
        ]
    operands = [fragments.operand(m, stored, BITS[a_type]), fragments.operand(n, k, BITS[b_type])]
    return [*operands, fragments.accumulator(m), fragments.accumulator(m)]


def _sum(instr: Instr, types: list[str], exact: bool) -> mma_sums.Sum:
    """How the products of these types (of A, B, C and D) are added."""
    slots = instr.slots
    a_type, b_type, c_type, d_type = types
    if slots.get("alayout") is not None:
        return mma_sums.quad_sum(c_type, d_type)
    if a_type == "f64":
        return mma_sums.double_sum(slots["rnd"] or "rn")
    if a_type == "b1":
        return mma_sums.bit_sum(modifier(instr, "bitOp"))
    if a_type in mma_sums.INTEGERS:
        return mma_sums.integer_sum(slots.get("satfinite") is not None)
    return mma_sums.float_sum(a_type, b_type, d_type, exact)
