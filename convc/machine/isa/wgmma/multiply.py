"""wgmma.mma_async: a warpgroup multiplies matrices asynchronously, accumulators in its registers.

Every warp has 16 rows of D. What it issues is kept until its group is committed, or until it waits for that where the
completion policy puts work off (`convc.machine.isa.wgmma.groups`), and then performed, what continues one accumulation
as one product.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import MASK, Value
from convc.machine.isa.observe import NOTHING, watched_rows
from convc.machine.isa.operands import modifier, number, reader
from convc.machine.isa.registry import Run, Traits, op
from convc.machine.isa.tcgen05.collective import whole_warps
from convc.machine.isa.threads import per_warp
from convc.machine.isa.wgmma.accumulate import matrices
from convc.machine.state.observer import LaneAccess, Observer
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.state.warpgroups import WARPS, WarpgroupMultiply
from convc.machine.tensor_core.footprints import Operand
from convc.machine.tensor_core.warpgroup import ROWS, SmemMatrix, WarpgroupShape
from convc.ptx import Instr

TYPES = ("f32", "f16", "s32", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")


def shape_of(instr: Instr) -> WarpgroupShape:
    """What the modifiers and immediates say."""
    _, n, k = map(int, re.findall(r"\d+", modifier(instr, "shape")))
    d_type, a_type, b_type = (mod for mod in instr.mods if mod in TYPES)

    def immediate(name: str, default: int) -> int:
        operand = instr.args.get(name)
        return default if operand is None else number(operand)

    return WarpgroupShape(
        n=n,
        k=k,
        a_type=a_type,
        b_type=b_type,
        d_type=d_type,
        negate=immediate("imm_scale_a", 1) != immediate("imm_scale_b", 1),
        a_mn_major=immediate("imm_trans_a", 0) == 1,
        b_mn_major=immediate("imm_trans_b", 0) == 1,
        saturate=instr.slots.get("satfinite") is not None,
    )


def warpgroup_warps(strand: Strand, what: str) -> np.ndarray:
    """bool (ctas or 1, warps): the warps that execute; a fault where one has no whole warpgroup or parted lanes."""
    active = whole_warps(strand, what)
    whole = strand.cohort.warps // WARPS * WARPS
    if (strand.warps[active.any(axis=0)] >= whole).any():
        raise MachineFault(
            f"{what} by a warp outside of a full warpgroup: the CTA has {strand.cohort.warps} warps",
            hint="a warpgroup is four warps from a multiple of four on: launch a multiple of 128 threads",
        )
    return active


@op("wgmma.mma_async", traits=Traits.ASYNC_REGISTERS, result=False)
def multiply(instr: Instr, table: SlotTable) -> Run:
    """wgmma.mma_async.sync.aligned.shape.dtype.atype.btype d, a, b_desc, scale_d, ...: d = a b + d."""
    shape = shape_of(instr)
    targets = tuple(table.slots(instr.args["d"], 32))
    sources = () if instr.args.get("a") is None else tuple(table.slots(instr.args["a"], 32))
    a_slot = table.optional(instr.args.get("a_desc"))
    b_slot = table.slot(instr.args["b_desc"])
    scale = reader(instr.args["scale_d"], table)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        active = warpgroup_warps(strand, "wgmma.mma_async")
        a = 0 if a_slot is None else _shared(strand, regs[a_slot], "a descriptor of wgmma")
        b = _shared(strand, regs[b_slot], "a descriptor of wgmma")
        accumulate = _shared(strand, scale(regs), "scale-d of wgmma")
        rows = cohort.rows_or_all(strand.rows)
        cohort.warpgroups.note(rows, strand.warps, active, _word(instr.index, a, b, accumulate))
        issued = WarpgroupMultiply(
            instr=instr,
            shape=shape,
            targets=targets,
            sources=sources,
            a=a,
            b=b,
            accumulate=accumulate,
            fragments=tuple(regs[slot] for slot in sources) if cohort.pending.eager else None,
            group=cohort.warpgroups.closed[np.ix_(rows, strand.warps)][:, :, None],
            mask=strand.mask,
        )
        strand.multiplies.append(issued)
        count = int(np.broadcast_to(active, (strand.row_count, len(strand.warps))).sum())
        cohort.counters.warp_mma += count
        cohort.counters.warp_multiply_adds += count * ROWS // WARPS * shape.n * shape.k
        if cohort.observer is not None:
            _notify(strand, instr, cohort.observer, issued, active)

    return run


def _shared(strand: Strand, value: Value, what: str) -> Value:
    """An operand that the lanes of a warp must share, as an int or (rows | 1, warps | 1, 1)."""
    found = per_warp(strand, value, what)
    return found if isinstance(found, int) else found[:, :, None]


def _word(index: int, *values: Value) -> int | np.ndarray:
    """A number, or uint64 (rows | 1, warps | 1), that differs where the instruction or one of its operands does."""
    word: int | np.ndarray = index
    for value in values:
        if isinstance(value, np.ndarray):
            value = value[:, :, 0].astype(np.uint64)
        if isinstance(word, int) and isinstance(value, int | bool):
            word = (word * 31 + value) & MASK[64]
        else:
            word = np.asarray(word, np.uint64) * np.uint64(31) + np.asarray(value & MASK[64], np.uint64)
    return word


def _notify(strand: Strand, instr: Instr, observer: Observer, issued: WarpgroupMultiply, active: np.ndarray) -> None:
    """Tell the observer what the watched CTAs read of shared memory."""
    accesses: list[LaneAccess] = []
    lane = np.array([0])
    for at, row in watched_rows(strand):
        here = active[at if len(active) > 1 else 0]
        for group in np.unique(strand.warps[here] // WARPS).tolist():
            positions = np.flatnonzero(here & (strand.warps // WARPS == group))
            operands: tuple[Operand, ...] = ()
            if "mma" in observer.wants:
                operands = tuple(matrix.operand() for matrix in _read(strand, issued, at, positions))
            places = np.concatenate([operand.places for operand in operands]) if operands else NOTHING
            warp = int(strand.warps[positions[0]])
            accesses.append(LaneAccess(row, warp, row, lane, places[None], operands))
    observer.warpgroup_multiply(strand, instr, accesses)


def _read(strand: Strand, issued: WarpgroupMultiply, at: int, positions: np.ndarray) -> Sequence[SmemMatrix]:
    """The operands in shared memory of some warps of one warpgroup of one CTA."""

    def word(value: Value) -> int:
        if not isinstance(value, np.ndarray):
            return int(value)
        warp = int(positions[0]) if value.shape[1] > 1 else 0
        return int(value[at if len(value) > 1 else 0, warp, 0]) & MASK[64]

    quarters = tuple((strand.warps[positions] % WARPS).tolist())
    a = None if issued.sources else (word(issued.a),)
    return [matrix for matrix in matrices(issued.shape, quarters, a, (word(issued.b),)) if matrix is not None]
