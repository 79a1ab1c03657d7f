"""mov and address conversion (PTX manual, "Data Movement and Conversion Instructions")."""

from __future__ import annotations

import numpy as np

from convc.errors import UnmodelledError
from convc.machine.base.cluster_ranks import RANK_SHIFT
from convc.machine.base.values import MASK, Value, array, join, width
from convc.machine.base.values import split as split_bits
from convc.machine.isa.operands import apply, type_of
from convc.machine.isa.registry import BLIND, PURE, SCALAR, Run, Traits, op
from convc.machine.memory.global_memory import (
    BASES,
    LOCAL_PARAMETERS,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW_SHIFT,
)
from convc.machine.state.slots import SlotTable, elements
from convc.machine.state.strand import Strand
from convc.ptx import Imm, Instr, Special

CLOCKS = ("clock", "clock64", "globaltimer", "clock_hi", "globaltimer_lo", "globaltimer_hi")
TICK = 64
"""How far the clocks advance at every read; the simulator has no time."""


@op("mov", traits=SCALAR)
def mov(instr: Instr, table: SlotTable) -> Run:
    """mov: copy; reading a clock gives a larger number every time."""
    source = instr.operands[1]
    if isinstance(source, Special) and source.name in CLOCKS:
        return _read_clock(instr, table, source.name)
    return apply(instr, table, lambda a: a, width(type_of(instr)))


def _read_clock(instr: Instr, table: SlotTable, name: str) -> Run:
    d = table.slot(instr.operands[0])

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        cohort.ticks += TICK
        strand.write(d, cohort.ticks >> 32 if name.endswith("hi") else cohort.ticks & MASK[table.widths[d]])

    return run


@op("mov.pack", traits=PURE | BLIND | Traits.PACKS)
def pack(instr: Instr, table: SlotTable) -> Run:
    """mov d, {a, b, …}: a is the lowest part."""
    bits = width(type_of(instr))
    target = table.slot(instr.operands[0])
    part = bits // len(elements(instr.operands[1]))
    slots = table.slots(instr.operands[1], part)

    def run(strand: Strand) -> None:
        regs = strand.regs
        strand.write(target, join([regs[slot] for slot in slots], part))

    return run


@op("mov.unpack", traits=PURE | BLIND | Traits.PACKS)
def unpack(instr: Instr, table: SlotTable) -> Run:
    """mov {d, e, …}, a: d gets the lowest part."""
    bits = width(type_of(instr))
    source = table.slot(instr.operands[1])
    slots = table.targets(instr.operands[0])
    part = bits // len(slots)

    def run(strand: Strand) -> None:
        for slot, item in zip(slots, split_bits(strand.regs[source], part, len(slots)), strict=True):
            if slot is not None:
                strand.write(slot, item)

    return run


@op("cvta", "cvta.to", traits=SCALAR)
def cvta(instr: Instr, table: SlotTable) -> Run:
    """cvta.space adds the space's window, cvta.to.space takes it off."""
    space = next(m for m in instr.mods if m.split("::")[0] in BASES).split("::")[0]
    base = BASES[space]
    if instr.form.name == "cvta.to":
        base = -base & MASK[64]
    elif space == "param":
        return apply(instr, table, _generic_parameter, 64)
    if not base:
        return apply(instr, table, lambda a: a, 64)

    def run(a: Value) -> Value:
        return a + np.uint64(base) if isinstance(a, np.ndarray) else (a + base) & MASK[64]

    return apply(instr, table, run, 64)


def _generic_parameter(a: Value) -> Value:
    """The kernel's parameters have a window, those of called functions are in local memory."""
    called = LOCAL_WINDOW - LOCAL_PARAMETERS
    if isinstance(a, np.ndarray):
        return a + np.where(a < np.uint64(LOCAL_PARAMETERS), np.uint64(PARAM_WINDOW), np.uint64(called))
    return (a + (PARAM_WINDOW if a < LOCAL_PARAMETERS else called)) & MASK[64]


@op("isspacep", traits=PURE)
def isspacep(instr: Instr, table: SlotTable) -> Run:
    """isspacep.space p, a: whether a generic address is in a state space."""
    space, _, part = next(m for m in instr.mods if m.split("::")[0] in BASES).partition("::")
    top = BASES[space] >> WINDOW_SHIFT

    def run(a: Value) -> Value:
        return a >> np.uint64(WINDOW_SHIFT) == top if isinstance(a, np.ndarray) else a >> WINDOW_SHIFT == top

    if space != "shared" or part == "cluster":
        return apply(instr, table, run, 64)
    p = table.slot(instr.operands[0])
    address = table.slot(instr.operands[1], 64)

    def own(strand: Strand) -> None:
        a = array(strand.regs[address], 64)
        rank = ((a - np.uint64(SHARED_WINDOW)) >> np.uint64(RANK_SHIFT)).astype(np.int64)
        rows = slice(None) if strand.rows is None else strand.rows
        mine = strand.cohort.place.rank[rows].reshape(-1, 1, 1)
        strand.write(p, run(a) & (rank == mine))

    return own


POLICY = {
    "L2::evict_normal": 0x16F0000000000000, "L2::evict_first": 0x12F0000000000000, "L2::evict_last": 0x14F0000000000000,
    "L2::evict_unchanged": 0x1000000000000000,
}  # fmt: skip
"""Opaque cache policies: any number would do, since caches change nothing that the simulator computes."""


@op("createpolicy.fractional", "createpolicy.range", "createpolicy.cvt", traits=PURE)
def createpolicy(instr: Instr, table: SlotTable) -> Run:
    """createpolicy: an opaque number; the primary part of a range is no longer than all of it, as ptxas asks."""
    sizes = [instr.args.get(name) for name in ("primary_size", "total_size")]
    primary, total = (int(size.value) if isinstance(size, Imm) else None for size in sizes)
    if primary is not None and total is not None and primary > total:
        raise UnmodelledError(
            f"createpolicy.range: the primary size must be at most the total size, got {primary} of {total} bytes",
            span=instr.span,
        )
    d = table.slot(instr.operands[0])
    value = next((POLICY[m] for m in instr.mods if m in POLICY), 0)
    return lambda strand: strand.write(d, value)
