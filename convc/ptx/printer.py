"""From records back to PTX text that means the same.

`format_module` hoists every declaration to the top of its kernel and gives every register and label a name of its
own, so nested scopes disappear; marks are written where the step changes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator

from convc.ptx.syntax import (
    TYPE_BITS,
    Address,
    Arguments,
    Func,
    Imm,
    Initial,
    Instr,
    Kernel,
    Label,
    Module,
    NotPred,
    Operand,
    Pair,
    Prototype,
    Reg,
    Sink,
    Special,
    Symbol,
    Targets,
    TensorAddress,
    Variable,
    Vector,
)


class _Names:
    """What registers (by slot), labels (by target), branch target lists and prototypes are called in the text."""

    def __init__(self) -> None:
        self.regs: dict[int, str] = {}
        self.labels: dict[int, str] = {}
        self.targets: dict[Targets, str] = {}
        self.prototypes: dict[Prototype, str] = {}

    def of(self, operand: Reg | Label | Targets | Prototype) -> str:
        """The name of an operand: the one given here, or the one that was read."""
        match operand:
            case Reg(slot, name):
                return self.regs.get(slot, name)
            case Label(name, target):
                return self.labels.get(target, name)
            case Targets(name):
                return self.targets.get(operand, name)
            case Prototype(name):
                return self.prototypes.get(operand, name)


_AS_READ = _Names()


def format_operand(operand: Operand, names: _Names = _AS_READ) -> str:
    """One operand as PTX text."""
    match operand:
        case Reg() | Label() | Targets() | Prototype():
            return names.of(operand)
        case Imm():
            return _number(operand)
        case Symbol(name, _, offset):
            return f"{name}+{offset}" if offset else name
        case Address(base, offset):
            return f"[{format_operand(base, names)}{f'+{offset}' if offset else ''}]"
        case TensorAddress(base, coords):
            return f"[{format_operand(base, names)}, {format_operand(coords, names)}]"
        case Vector(items):
            return f"{{{_listed(items, names)}}}"
        case Arguments(items):
            return f"({_listed(items, names)})"
        case Pair(first, second):
            return f"{format_operand(first, names)}|{format_operand(second, names)}"
        case NotPred(reg):
            return f"!{format_operand(reg, names)}"
        case Special(name) | Func(name):
            return f"%{name}" if isinstance(operand, Special) else name
        case Sink():
            return "_"


def _listed(operands: Iterable[Operand], names: _Names) -> str:
    return ", ".join(format_operand(each, names) for each in operands)


def _number(number: Imm) -> str:
    if not number.is_float:
        return str(number.value)
    return f"0f{number.bits:08X}" if number.width == 32 else f"0d{number.bits:016X}"


def format_instr(instr: Instr, names: _Names = _AS_READ) -> str:
    """One instruction as PTX text, with its guard and semicolon: ``@!%p bra L;``."""
    guard = ""
    if instr.guard is not None:
        name = names.regs.get(instr.guard.slot, instr.guard.name)
        guard = f"@{'!' if instr.guard.negate else ''}{name} "
    head = ".".join((instr.form.opcode, *instr.mods))
    operands = f" {_listed(instr.operands, names)}" if instr.operands else ""
    return f"{guard}{head}{operands};"


def format_module(module: Module) -> str:
    """A whole module as PTX text; reading it again gives equal bodies."""
    major, minor = module.version
    lines = [f".version {major}.{minor}", f".target {module.target}", f".address_size {module.address_size}", ""]
    lines += [f"{_linkage(variable.linkage)}{_variable(variable)};" for variable in module.variables]
    functions = (*module.functions, *module.kernels)
    outside = {each.name for each in (*module.variables, *functions)}
    for kernel in functions:
        lines += _kernel(kernel, outside)
    return "\n".join(lines) + "\n"


def _kernel(kernel: Kernel, outside: set[str]) -> list[str]:
    """The lines of a kernel or a function; ``outside``: names that its own must not have."""
    head = _head(kernel)
    if kernel.declared_only:
        return [f"{head};"]
    in_head = (*kernel.returns, *kernel.params)
    own = [each for each in (*kernel.shared, *kernel.local, *kernel.call_params) if each.name not in outside]
    taken = outside | {each.name for each in in_head} | {each.name for each in own}
    names = _Names()
    declared_in_head = sum(each.space == "reg" for each in in_head)
    for register in kernel.registers[:declared_in_head]:
        names.regs[register.slot] = register.name
    for register in kernel.registers[declared_in_head:]:
        names.regs[register.slot] = _unique(register.name, register.slot, taken)
    for instr in kernel.body:
        for operand in instr.operands:
            _name_operand(operand, names, taken)
    return [
        head,
        "{",
        *(f"  .reg .{each.type} {names.regs[each.slot]};" for each in kernel.registers[declared_in_head:]),
        *(f"  {_variable(each)};" for each in own),
        *(f"{name}: .branchtargets {_listed(each.labels, names)};" for each, name in names.targets.items()),
        *(f"{name}: {_prototype(each)};" for each, name in names.prototypes.items()),
        *_body(kernel, names),
        "}",
    ]


def _head(kernel: Kernel) -> str:
    """Linkage, name, parameters and directives: ``.visible .entry name(.param .u64 a) .reqntid 128, 1, 1``."""
    returns = f"({', '.join(map(_variable, kernel.returns))}) " if kernel.returns else ""
    params = ", ".join(map(_variable, kernel.params))
    head = f"{_linkage(kernel.linkage)}.{'entry' if kernel.entry else 'func'} {returns}{kernel.name}({params})"
    for name, values in kernel.directives.items():
        head += f" .{name} {', '.join(map(str, values))}".rstrip()
    return head


def _name_operand(operand: Operand, names: _Names, taken: set[str]) -> None:
    """Name the labels, target lists and prototypes that are met for the first time."""
    match operand:
        case Prototype(name) if operand not in names.prototypes:
            names.prototypes[operand] = _unique(name, len(names.prototypes), taken)
        case Targets(name, labels):
            if operand not in names.targets:
                names.targets[operand] = _unique(name, len(names.targets), taken)
            for label in labels:
                _name_operand(label, names, taken)
        case Label(name, target) if target not in names.labels:
            names.labels[target] = _unique(name, target, taken)
        case _:
            pass


def _body(kernel: Kernel, names: _Names) -> Iterator[str]:
    """Instructions, with labels, and with marks where the step changes."""
    mark: tuple[str | None, str | None] = (None, None)
    for instr in kernel.body:
        if instr.index in names.labels:
            yield f"{names.labels[instr.index]}:"
        if (instr.step, instr.role) != mark:
            mark = (instr.step, instr.role)
            yield _mark(*mark)
        yield f"  {format_instr(instr, names)}"
    if len(kernel.body) in names.labels:
        yield f"{names.labels[len(kernel.body)]}:"
    if mark != (None, None):
        yield _mark(None, None)


def _prototype(prototype: Prototype) -> str:
    returns, params = (f"({', '.join(map(_variable, each))})" for each in (prototype.returns, prototype.params))
    return f".callprototype {returns if prototype.returns else ''} _ {params}".replace("  ", " ")


def _mark(step: str | None, role: str | None) -> str:
    if step is None:
        return "//@ end"
    return f"//@ step={step}" + (f" role={role}" if role else "")


def _unique(name: str, number: int, taken: set[str]) -> str:
    """``name``, or a longer one that is not taken; it is taken afterwards."""
    unique = name
    while unique in taken:
        unique = f"{unique}_{number}"
    taken.add(unique)
    return unique


def _linkage(linkage: str | None) -> str:
    return f".{linkage} " if linkage else ""


def _variable(variable: Variable) -> str:
    vector = f".v{variable.vector} " if variable.vector > 1 else ""
    pointer = ""
    if variable.points_to is not None:
        pointer = " .ptr" if variable.points_to == "generic" else f" .ptr .{variable.points_to}"
    shape = "".join(f"[{extent or ''}]" for extent in variable.shape)
    natural = variable.vector * TYPE_BITS[variable.type] // 8
    align = "" if variable.align == natural or variable.space == "reg" else f".align {variable.align} "
    managed = ".attribute(.managed) " if variable.managed else ""
    text = f".{variable.space} {managed}{align}{vector}.{variable.type}{pointer} {variable.name}{shape}"
    return text if variable.init is None else f"{text} = {_init(variable.init, variable.type)}"


def _init(value: Initial, kind: str) -> str:
    """An initial value of a variable whose elements have a type; infinities and NaN as their bits."""
    match value:
        case tuple():
            return f"{{{', '.join(_init(each, kind) for each in value)}}}"
        case Symbol() | Func():
            return format_operand(value)
        case float() if not math.isfinite(value):
            return f"0f{struct.pack('>f', value).hex()}" if kind == "f32" else f"0d{struct.pack('>d', value).hex()}"
        case _:
            return repr(value)
