"""Short ways for what scalar instructions do nearly always: plain ints in, a plain int out, no lane that waits.

A kernel's loop counters, addresses, descriptors and phases are the same in every lane of every CTA, and held as Python
ints. `quick` puts a closure before the operation of an instruction that computes just that case, by the same formula;
every other case, and a register whose value lanes that wait still need, goes to the operation itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache, partial

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


_NUMBERS = frozenset((Reg, Imm))
"""What the sources of a short way are."""

Make = Callable[[Reg, list[int], SlotTable, Run], Run | None]
"""From the target, the slots of the sources and the operation itself to an operation with a short way before it."""


def quick(instr: Instr, table: SlotTable, builder: Builder) -> Run:
    """The operation of an instruction, with a short way before it where there is one."""
    found = _short_way(instr, table, builder) if instr.form.name in SHORT else None
    return builder(instr, table) if found is None else found


def _short_way(instr: Instr, table: SlotTable, builder: Builder) -> Run | None:
    """The operation with a short way before it, and with all slots that both need; None where there is no such way."""
    way = _way(instr.form.name, instr.mods)
    target, *sources = instr.operands
    if way is None or type(target) is not Reg or not _NUMBERS.issuperset(map(type, sources)):
        return None
    widths, make = way
    slots = [
        operand.slot if type(operand) is Reg else table.slot(operand, bits)
        for operand, bits in zip(sources, widths, strict=False)
    ]
    return make(target, slots, table, Later(instr, table, builder))


@lru_cache(maxsize=1 << 10)
def _way(name: str, mods: tuple[str, ...]) -> tuple[tuple[int, ...], Make] | None:
    """What a form with these modifiers has for a short way: how many bits it reads of each source, and what makes it.

    None where it has no short way, whatever its operands are.
    """
    if not mods or mods[-1] not in INTEGERS or "sat" in mods:
        return None
    kind = mods[-1]
    bits = width(kind)
    widths = (bits, bits, bits)
    if name == "setp":
        plain = len(mods) == 2 and mods[0] in COMPARING and (kind in UNSIGNED or mods[0] in ("eq", "ne"))
        return (widths, partial(_compare, COMPARING[mods[0]])) if plain else None
    if name == "cvt":
        unsigned = len(mods) == 2 and kind in UNSIGNED and mods[0] in UNSIGNED and width(mods[0]) >= bits
        return (widths, partial(_widen, width(mods[0]), MASK[bits])) if unsigned else None
    if name == "mov":
        return widths, _move
    if name == "int.mad.lo":
        return widths, partial(_multiply_add, MASK[bits])
    if name in ("logic.shl", "logic.shr"):
        return ((bits, 32), partial(_shift, name == "logic.shl", bits)) if kind in UNSIGNED else None
    return widths, partial(_wrap, WRAPPING[name], MASK[bits])


def _widen(wide: int, mask: int, target: Reg, slots: list[int], table: SlotTable, run: Run) -> Run | None:
    """cvt of an unsigned number to a type that is as wide as its register, and no narrower than the number's."""
    return _move_part(target.slot, slots[0], mask, run) if table.widths[target.slot] == wide else None


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


def _wrap(function: Plain, mask: int, target: Reg, slots: list[int], table: SlotTable, run: Run) -> Run:
    d = target.slot
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


def _multiply_add(mask: int, target: Reg, slots: list[int], table: SlotTable, run: Run) -> Run:
    d = target.slot
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


def _shift(left: bool, bits: int, target: Reg, slots: list[int], table: SlotTable, run: Run) -> Run:
    d = target.slot
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


def _compare(
    function: Callable[[int, int], bool], target: Reg, slots: list[int], table: SlotTable, run: Run
) -> Run | None:
    if len(slots) != 2:  # with a predicate besides
        return None
    d = target.slot
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


def _move(target: Reg, slots: list[int], table: SlotTable, run: Run) -> Run:
    d = target.slot
    [source] = slots

    def moved(strand: Strand) -> int | None:
        keep = strand.keep
        if keep is None or d not in keep:
            regs = strand.regs
            regs[d] = regs[source]
            return None
        return run(strand)

    return moved
