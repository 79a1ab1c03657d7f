"""The stack of a thread: stacksave, stackrestore and alloca as ordinary instructions (PTX manual, 9.7.17).

The stack is a local variable, and its pointer a register that the text does not have. What a function takes by alloca
is given back where the function ends. More than the stack has, and a restored pointer that no stacksave can have given,
are faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from convc.machine.isa.operands import expect
from convc.ptx import Form, Guard, Imm, Instr, Operand, Reg, Symbol, Variable

STACK_BYTES = 1 << 14
"""Bytes of the stack of one thread. A GPU has as many as its host program says (cudaLimitStackSize), 1 KiB at first."""

LEAST_ALIGNMENT = 8
"""What alloca aligns to where it says nothing (PTX manual, alloca)."""

STACK_FORMS = ("stacksave", "stackrestore", "alloca")


class PlainInstr(NamedTuple):
    """An ordinary instruction: its form, operands, modifiers and guard."""

    form: str
    operands: tuple[Operand, ...]
    mods: tuple[str, ...]
    guard: Guard | None = None


class Stack:
    """The stack of the threads of one kernel.

    Attributes:
        variable: its memory.
    """

    def __init__(self, registers: list[Reg]) -> None:
        """Make a stack; ``registers`` are those of the kernel, and get more."""
        self._registers = registers
        self.variable = Variable(name="stack#", space="local", type="b8", align=16, shape=(STACK_BYTES,))
        self._pointer = self._register("u64")

    def _register(self, kind: str) -> Reg:
        slot = len(self._registers)
        self._registers.append(Reg(slot, f"stack#{slot}", kind))
        return self._registers[-1]

    def _end(self, offset: int) -> Symbol:
        return Symbol(self.variable.name, "local", offset)

    def begin(self) -> PlainInstr:
        """The stack is empty when the kernel begins."""
        return PlainInstr("mov", (self._pointer, self._end(0)), ("u64",))

    def enter(self) -> tuple[PlainInstr, PlainInstr]:
        """Keep the pointer where a function begins, and take it back where it ends."""
        kept = self._register("u64")
        return PlainInstr("mov", (kept, self._pointer), ("u64",)), PlainInstr("mov", (self._pointer, kept), ("u64",))

    def steps(self, instr: Instr) -> Iterator[PlainInstr]:
        """Spell out an instruction of `STACK_FORMS`, without its guard."""
        match instr.form.name:
            case "stacksave":
                yield self._narrow(instr, self._pointer)
            case "stackrestore":
                yield from self._restore(instr)
            case _:
                yield from self._allocate(instr)

    def _restore(self, instr: Instr) -> Iterator[PlainInstr]:
        asked = self._register("u64")
        yield self._widen(instr, asked, instr.operands[0])
        message = "stackrestore: no stacksave gives this pointer while so much of the stack is in use"
        yield from self._fault_if("lt", asked, self._end(0), message)
        yield from self._fault_if("gt", asked, self._pointer, message)
        yield PlainInstr("mov", (self._pointer, asked), ("u64",))

    def _allocate(self, instr: Instr) -> Iterator[PlainInstr]:
        """Round the pointer up, give it, and move it on."""
        align = _alignment(instr)
        size, base, room = (self._register("u64") for _ in range(3))
        message = f"alloca: the stack of a thread has {STACK_BYTES} bytes here, and these are in use"
        yield self._widen(instr, size, instr.operands[1])
        yield PlainInstr("int.add", (base, self._pointer, _number(align - 1)), ("u64",))
        yield PlainInstr("logic.and", (base, base, _number(-align)), ("b64",))
        yield from self._fault_if("gt", base, self._end(STACK_BYTES), message)
        yield PlainInstr("int.sub", (room, self._end(STACK_BYTES), base), ("u64",))
        yield from self._fault_if("gt", size, room, message)
        yield PlainInstr("int.add", (self._pointer, base, size), ("u64",))
        yield self._narrow(instr, base)

    def _fault_if(self, relation: str, a: Reg, b: Operand, message: str) -> Iterator[PlainInstr]:
        hit = self._register("pred")
        yield PlainInstr("setp", (hit, a, b), (relation, "u64"))
        yield PlainInstr("trap", (), (message,), Guard(hit.slot, hit.name))

    def _widen(self, instr: Instr, target: Reg, source: Operand) -> PlainInstr:
        """Move an operand of the instruction's type to a register of 64 bits."""
        if isinstance(source, Imm):
            return PlainInstr(
                "mov", (target, _number(source.bits & (1 << 32 if _short(instr) else 1 << 64) - 1)), ("u64",)
            )
        return (
            PlainInstr("cvt", (target, source), ("u64", "u32"))
            if _short(instr)
            else PlainInstr("mov", (target, source), ("u64",))
        )

    def _narrow(self, instr: Instr, source: Reg) -> PlainInstr:
        """Move a pointer to the instruction's result."""
        result = instr.operands[0]
        return (
            PlainInstr("cvt", (result, source), ("u32", "u64"))
            if _short(instr)
            else PlainInstr("mov", (result, source), ("u64",))
        )


def _short(instr: Instr) -> bool:
    return instr.mods[-1] == "u32"


def _number(value: int) -> Imm:
    return Imm(value, False, value & (1 << 64) - 1)


def _alignment(instr: Instr) -> int:
    if instr.args.get("align") is None:
        return LEAST_ALIGNMENT
    return max(int(expect(instr.args["align"], Imm).value), LEAST_ALIGNMENT)


def form(name: str) -> Form:
    """A form that stands in the place of others."""
    return Form(name=name, opcode=name, pattern=name, section="", ptx=(1, 0), target="sm_50")
