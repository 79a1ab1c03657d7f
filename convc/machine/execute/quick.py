"""Short ways for what scalar instructions do nearly always: plain ints in, a plain int out, no lane that waits.

A kernel's loop counters, addresses, descriptors and phases are the same in every lane of every CTA, and held as Python
ints. `quick` puts a closure before the operation of an instruction that computes just that case, by the same formula;
every other case, and a register whose value lanes that wait still need, goes to the operation itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from convc.machine.base.values import MASK, width
from convc.machine.isa.registry import OPS, Builder, Run
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


def at_length(instr: Instr, table: SlotTable, strand: Strand) -> int | None:
    """The operation itself, which is made when it is first needed: most scalar instructions keep to their short way."""
    run = table.operations.get(instr.index)
    if run is None:
        run = table.operations[instr.index] = OPS[instr.form.name](instr, table)
    return run(strand)


_NUMBERS = frozenset((Reg, Imm))
"""What the sources of a short way are."""

Make = Callable[..., Run | None]
"""From an instruction, its table, and the slots of target and sources to an operation that tries a short way first."""


class Way(NamedTuple):
    """The way from an instruction to its operation.

    Attributes:
        builder: of the operation itself.
        make: of an operation that tries a short way first; None where there is none.
        bits: how many are read of each operand; the first one is the target.
    """

    builder: Builder
    make: Make | None
    bits: tuple[int, ...]


def way_of(instr: Instr, builder: Builder) -> Way:
    """The way from an instruction, and all others of its form, modifiers and kinds of operands, to an operation."""
    target, *sources = instr.operands or (None,)
    if instr.form.name in SHORT and type(target) is Reg and _NUMBERS.issuperset(map(type, sources)):
        make, *bits = _short(instr.form.name, instr.mods)
        if make is not None:
            return Way(builder, make, (0, *bits)[: 1 + len(sources)])
    return Way(builder, None, ())


def made(way: Way, instr: Instr, table: SlotTable) -> Run:
    """The operation of an instruction, with all slots that a short way before it needs, too."""
    builder, make, bits = way
    if make is None:
        return builder(instr, table)
    return make(instr, table, *map(table.slot, instr.operands, bits)) or builder(instr, table)


def _short(name: str, mods: tuple[str, ...]) -> tuple[Make | None, int, int, int]:
    """What a form with these modifiers has for a short way, and how many bits it reads of each source.

    None where it has no short way, whatever its operands are.
    """
    none = None, 0, 0, 0
    if not mods or mods[-1] not in INTEGERS or "sat" in mods:
        return none
    kind = mods[-1]
    bits = width(kind)
    if name == "setp":
        plain = len(mods) == 2 and mods[0] in COMPARING and (kind in UNSIGNED or mods[0] in ("eq", "ne"))
        return (partial(_compare, COMPARING[mods[0]]), bits, bits, bits) if plain else none
    if name == "cvt":
        unsigned = len(mods) == 2 and kind in UNSIGNED and mods[0] in UNSIGNED and width(mods[0]) >= bits
        return (partial(_widen, width(mods[0]), MASK[bits]), bits, 0, 0) if unsigned else none
    if name == "mov":
        return _move, bits, 0, 0
    if name == "int.mad.lo":
        return partial(_multiply_add, MASK[bits]), bits, bits, bits
    if name in ("logic.shl", "logic.shr"):
        return (partial(_shift, name == "logic.shl", bits), bits, 32, 0) if kind in UNSIGNED else none
    return partial(_wrap, WRAPPING[name], MASK[bits]), bits, bits, 0


def _widen(wide: int, mask: int, instr: Instr, table: SlotTable, d: int, source: int) -> Run | None:
    """cvt of an unsigned number to a type that is as wide as its register, and no narrower than the number's."""
    return _move_part(mask, instr, table, d, source) if table.widths[d] == wide else None


def _move_part(mask: int, instr: Instr, table: SlotTable, d: int, source: int) -> Run:
    def moved(strand: Strand) -> int | None:
        regs = strand.regs
        value = regs[source]
        keep = strand.keep
        if type(value) is int and (keep is None or d not in keep):
            regs[d] = value & mask
            return None
        return at_length(instr, table, strand)

    return moved


def _wrap(function: Plain, mask: int, instr: Instr, table: SlotTable, d: int, first: int, second: int) -> Run:
    def wrapped(strand: Strand) -> int | None:
        regs = strand.regs
        a = regs[first]
        b = regs[second]
        keep = strand.keep
        if type(a) is int and type(b) is int and (keep is None or d not in keep):
            regs[d] = function(a, b) & mask
            return None
        return at_length(instr, table, strand)

    return wrapped


def _multiply_add(mask: int, instr: Instr, table: SlotTable, d: int, first: int, second: int, third: int) -> Run:
    def multiplied(strand: Strand) -> int | None:
        regs = strand.regs
        a = regs[first]
        b = regs[second]
        c = regs[third]
        keep = strand.keep
        if type(a) is int and type(b) is int and type(c) is int and (keep is None or d not in keep):
            regs[d] = (a * b + c) & mask
            return None
        return at_length(instr, table, strand)

    return multiplied


def _shift(left: bool, bits: int, instr: Instr, table: SlotTable, d: int, first: int, second: int) -> Run:
    mask = MASK[bits]

    def shifted(strand: Strand) -> int | None:
        regs = strand.regs
        a = regs[first]
        b = regs[second]
        keep = strand.keep
        if type(a) is int and type(b) is int and b < bits and (keep is None or d not in keep):
            regs[d] = (a << b) & mask if left else a >> b
            return None
        return at_length(instr, table, strand)

    return shifted


def _compare(
    function: Callable[[int, int], bool], instr: Instr, table: SlotTable, d: int, first: int, second: int, *more: int
) -> Run | None:
    if more:  # with a predicate besides
        return None

    def compared(strand: Strand) -> int | None:
        regs = strand.regs
        a = regs[first]
        b = regs[second]
        keep = strand.keep
        if type(a) is int and type(b) is int and (keep is None or d not in keep):
            regs[d] = function(a, b)
            return None
        return at_length(instr, table, strand)

    return compared


def _move(instr: Instr, table: SlotTable, d: int, source: int) -> Run:
    def moved(strand: Strand) -> int | None:
        keep = strand.keep
        if keep is None or d not in keep:
            regs = strand.regs
            regs[d] = regs[source]
            return None
        return at_length(instr, table, strand)

    return moved
