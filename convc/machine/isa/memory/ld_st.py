"""ld and st (PTX manual, "Data Movement and Conversion Instructions"); the spaces themselves are in `spaces`."""

from __future__ import annotations

import numpy as np

from convc.machine.base.values import DTYPE, MASK, Value, width
from convc.machine.isa.memory import spaces
from convc.machine.isa.memory.shared_space import shared_offset
from convc.machine.isa.registry import op
from convc.machine.isa.scalar.integer import extend
from convc.machine.isa.scalar.integer_forms import type_of
from convc.machine.memory.global_memory import SHARED_WINDOW, WINDOW_SHIFT
from convc.machine.state.strand import Strand
from convc.ptx import Address, Reg, Sink, Vector

__all__ = ["address_of", "shared_address_of", "shared_offset"]

SPACES = ("param", "shared", "global", "local", "const")


def address_of(operand: Address, program):
    """A function (regs) -> address value for ``[base+offset]``."""
    slot, offset = program.slot(operand.base), operand.offset
    if not isinstance(operand.base, Reg):
        return lambda regs: regs[slot] + offset
    if offset == 0:
        return lambda regs: regs[slot]
    bits = program.widths[slot]
    mask, step = MASK[bits], offset & MASK[bits]

    def run(regs) -> Value:
        base = regs[slot]
        return base + DTYPE[bits].type(step) if isinstance(base, np.ndarray) else (base + offset) & mask

    return run


def shared_address_of(operand: Address, program):
    """`address_of` for instructions that work on shared memory only: a generic address loses its window."""
    address = address_of(operand, program)
    if isinstance(operand.base, Reg) and program.widths[operand.base.slot] != 64:
        return address
    top, low = SHARED_WINDOW >> WINDOW_SHIFT, (1 << WINDOW_SHIFT) - 1

    def run(regs) -> Value:
        value = address(regs)
        if isinstance(value, np.ndarray):
            if value.dtype.itemsize != 8:
                return value
            return np.where(value >> np.uint64(WINDOW_SHIFT) == top, value & np.uint64(low), value)
        return value & low if value >> WINDOW_SHIFT == top else value

    return run


def space_of(instr) -> str | None:
    """State space of an access: param, shared, cluster (shared::cluster), global, local, const; None for generic."""
    for mod in instr.mods:
        space, _, part = mod.partition("::")
        if space in SPACES:
            return "cluster" if part == "cluster" else space
    return None


def _registers(operand, program, bits: int) -> list[int | None]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return [None if isinstance(o, Sink) else program.slot(o, bits) for o in items]


@op("ld", "ld.nc", "ld.mmio")
def load(instr, program):
    """ld{.vec}.type d, [a]. Caching, ordering and policies change nothing: every access is performed in order."""
    space, bits = space_of(instr), width(type_of(instr))
    slots = _registers(instr.operands[0], program, bits)
    address, count = address_of(instr.operands[1], program), len(slots)
    is_signed = type_of(instr).startswith("s")

    def run(strand: Strand) -> None:
        values = spaces.load(strand, instr, space, address(strand.regs), bits, count)
        for slot, value in zip(slots, values, strict=True):
            if slot is not None:
                strand.write(slot, _fit(value, bits, program.widths[slot], is_signed))

    return run


def _fit(value: Value, bits: int, register: int, is_signed: bool) -> Value:
    """ld may write a wider register: zero- or sign-extended (PTX manual, operand sizes beyond the type's)."""
    return value if register == bits else extend(value, bits, register, is_signed)


@op("st", "st.mmio", result=False)
def store(instr, program):
    """st{.vec}.type [a], b."""
    space, bits = space_of(instr), width(type_of(instr))
    slots = _registers(instr.operands[1], program, bits)
    address = address_of(instr.operands[0], program)
    wide = [program.widths[s] > bits for s in slots]

    def run(strand: Strand) -> None:
        regs = strand.regs
        values = [_low(regs[s], bits) if cut else regs[s] for s, cut in zip(slots, wide, strict=True)]
        spaces.store(strand, instr, space, address(regs), values, bits)

    return run


def _low(value: Value, bits: int) -> Value:
    return value.astype(DTYPE[bits]) if isinstance(value, np.ndarray) else value & MASK[bits]


@op("applypriority", "discard", result=False)
def cache_hint(instr, program):
    """Cache control changes nothing that the machine computes (discard may leave the old contents)."""
    return lambda strand: None
