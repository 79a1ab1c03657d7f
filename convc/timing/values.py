"""The values in the registers of a warp while its trace is taken: who computed it, and whether it was there already.

ptxas keeps a value that is computed again, or moves it out of its loop. So values are numbered over what a warp
executes: two pure instructions with the same form and the same values of their sources have the same value, and only
the first of them costs something. In an innermost loop of few turns, which ptxas unrolls, the loop's counter is a
constant, and what follows from it costs nothing; counters of other loops differ from turn to turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from convc.ptx import Address, Imm, Instr, NotPred, Operand, Pair, Reg, TensorAddress, Vector

PURE = ("int.", "logic.", "cvt", "selp", "setp", "shf", "mov", "lop3", "prmt", "bfe", "bfi")
"""Forms, by how their names begin, whose result depends on their sources alone."""

RESULTS = ("d", "p", "r")
"""Names of operands that an instruction writes."""

CONSTANT = "constant"
"""Begins the value of what is known when the text is assembled."""


class Known(NamedTuple):
    """An instruction and the values around it.

    Attributes:
        repeats: its value was there already.
        needs: items of the warp, by number, that computed what it reads.
    """

    repeats: bool
    needs: tuple[int, ...]


class Values:
    """The values that the registers of one warp hold."""

    def __init__(self, constant: frozenset[int]) -> None:
        """``constant``: positions in the body of instructions that count the turns of loops that are unrolled."""
        self._constant = constant
        self._held: dict[int, object] = {}
        self._made: dict[object, int] = {}  # the item that computed a value
        self._known: set[object] = set()

    def note(self, instr: Instr, item: int) -> Known:
        """Take an instruction, the item with this number of its warp."""
        sources = [reg.slot for operand in _read(instr) for reg in _registers(operand)]
        if instr.guard is not None:
            sources.append(instr.guard.slot)
        held = [self._held.get(slot) for slot in sources]
        needs = tuple({self._made[value] for value in held if value in self._made})
        written = [reg.slot for operand in _written(instr) for reg in _registers(operand)]
        pure = instr.guard is None and len(written) == 1 and instr.form.name.startswith(PURE)
        value: object = (item,)
        if pure:
            value = (instr.form.name, instr.mods, *(self._key(operand) for operand in _read(instr)))
            counts = instr.index in self._constant
            if counts or (held and all(_is_constant(one) for one in held)):
                value = (CONSTANT, value)
        repeats = pure and (value in self._known or _is_constant(value))
        if instr.form.name == "bra" and instr.guard is not None:
            repeats = _is_constant(self._held.get(instr.guard.slot))
        for slot in written:
            self._held[slot] = value
        if written and not repeats:
            self._known.add(value)
            self._made[value] = item
        return Known(repeats, () if repeats else needs)

    def _key(self, operand: Operand) -> object:
        """What stands for the value of an operand."""
        if isinstance(operand, Reg):
            return self._held.setdefault(operand.slot, ("before", operand.slot))
        return operand if isinstance(operand, Imm) else repr(operand)


def _is_constant(value: object) -> bool:
    """Whether a value is known when the text is assembled."""
    return isinstance(value, tuple) and bool(value) and value[0] == CONSTANT


def _written(instr: Instr) -> Iterator[Operand]:
    """Operands that an instruction writes."""
    for name in RESULTS:
        operand = instr.args.get(name)
        if operand is not None and instr.operands and operand is instr.operands[0]:
            yield operand


def _read(instr: Instr) -> Iterator[Operand]:
    """Operands that an instruction reads."""
    written = list(_written(instr))
    for operand in instr.operands:
        if not any(operand is one for one in written):
            yield operand


def _registers(operand: Operand) -> Iterator[Reg]:
    """The registers in an operand."""
    match operand:
        case Reg():
            yield operand
        case Address(base=Reg() as base):
            yield base
        case Vector(items=items):
            for item in items:
                yield from _registers(item)
        case TensorAddress(map=place, coords=coords):
            if isinstance(place, Reg):
                yield place
            yield from _registers(coords)
        case Pair(first=first, second=second):
            yield from _registers(first)
            yield from _registers(second)
        case NotPred(reg=reg):
            yield reg
        case _:
            return
