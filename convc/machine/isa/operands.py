"""Operands of an instruction, as the kinds that its form promises, and functions that read them when it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import numpy as np

from convc.errors import UnmodelledError
from convc.machine.base.values import DTYPE, MASK, Function, OneToFour, UnaryArray, Value
from convc.machine.isa.registry import Run
from convc.machine.memory.global_memory import SHARED_WINDOW, WINDOW_SHIFT
from convc.machine.state.slots import Applied, SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Address, Imm, Instr, NotPred, Operand, Reg

Kind = TypeVar("Kind")

Read = Callable[[list[Value]], Value]
"""From the values of a strand's slots to that of an operand."""


def expect(operand: Operand | None, kind: type[Kind]) -> Kind:
    """An operand as the kind that it must be; `UnmodelledError` where it is another."""
    if not isinstance(operand, kind):
        raise UnmodelledError(f"operand {operand} should be a {kind.__name__}")
    return operand


def number(operand: Operand | None) -> int:
    """An immediate integer."""
    return int(expect(operand, Imm).value)


def type_of(instr: Instr) -> str:
    """The last type modifier, which is the instruction type (``add.s32`` -> ``s32``)."""
    return instr.mods[-1]


def modifier(instr: Instr, name: str) -> str:
    """The modifier that an instruction has of a set that must not be left out (see `Instr.slots`)."""
    mod = instr.slots[name]
    if mod is None:
        raise UnmodelledError(f"{instr.form.name} needs a modifier of the set {name}")
    return mod


def negated(value: Value) -> Value:
    """The opposite of a predicate."""
    return ~value if isinstance(value, np.ndarray) else not value


def reader(operand: Operand | None, table: SlotTable, bits: int = 1) -> Read:
    """Reads a source operand, ``!p`` included."""
    if isinstance(operand, NotPred):
        slot = table.slot(operand.reg)
        return lambda regs: negated(regs[slot])
    slot = table.slot(operand, bits)
    return lambda regs: regs[slot]


def address_of(operand: Operand | None, table: SlotTable) -> Read:
    """Reads the address ``[base+offset]``."""
    address = expect(operand, Address)
    slot = table.slot(address.base)
    offset = address.offset
    if not isinstance(address.base, Reg):
        return lambda regs: regs[slot] + offset
    if offset == 0:
        return lambda regs: regs[slot]
    bits = table.widths[slot]
    mask = MASK[bits]
    step = _step(offset & mask, bits)

    def run(regs: list[Value]) -> Value:
        base = regs[slot]
        return base + step if isinstance(base, np.ndarray) else (base + offset) & mask

    return run


@lru_cache(maxsize=1 << 10)
def _step(offset: int, bits: int) -> np.generic:
    return DTYPE[bits].type(offset)


def shared_address_of(operand: Operand | None, table: SlotTable) -> Read:
    """Reads an address for instructions that work on shared memory only: a generic address loses its window."""
    address = address_of(operand, table)
    base = expect(operand, Address).base
    if isinstance(base, Reg) and table.widths[base.slot] != 64:
        return address
    top = SHARED_WINDOW >> WINDOW_SHIFT
    low = (1 << WINDOW_SHIFT) - 1

    def run(regs: list[Value]) -> Value:
        value = address(regs)
        if isinstance(value, np.ndarray):
            if value.dtype.itemsize != 8:
                return value
            return np.where(value >> np.uint64(WINDOW_SHIFT) == top, value & np.uint64(low), value)
        return value & low if value >> WINDOW_SHIFT == top else value

    return run


def apply(
    instr: Instr,
    table: SlotTable,
    function: OneToFour,
    *widths: int,
    pairs: UnaryArray | None = None,
) -> Run:
    """``d = f(a, …)`` with one source operand per given width in bits; ``pairs`` as in `Applied`."""
    call: Function = function
    target, *operands = instr.operands
    d = target.slot if type(target) is Reg else table.target(target)
    if NotPred in map(type, operands):
        flips = [type(operand) is NotPred for operand in operands]
        operands = [operand.reg if isinstance(operand, NotPred) else operand for operand in operands]
        call = _with_flipped(call, flips)
    sources = list(map(table.slot, operands, widths))
    if d is None:
        return lambda strand: None
    # One and two operands, nearly all of what a kernel executes, go without a list.
    match sources:
        case [a]:

            def run(strand: Strand) -> None:
                value = call(strand.regs[a])
                if strand.keep is None:
                    strand.regs[d] = value
                else:
                    strand.write(d, value)

        case [a, b]:

            def run(strand: Strand) -> None:
                regs = strand.regs
                value = call(regs[a], regs[b])
                if strand.keep is None:
                    regs[d] = value
                else:
                    strand.write(d, value)

        case _:

            def run(strand: Strand) -> None:
                regs = strand.regs
                value = call(*[regs[s] for s in sources])
                if strand.keep is None:
                    regs[d] = value
                else:
                    strand.write(d, value)

    if instr.form.name.startswith(("float.", "cvt")):
        table.applied[instr.index] = Applied(run, call, d, sources, pairs)
    return run


def _with_flipped(function: Function, flips: list[bool]) -> Function:
    def run(*values: Value) -> Value:
        return function(*[negated(v) if flip else v for v, flip in zip(values, flips, strict=True)])

    return run
