"""Short ways for what scalar instructions do nearly always: plain ints in, a plain int out, no lane that waits.

A kernel's loop counters, addresses, descriptors and phases are the same in every lane of every CTA, and held as Python
ints. `quick` puts a closure before the operation of an instruction that computes just that case, by the same formula;
every other case, and a register whose value lanes that wait still need, goes to the operation itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from convc.machine.base.values import MASK, width
from convc.machine.isa.registry import Builder, Run
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Imm, Instr, Reg

Plain = Callable[[int, int], int]

WRAPPING: dict[str, Plain] = {
    "int.add": operator.add, "int.sub": operator.sub, "int.mul.lo": operator.mul, "logic.and": operator.and_,
    "logic.or": operator.or_, "logic.xor": operator.xor,
}  # fmt: skip
"""Forms whose result is that of an operation on whole numbers, modulo 2 to the width."""

SHORT = frozenset((*WRAPPING, "cvt", "mov", "setp", "int.mad.lo", "logic.shl", "logic.shr"))
"""Forms that may have a short way."""

COMPARING: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip

INTEGERS = frozenset(("u16", "u32", "u64", "s16", "s32", "s64", "b16", "b32", "b64"))
UNSIGNED = frozenset(("u16", "u32", "u64", "b16", "b32", "b64"))


class Later:
    """An operation that is made when it is first needed: most scalar instructions never leave their short way."""

    __slots__ = ("_builder", "_instr", "_run", "_table")

    def __init__(self, instr: Instr, table: SlotTable, builder: Builder) -> None:
        self._builder = builder
        self._instr = instr
        self._table = table
        self._run: Run | None = None

    def __call__(self, strand: Strand) -> int | None:
        run = self._run
        if run is None:
            run = self._run = self._builder(self._instr, self._table)
        return run(strand)


def quick(instr: Instr, table: SlotTable, builder: Builder) -> Run:
    """The operation of an instruction, with a short way before it where there is one."""
    found = _short_way(instr, table, builder) if instr.form.name in SHORT else None
    return builder(instr, table) if found is None else found


def _short_way(instr: Instr, table: SlotTable, builder: Builder) -> Run | None:
    """The operation with a short way before it, and with all slots that both need; None where there is no such way."""
    operands = instr.operands
    if not instr.mods or instr.mods[-1] not in INTEGERS or not isinstance(operands[0], Reg):
        return None
    if not all(isinstance(operand, Reg | Imm) for operand in operands[1:]):
        return None
    kind = instr.mods[-1]
    bits = width(kind)
    d = operands[0].slot
    name = instr.form.name
    shifts = name in ("logic.shl", "logic.shr")
    slots = [table.slot(operand, 32 if shifts and at else bits) for at, operand in enumerate(operands[1:])]
    run = Later(instr, table, builder)
    if name == "setp":
        plain = len(instr.mods) == 2 and instr.mods[0] in COMPARING
        signless = kind in UNSIGNED or instr.mods[0] in ("eq", "ne")
        return _compare(COMPARING[instr.mods[0]], d, slots, run) if plain and signless and len(slots) == 2 else None
    if "sat" in instr.mods:
        return None
    if name == "cvt":
        return _widen(instr, operands[0], slots[0], table, run)
    if name == "mov":
        return _move(d, slots[0], run)
    if name == "int.mad.lo":
        return _multiply_add(d, slots, MASK[bits], run)
    if shifts:
        return _shift(name == "logic.shl", d, slots, bits, run) if kind in UNSIGNED else None
    return _wrap(WRAPPING[name], d, slots, MASK[bits], run)


def _widen(instr: Instr, target: Reg, source: int, table: SlotTable, run: Run) -> Run | None:
    """cvt of an unsigned number to a type that is as wide as its register, and no narrower than the number's."""
    to = instr.mods[-2]
    unsigned = len(instr.mods) == 2 and instr.mods[-1] in UNSIGNED and to in UNSIGNED
    if not unsigned or table.widths[target.slot] != width(to) or width(to) < width(instr.mods[-1]):
        return None
    return _move_part(target.slot, source, MASK[width(instr.mods[-1])], run)


def _move_part(d: int, source: int, mask: int, run: Run) -> Run:
    def moved(strand: Strand) -> int | None:
        regs = strand.regs
        value = regs[source]
        keep = strand.keep
        if type(value) is int and (keep is None or d not in keep):
            regs[d] = value & mask
            return None
        return run(strand)

    return moved


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
