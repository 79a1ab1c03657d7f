"""Operands of a copied function body: registers, variables and branch targets under their names in the copy.

Which functions an indirect call may reach.

They are the functions with a body whose address the module takes somewhere (in a variable's initial value, as virtual
methods are, or by mov) and whose parameters and results are as long as those of the call's prototype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from convc.machine.state.variables import Initial
from convc.ptx import (
    Address,
    Arguments,
    Func,
    Imm,
    Instr,
    Kernel,
    Label,
    Module,
    NotPred,
    Operand,
    Pair,
    Prototype,
    Reg,
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)


@dataclass(frozen=True, slots=True)
class Renaming:
    """The names that a copy gives to the registers and variables of a function.

    Attributes:
        first_slot: slot of the function's register 0.
        names: the new names of variables; those that are not in it keep theirs.
    """

    first_slot: int
    names: dict[str, str]

    def instr(self, instr: Instr) -> Instr:
        """The instruction as it is in the copy."""
        if not self.first_slot and not self.names:
            return instr
        guard = instr.guard
        if guard is not None:
            guard = replace(guard, slot=guard.slot + self.first_slot)
        return replace(instr, operands=tuple(map(self.operand, instr.operands)), guard=guard)

    def operand(self, operand: Operand) -> Operand:
        """An operand as it is in the copy."""
        match operand:
            case Reg() | Symbol() | Imm():
                return self._base(operand)
            case Address(base=base, offset=offset):
                return Address(self._base(base), offset)
            case Vector():
                return self._vector(operand)
            case Arguments(items=items):
                return Arguments(tuple(self.operand(item) for item in items))
            case TensorAddress(map=base, coords=coords):
                place = self._symbol(base) if isinstance(base, Symbol) else self._reg(base)
                return TensorAddress(place, self._vector(coords))
            case Pair(first=first, second=second):
                return Pair(self.operand(first), self.operand(second))
            case NotPred(reg=reg):
                return NotPred(self._reg(reg))
            case _:
                return operand

    def _base(self, operand: Reg | Symbol | Imm) -> Reg | Symbol | Imm:
        match operand:
            case Reg():
                return self._reg(operand)
            case Symbol():
                return self._symbol(operand)
            case Imm():
                return operand

    def _reg(self, reg: Reg) -> Reg:
        return Reg(reg.slot + self.first_slot, reg.name, reg.type)

    def _symbol(self, symbol: Symbol) -> Symbol:
        return Symbol(self.names.get(symbol.name, symbol.name), symbol.space, symbol.offset)

    def _vector(self, vector: Vector) -> Vector:
        return Vector(tuple(self.operand(item) for item in vector.items))


def aim(instr: Instr, where: Callable[[int], int]) -> Instr:
    """A branch with every target ``t`` moved to ``where(t)``."""

    def aimed(operand: Operand) -> Operand:
        return Label(operand.name, where(operand.target)) if isinstance(operand, Label) else operand

    return replace(instr, operands=tuple(map(aimed, instr.operands)))


def fitting(module: Module, prototype: Prototype) -> list[Kernel]:
    """The functions that a call with this prototype may reach."""
    taken = {name for variable in module.variables for name in _named(variable.init)}
    for kernel in (*module.kernels, *module.functions):
        taken |= {o.name for i in kernel.body if i.form.name == "mov" for o in i.operands if isinstance(o, Func)}
    return [
        function
        for function in module.functions
        if function.name in taken
        and not function.declared_only
        and _lengths(function.returns) == _lengths(prototype.returns)
        and _lengths(function.params) == _lengths(prototype.params)
    ]


def _named(value: Initial | None) -> list[str]:
    if isinstance(value, tuple):
        return [name for item in value for name in _named(item)]
    return [value.name] if isinstance(value, Func) else []


def _lengths(variables: tuple[Variable, ...]) -> list[int]:
    return [variable.size_bytes for variable in variables]
