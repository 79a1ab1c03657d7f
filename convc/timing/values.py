"""The values in the registers of a warp while its trace is taken: who computed it, and whether it was there already.

ptxas keeps a value that is computed again, or moves it out of its loop. So values are numbered over what a warp
executes: two pure instructions with the same form and the same values of their sources have the same value, and only
the first of them costs something. In an innermost loop of few turns, which ptxas unrolls, the loop's counter is a
constant, and what follows from it costs nothing; counters of other loops differ from turn to turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Traits
from convc.ptx import Address, Imm, Instr, NotPred, Operand, Pair, Reg, TensorAddress, Vector

PURE = forms_with(Traits.PURE) - forms_with(Traits.CARRY)
"""Forms whose result depends on their operands alone: the carry is none."""

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


class Reading(NamedTuple):
    """An instruction as values flow through it, which is the same each time that it is executed.

    Attributes:
        sources: slots of the registers that it reads, the guard's behind them. written: of those that it writes.
        pure: its result depends on its sources alone.
        key: form and modifiers.
        operands: that it reads: the slot of a register, or what stands for the value of another operand.
        branch: slot of the guard of a branch; None for everything else.
    """

    sources: tuple[int, ...]
    written: tuple[int, ...]
    pure: bool
    key: tuple[object, ...]
    operands: tuple[int | Imm | str, ...]
    branch: int | None


def reading(instr: Instr) -> Reading:
    """Take an instruction apart."""
    read = _read(instr)
    sources = [reg.slot for operand in read for reg in _registers(operand)]
    if instr.guard is not None:
        sources.append(instr.guard.slot)
    written = tuple(reg.slot for operand in _written(instr) for reg in _registers(operand))
    name = instr.form.name
    return Reading(
        sources=tuple(sources),
        written=written,
        pure=instr.guard is None and len(written) == 1 and name in PURE,
        key=(name, instr.mods),
        operands=tuple(_operand(operand) for operand in read),
        branch=instr.guard.slot if name == "bra" and instr.guard is not None else None,
    )


def _operand(operand: Operand) -> int | Imm | str:
    """The slot of a register, or what stands for the value of another operand."""
    if isinstance(operand, Reg):
        return operand.slot
    return operand if isinstance(operand, Imm) else repr(operand)


class Values:
    """The values that the registers of one warp hold, by number; a number stands for what made it, however deep."""

    def __init__(self, constant: frozenset[int], readings: dict[int, Reading] | None = None) -> None:
        """``constant``: positions in the body of instructions that count the turns of loops that are unrolled.

        ``readings``: instructions that were taken apart, by position; all warps of a kernel share them.
        """
        self._counters = constant
        self._readings = {} if readings is None else readings
        self._held: dict[int, int] = {}  # number of the value in a register
        self._made: dict[int, int] = {}  # the item that computed a value
        self._numbers: dict[tuple[object, ...], int] = {}  # of what pure instructions compute
        self._constants: set[int] = set()  # values that are known when the text is assembled
        self._next = 0

    def note(self, instr: Instr, item: int) -> Known:
        """Take an instruction, the item with this number of its warp."""
        known = self._readings.get(instr.index)
        if known is None:
            known = self._readings[instr.index] = reading(instr)
        values = self._held
        held = [values[slot] if slot in values else self._of(slot) for slot in known.sources]
        made = self._made
        needs = tuple({made[value] for value in held if value in made}) if held else ()
        if known.branch is not None:
            repeats = self._of(known.branch) in self._constants
        elif known.pure:
            repeats = self._pure(instr.index, known, item, held)
        else:
            repeats = False
            for slot in known.written:
                self._held[slot] = self._fresh()
                made[self._held[slot]] = item
        return Known(repeats, () if repeats else needs)

    def _pure(self, index: int, known: Reading, item: int, held: list[int]) -> bool:
        """Take an instruction whose result depends on its sources alone; whether that was there already."""
        folds = index in self._counters or (bool(held) and self._constants.issuperset(held))
        operands = [self._of(what) if isinstance(what, int) else what for what in known.operands]
        key = (folds, *known.key, *operands)
        number = self._numbers.get(key)
        there = number is not None
        if number is None:
            number = self._numbers[key] = self._fresh()
            if folds:
                self._constants.add(number)
            else:
                self._made[number] = item
        self._held[known.written[0]] = number
        return there or folds

    def _of(self, slot: int) -> int:
        """The value in a register; a new one where it was never written."""
        number = self._held.get(slot)
        if number is None:
            number = self._held[slot] = self._fresh()
        return number

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
