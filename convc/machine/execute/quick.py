"""Short ways for what scalar instructions do nearly always: plain ints in, a plain int out, no lane that waits.

A kernel's loop counters, addresses, descriptors and phases are the same in every lane of every CTA, and held as Python
ints. `quick` puts a closure before the operation of an instruction that computes just that case, by the same formula;
every other case, and a register whose value lanes that wait still need, goes to the operation itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from convc.machine.base.values import MASK, width
from convc.machine.isa.registry import Run
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Imm, Instr, Reg

Plain = Callable[[int, int], int]

WRAPPING: dict[str, Plain] = {
    "int.add": operator.add, "int.sub": operator.sub, "int.mul.lo": operator.mul, "logic.and": operator.and_,
    "logic.or": operator.or_, "logic.xor": operator.xor,
}  # fmt: skip
"""Forms whose result is that of an operation on whole numbers, modulo 2 to the width."""

COMPARING: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip

INTEGERS = frozenset(("u16", "u32", "u64", "s16", "s32", "s64", "b16", "b32", "b64"))
UNSIGNED = frozenset(("u16", "u32", "u64", "b16", "b32", "b64"))


def quick(instr: Instr, table: SlotTable, run: Run) -> Run:
    """``run``, the operation of an instruction, with a short way before it where there is one."""
    operands = instr.operands
    known = instr.form.name in WRAPPING or instr.form.name in ("mov", "setp", "int.mad.lo", "logic.shl", "logic.shr")
    if not known or not instr.mods or instr.mods[-1] not in INTEGERS or not isinstance(operands[0], Reg):
        return run
    if not all(isinstance(operand, Reg | Imm) for operand in operands[1:]):
        return run
    kind = instr.mods[-1]
    bits = width(kind)
    d = operands[0].slot
    name = instr.form.name
    shifts = name in ("logic.shl", "logic.shr")
    slots = [table.slot(operand, 32 if shifts and at else bits) for at, operand in enumerate(operands[1:])]
    if name == "setp":
        plain = len(instr.mods) == 2 and instr.mods[0] in COMPARING
        signless = kind in UNSIGNED or instr.mods[0] in ("eq", "ne")
        return _compare(COMPARING[instr.mods[0]], d, slots, run) if plain and signless and len(slots) == 2 else run
    if "sat" in instr.mods:
        return run
    if name == "mov":
        return _move(d, slots[0], run)
    if name == "int.mad.lo":
        return _multiply_add(d, slots, MASK[bits], run)
    if shifts:
        return _shift(name == "logic.shl", d, slots, bits, run) if kind in UNSIGNED else run
    return _wrap(WRAPPING[name], d, slots, MASK[bits], run)


def _wrap(function: Plain, d: int, slots: list[int], mask: int, run: Run) -> Run:
    first, second = slots

    def wrapped(strand: Strand) -> int | None:
        regs = strand.regs
        a = regs[first]
        b = regs[second]
        keep = strand.keep
        if type(a) is int and type(b) is int and (keep is None or d not in keep):
            regs[d] = function(a, b) & mask
            return None
        return run(strand)

    return wrapped


def _multiply_add(d: int, slots: list[int], mask: int, run: Run) -> Run:
    first, second, third = slots

    def multiplied(strand: Strand) -> int | None:
        regs = strand.regs
        a = regs[first]
        b = regs[second]
        c = regs[third]
        keep = strand.keep
        if type(a) is int and type(b) is int and type(c) is int and (keep is None or d not in keep):
            regs[d] = (a * b + c) & mask
            return None
        return run(strand)

    return multiplied


def _shift(left: bool, d: int, slots: list[int], bits: int, run: Run) -> Run:
    first, second = slots
    mask = MASK[bits]

    def shifted(strand: Strand) -> int | None:
        regs = strand.regs
        a = regs[first]
        b = regs[second]
        keep = strand.keep
        if type(a) is int and type(b) is int and b < bits and (keep is None or d not in keep):
            regs[d] = (a << b) & mask if left else a >> b
            return None
        return run(strand)

    return shifted


def _compare(function: Callable[[int, int], bool], d: int, slots: list[int], run: Run) -> Run:
    first, second = slots

    def compared(strand: Strand) -> int | None:
        regs = strand.regs
        a = regs[first]
        b = regs[second]
        keep = strand.keep
        if type(a) is int and type(b) is int and (keep is None or d not in keep):
            regs[d] = function(a, b)
            return None
        return run(strand)

    return compared


def _move(d: int, source: int, run: Run) -> Run:
    def moved(strand: Strand) -> int | None:
        keep = strand.keep
        if keep is None or d not in keep:
            regs = strand.regs
            regs[d] = regs[source]
            return None
        return run(strand)

    return moved
