"""ld and st (PTX manual, "Data Movement and Conversion Instructions"); the spaces themselves are in `spaces`."""

from __future__ import annotations

import numpy as np

from convc.machine.base.values import DTYPE, MASK, Value, width
from convc.machine.isa.memory import spaces
from convc.machine.isa.operands import address_of, type_of
from convc.machine.isa.registry import Run, op
from convc.machine.isa.scalar.integer import extend
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr, Sink, Vector

SPACES = ("param", "shared", "global", "local", "const")


def space_of(instr: Instr) -> str | None:
    """State space of an access: param, shared, cluster (shared::cluster), global, local, const; None for generic."""
    for mod in instr.mods:
        space, _, part = mod.partition("::")
        if space in SPACES:
            return "cluster" if part == "cluster" else space
    return None


def _registers(operand, table: SlotTable, bits: int) -> list[int | None]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return [None if isinstance(o, Sink) else table.slot(o, bits) for o in items]


@op("ld", "ld.nc", "ld.mmio")
def load(instr: Instr, table: SlotTable) -> Run:
    """ld{.vec}.type d, [a]. Caching, ordering and policies change nothing: every access is performed in order."""
    space = space_of(instr)
    bits = width(type_of(instr))
    slots = _registers(instr.operands[0], table, bits)
    address = address_of(instr.operands[1], table)
    count = len(slots)
    is_signed = type_of(instr).startswith("s")

    def run(strand: Strand) -> None:
        values = spaces.load(strand, instr, space, address(strand.regs), bits, count)
        for slot, value in zip(slots, values, strict=True):
            if slot is not None:
                strand.write(slot, _fit(value, bits, table.widths[slot], is_signed))

    return run


def _fit(value: Value, bits: int, register: int, is_signed: bool) -> Value:
    """ld may write a wider register: zero- or sign-extended (PTX manual, operand sizes beyond the type's)."""
    return value if register == bits else extend(value, bits, register, is_signed)


@op("st", "st.mmio", result=False)
def store(instr: Instr, table: SlotTable) -> Run:
    """st{.vec}.type [a], b."""
    space = space_of(instr)
    bits = width(type_of(instr))
    slots = _registers(instr.operands[1], table, bits)
    address = address_of(instr.operands[0], table)
    wide = [table.widths[s] > bits for s in slots]

    def run(strand: Strand) -> None:
        regs = strand.regs
        values = [_low(regs[s], bits) if cut else regs[s] for s, cut in zip(slots, wide, strict=True)]
        spaces.store(strand, instr, space, address(regs), values, bits)

    return run


def _low(value: Value, bits: int) -> Value:
    return value.astype(DTYPE[bits]) if isinstance(value, np.ndarray) else value & MASK[bits]


@op("applypriority", "discard", result=False)
def cache_hint(instr: Instr, table: SlotTable) -> Run:
    """Cache control changes nothing that the machine computes (discard may leave the old contents)."""
    return lambda strand: None
