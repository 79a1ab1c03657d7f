"""Find which registers the instructions of a kernel read and write, and where they may go."""

from __future__ import annotations

from typing import Any, NamedTuple

from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import NO_RESULT, Traits
from convc.machine.state.flow import FlowFacts
from convc.machine.state.slots import SlotTable
from convc.ptx import (
    Address,
    Imm,
    Instr,
    Label,
    NotPred,
    Operand,
    Pair,
    Reg,
    Sink,
    Special,
    Symbol,
    TensorAddress,
    Vector,
)

JUMPS = forms_with(Traits.JUMP)
CARRY_IN = forms_with(Traits.CARRY_IN)
UNUSUAL = forms_with(Traits.JUMP | Traits.CARRY)

_RESULTS = (Reg, Vector, Pair, Sink)
"""What a result may be."""

_NO_REGISTERS = (Imm, Special, Symbol, Label, Sink)
"""Operands that name none."""


class _Places(NamedTuple):
    """Where the registers of all instructions stand that have one form, its modifiers and kinds of operands.

    Attributes:
        result: whether the first operand is written. lone: whether it is one register.
        read: operands that are registers. more: others that may name some.
        unusual: whether the form has a target, or reads or writes the carry, which no operand names.
    """

    result: bool
    lone: bool
    read: tuple[int, ...]
    more: tuple[int, ...]
    unusual: bool


_places: dict[object, _Places] = {}
"""By `Instr.named`."""

MAX_PLACES = 1 << 12
"""Entries after which the memory of them is emptied."""


def facts_of(body: tuple[Instr, ...], table: SlotTable) -> list[FlowFacts]:
    """List what control flow needs to know of each instruction of a kernel."""
    facts: list[FlowFacts] = []
    known = _places.get
    for instr in body:
        result, lone, read, more, unusual = known(instr.named) or _places_of(instr)
        operands: tuple[Any, ...] = instr.operands  # of the kinds that their places have
        reads = 0
        writes = 0
        if result:
            first = operands[0]
            writes = 1 << first.slot if lone else _bits_of(first)
        for at in read:
            reads |= 1 << operands[at].slot
        for at in more:
            reads |= _bits_of(operands[at])
        guard = instr.guard
        under = None
        if guard is not None:
            under = guard.slot, guard.negate
            reads |= 1 << guard.slot
        target = None
        if unusual:
            target, reads, writes = _unusual(instr, reads, writes, table)
        facts.append(FlowFacts(target, target is None or guard is not None, reads, writes, under))
    return facts


def _places_of(instr: Instr) -> _Places:
    kinds = list(map(type, instr.operands))
    name = instr.form.name
    result = name not in NO_RESULT and bool(kinds) and kinds[0] in _RESULTS
    sources = list(enumerate(kinds))[1 if result else 0 :]
    places = _Places(
        result,
        result and kinds[0] is Reg,
        tuple([at for at, kind in sources if kind is Reg]),
        tuple([at for at, kind in sources if kind is not Reg and kind not in _NO_REGISTERS]),
        name in UNUSUAL,
    )
    if len(_places) >= MAX_PLACES:
        _places.clear()
    _places[instr.named] = places
    return places


def _unusual(instr: Instr, reads: int, writes: int, table: SlotTable) -> tuple[int | None, int, int]:
    """Where an instruction jumps, and the registers that it reads and writes, besides those that operands name."""
    name = instr.form.name
    if name in JUMPS:
        target = next((o.target for o in instr.operands if isinstance(o, Label)), len(table.kernel.body))
        return target, reads, writes
    carry = 1 << table.carry()
    if name in CARRY_IN:
        reads |= carry
    return None, reads, writes | carry if "cc" in instr.mods else writes


def _bits_of(operand: Operand) -> int:
    if type(operand) is Address:
        return 1 << operand.base.slot if type(operand.base) is Reg else 0
    bits = 0
    for register in operand.items if type(operand) is Vector else registers_of(operand):
        if type(register) is Reg:
            bits |= 1 << register.slot
    return bits


def registers_of(operand: Operand) -> list[Reg]:
    """All registers that an operand names."""
    if isinstance(operand, Reg):  # nearly always
        return [operand]
    match operand:
        case Vector(items=items):
            return [r for item in items for r in registers_of(item)]
        case Pair(first=first, second=second):
            return registers_of(first) + registers_of(second)
        case Address(base=base):
            return registers_of(base)
        case TensorAddress(map=base, coords=coords):
            return registers_of(base) + registers_of(coords)
        case NotPred(reg=reg):
            return [reg]
        case _:
            return []
