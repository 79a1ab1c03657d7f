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


class Known(NamedTuple):
    """An instruction and the values around it.

    Attributes:
        repeats: its value was there already.
        needs: items of the warp, by number, that computed what it reads.
    """

    repeats: bool
    needs: tuple[int, ...]


class Values:
    """The values that the registers of one warp hold, by number; a number stands for what made it, however deep."""

    def __init__(self, constant: frozenset[int]) -> None:
        """``constant``: positions in the body of instructions that count the turns of loops that are unrolled."""
        self._counters = constant
        self._held: dict[int, int] = {}  # number of the value in a register
        self._made: dict[int, int] = {}  # the item that computed a value
        self._numbers: dict[tuple[object, ...], int] = {}  # of what pure instructions compute
        self._constants: set[int] = set()  # values that are known when the text is assembled
        self._next = 0

    def note(self, instr: Instr, item: int) -> Known:
        """Take an instruction, the item with this number of its warp."""
        sources = [reg.slot for operand in _read(instr) for reg in _registers(operand)]
        if instr.guard is not None:
            sources.append(instr.guard.slot)
        held = [self._of(slot) for slot in sources]
        needs = tuple({self._made[value] for value in held if value in self._made})
        written = [reg.slot for operand in _written(instr) for reg in _registers(operand)]
        if instr.form.name == "bra" and instr.guard is not None:
            repeats = self._of(instr.guard.slot) in self._constants
        elif instr.guard is None and len(written) == 1 and instr.form.name.startswith(PURE):
            repeats = self._pure(instr, item, written[0], held)
        else:
            repeats = False
            for slot in written:
                self._held[slot] = self._fresh()
                self._made[self._held[slot]] = item
        return Known(repeats, () if repeats else needs)

    def _pure(self, instr: Instr, item: int, target: int, held: list[int]) -> bool:
        """Take an instruction whose result depends on its sources alone; whether that was there already."""
        folds = instr.index in self._counters or (bool(held) and self._constants.issuperset(held))
        key = (folds, instr.form.name, instr.mods, *(self._key(operand) for operand in _read(instr)))
        number = self._numbers.get(key)
        known = number is not None
        if number is None:
            number = self._numbers[key] = self._fresh()
            if folds:
                self._constants.add(number)
            else:
                self._made[number] = item
        self._held[target] = number
        return known or folds

    def _of(self, slot: int) -> int:
        """The value in a register; a new one where nobody has written there."""
        if slot not in self._held:
            self._held[slot] = self._fresh()
        return self._held[slot]

    def _key(self, operand: Operand) -> object:
        """What stands for the value of an operand."""
        if isinstance(operand, Reg):
            return self._of(operand.slot)
        return operand if isinstance(operand, Imm) else repr(operand)

    def _fresh(self) -> int:
        """The number of a new value."""
        self._next += 1
        return self._next


def _written(instr: Instr) -> tuple[Operand, ...]:
    """Operands that an instruction writes: the first one, where the form calls it a result."""
    if instr.operands and any(instr.args.get(name) is instr.operands[0] for name in RESULTS):
        return instr.operands[:1]
    return ()


def _read(instr: Instr) -> tuple[Operand, ...]:
    """Operands that an instruction reads; one register may be read and written."""
    return instr.operands[len(_written(instr)) :]


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
