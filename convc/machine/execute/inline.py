"""Calls of device functions: every call becomes a copy of the function's body (PTX manual, 7.1 and "call").

A copy has registers, local variables and labels of its own, so the rest of the machine sees one flat body, and control
flow, divergence and masks need no stack. The caller's ``.param`` variables become per-thread local memory, and the
function's own names for its parameters mean those. ``ret`` jumps behind the copy. An indirect branch (brx.idx)
becomes a chain of comparisons and branches, for the same reason, and so does an indirect call: it may reach every
function whose address the module takes and whose parameters are as long as those of the prototype.
"""

from __future__ import annotations

from dataclasses import replace

from convc.errors import UnmodelledError
from convc.machine.execute.functions import fitting
from convc.machine.state.variables import function_address
from convc.ptx import (
    Address,
    Arguments,
    Form,
    Func,
    Guard,
    Imm,
    Instr,
    Kernel,
    Label,
    Module,
    NotPred,
    Pair,
    Reg,
    Register,
    Sink,
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)

MAX_DEPTH = 32
"""Calls inside one another; a recursion that goes deeper faults."""

MAX_BODY = 500_000
"""Instructions of a kernel with all its copies."""

FATAL = ("__assertfail", "abort")
"""Functions of the system that end the kernel; a call is a trap."""

PRINT = "vprintf"
"""Prints nothing here; its result, the number of characters, is 0."""


REWRITTEN = {
    "call": "the body is copied in",
    "call.indirect": "a chain of comparisons, each with a body",
    "brx.idx": "a chain of comparisons and branches",
}
"""Forms that are gone before decoding, and what stands in their place."""


def _form(name: str) -> Form:
    return Form(name=name, opcode=name, pattern=name, section="", ptx=(1, 0), target="sm_50")


MOV, SETP, BRA, TRAP, LOAD, STORE, DROPPED = (
    _form(name) for name in ("mov", "setp", "bra", "trap", "ld", "st", "dropped.printf")
)


def inline_calls(module: Module, kernel: Kernel) -> Kernel:
    """The kernel with the bodies of all functions it calls copied in, and brx.idx spelled as plain branches."""
    if all(instr.form.name not in REWRITTEN for instr in kernel.body):
        return kernel
    return _Inliner(module, kernel).run()


class _Inliner:
    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.kernel = kernel
        self.module = module
        self.functions = {function.name: function for function in module.functions}
        self.outside = {variable.name for variable in module.variables}
        self.body: list[Instr] = []
        self.registers = list(kernel.registers)
        self.local = list(kernel.local)
        self.call_params = list(kernel.call_params)
        self.shared = {variable.name: variable for variable in kernel.shared}
        self.dynamic = kernel.extern_shared
        self.copies = 0

    def run(self) -> Kernel:
        self._copy(self.kernel, {}, 0, 0)
        return replace(
            self.kernel,
            body=tuple(self.body),
            registers=tuple(self.registers),
            local=tuple(self.local),
            call_params=tuple(self.call_params),
            shared=tuple(self.shared.values()),
            extern_shared=self.dynamic,
        )

    def _copy(self, function: Kernel, names: dict[str, str], first_slot: int, depth: int) -> None:
        """Append a copy of ``function``; ``names``: its variables' names here."""
        starts: list[int] = []
        jumps: list[int] = []
        returns: list[int] = []
        for instr in function.body:
            starts.append(len(self.body))
            moved = self._move(instr, names, first_slot)
            if instr.form.name == "call":
                self._call(moved, depth)
            elif instr.form.name == "call.indirect":
                self._call_through_pointer(moved, depth)
            elif instr.form.name == "brx.idx":
                jumps += self._choose(moved)
            elif instr.form.name == "ret" and depth > 0:
                returns.append(len(self.body))
                self._add(moved, BRA, (Label("return", -1),))
            else:
                if any(isinstance(o, Label) for o in instr.operands):
                    jumps.append(len(self.body))
                self._append(moved)
        starts.append(len(self.body))
        for index in jumps:
            self.body[index] = _aim(self.body[index], lambda target: starts[target])
        for index in returns:
            self.body[index] = _aim(self.body[index], lambda _: starts[-1])

    def _choose(self, brx: Instr) -> list[int]:
        """brx.idx as a chain of comparisons; returns where its branches are. An index past the end is a trap."""
        index, targets = brx.operands
        hit = self._predicate("brx")
        jumps = []
        skip = self._skip_unless(brx)
        brx = replace(brx, guard=None)
        for number, label in enumerate(targets.labels):
            self._add(brx, SETP, (hit, index, Imm(number, False, number)), ("eq", "u32"))
            last = number == len(targets.labels) - 1
            if last:
                why = f"the index of brx.idx is past its list of {number + 1} targets"
                self._add(brx, TRAP, (), (why,), guard=Guard(hit.slot, hit.name, negate=True))
            jumps.append(len(self.body))
            self._add(brx, BRA, (label,), guard=None if last else Guard(hit.slot, hit.name))
        self._end_skip(skip)
        return jumps

    def _predicate(self, name: str) -> Reg:
        """A predicate register that the text does not have."""
        slot = len(self.registers)
        self.registers.append(Register(name=f"{name}#{slot}", type="pred", slot=slot))
        return Reg(slot, f"{name}#{slot}", "pred")

    def _skip_unless(self, instr: Instr) -> int | None:
        """For a guarded instruction: a branch around what follows where the guard fails; its place."""
        if instr.guard is None:
            return None
        place = len(self.body)
        opposite = replace(instr.guard, negate=not instr.guard.negate)
        self._add(instr, BRA, (Label("past", -1),), guard=opposite)
        return place

    def _end_skip(self, skip: int | None) -> None:
        if skip is not None:
            self.body[skip] = _aim(self.body[skip], lambda _: len(self.body))

    def _append(self, instr: Instr) -> None:
        if len(self.body) >= MAX_BODY:
            raise UnmodelledError(
                f"the kernel has more than {MAX_BODY} instructions with the bodies of its calls", span=instr.span
            )
        self.body.append(replace(instr, index=len(self.body)))

    def _add(
        self, like: Instr, form: Form, operands: tuple, mods: tuple[str, ...] = (), guard: Guard | None = None
    ) -> None:
        """Append an instruction that the text does not have, in the place and under the guard of ``like``."""
        self._append(
            replace(like, form=form, mods=mods, slots={}, operands=operands, args={}, guard=guard or like.guard)
        )

    # ---- calls ---------------------------------------------------------------------------------------------

    def _call(self, call: Instr, depth: int) -> None:
        name = next(o for o in call.operands if isinstance(o, Func)).name
        function = self.functions.get(name)
        if function is None:
            raise UnmodelledError(f"the function {name!r} is not in this module", span=call.span)
        if function.declared_only and name not in (*FATAL, PRINT):
            raise UnmodelledError(
                f"the function {name!r} is declared here and has no body",
                span=call.span,
                hint="the machine links no other modules and has no system calls",
            )
        skip = self._skip_unless(call)
        call = replace(call, guard=None)
        if name in FATAL or depth >= MAX_DEPTH:
            what = name if name in FATAL else f"more than {MAX_DEPTH} calls inside one another"
            self._add(call, TRAP, (), (what,))
        elif function.declared_only:
            self._add(call, DROPPED, ())
            for variable, actual in zip(function.returns, _arguments(call.operands[:1]), strict=True):
                zero = Imm(0, False, 0)
                if isinstance(actual, Reg):
                    self._add(call, MOV, (actual, zero), (variable.type,))
                else:
                    self._add(call, STORE, (Address(actual), zero), ("param", variable.type))
        else:
            self._expand(call, function, depth)
        self._end_skip(skip)

    def _call_through_pointer(self, call: Instr, depth: int) -> None:
        """Compare the address with that of one function after the other; the one it is of is called."""
        pointer = call.args["pointer"]
        miss = self._predicate("call")
        ends = []
        skip = self._skip_unless(call)
        call = replace(call, guard=None)
        within = fitting(self.module, call.args["prototype"])
        missed = f"a call through {pointer.name}, which holds the address of no function that fits,"
        if depth >= MAX_DEPTH:
            within = []
            missed = f"more than {MAX_DEPTH} calls inside one another"
        for function in within:
            address = function_address(self.module, function.name)
            self._add(call, SETP, (miss, pointer, Imm(address, False, address)), ("ne", "u64"))
            other = len(self.body)
            self._add(call, BRA, (Label("next", -1),), guard=Guard(miss.slot, miss.name))
            self._expand(call, function, depth)
            ends.append(len(self.body))
            self._add(call, BRA, (Label("past", -1),))
            self._end_skip(other)
        self._add(call, TRAP, (), (missed,))
        for end in ends:
            self._end_skip(end)
        self._end_skip(skip)

    def _expand(self, call: Instr, function: Kernel, depth: int) -> None:
        position = next(i for i, o in enumerate(call.operands) if isinstance(o, Func | Reg))
        results = _arguments(call.operands[:position])
        arguments = _arguments(call.operands[position + 1 :])
        if len(results) != len(function.returns) or len(arguments) != len(function.params):
            raise UnmodelledError(f"the call of {function.name!r} does not fit its declaration", span=call.span)
        self.copies += 1
        first_slot = len(self.registers)
        prefix = f"{function.name}#{self.copies}:"
        self.registers += [
            Register(name=f"{prefix}{r.name}", type=r.type, slot=first_slot + r.slot) for r in function.registers
        ]
        names: dict[str, str] = {}
        for variable in function.local:
            names[variable.name] = prefix + variable.name
            self.local.append(replace(variable, name=prefix + variable.name))
        for variable in function.call_params:
            names[variable.name] = prefix + variable.name
            self.call_params.append(replace(variable, name=prefix + variable.name))
        for variable in function.shared:
            own = variable.name if variable.name in self.outside else f"{function.name}:{variable.name}"
            names[variable.name] = own
            self.shared[own] = replace(variable, name=own)
        if function.extern_shared is not None:
            self.dynamic = function.extern_shared
        registers = iter(r for r in self.registers[first_slot:])
        formal_slots = {}
        for variable in (*function.returns, *function.params):
            if variable.space == "reg":
                register = next(registers)
                formal_slots[variable.name] = Reg(register.slot, register.name, register.type)
        for variable, actual in zip(function.params, arguments, strict=True):
            self._pass(call, variable, actual, names, prefix, formal_slots)
        for variable, actual in zip(function.returns, results, strict=True):
            if variable.space != "reg" and isinstance(actual, Symbol):
                names[variable.name] = actual.name
            elif variable.space != "reg":
                self._own(variable, names, prefix)
        self._copy(function, names, first_slot, depth + 1)
        for variable, actual in zip(function.returns, results, strict=True):
            if variable.space == "reg" and isinstance(actual, Reg):
                self._add(call, MOV, (actual, formal_slots[variable.name]), (variable.type,))
            elif isinstance(actual, Reg):
                place = Address(Symbol(names[variable.name], "param"))
                self._add(call, LOAD, (actual, place), ("param", variable.type))
            elif variable.space == "reg" and isinstance(actual, Symbol):
                place = Address(Symbol(actual.name, "param"))
                self._add(call, STORE, (place, formal_slots[variable.name]), ("param", variable.type))

    def _own(self, variable: Variable, names: dict[str, str], prefix: str) -> None:
        """Give a formal parameter a place of its own."""
        names[variable.name] = prefix + variable.name
        self.call_params.append(replace(variable, name=prefix + variable.name))

    def _pass(self, call: Instr, variable: Variable, actual, names, prefix: str, formal_slots) -> None:
        """Hand over one argument."""
        if variable.space == "reg":
            if isinstance(actual, Symbol) and actual.space == "param":
                place = Address(Symbol(actual.name, "param"))
                self._add(call, LOAD, (formal_slots[variable.name], place), ("param", variable.type))
            else:
                self._add(call, MOV, (formal_slots[variable.name], actual), (variable.type,))
        elif isinstance(actual, Symbol) and actual.space == "param":
            names[variable.name] = actual.name
        elif isinstance(actual, Reg | Imm):
            self._own(variable, names, prefix)
            place = Address(Symbol(names[variable.name], "param"))
            self._add(call, STORE, (place, actual), ("param", variable.type))
        else:
            raise UnmodelledError(f"the machine cannot pass {actual} to {variable.name!r}", span=call.span)

    # ---- operands ------------------------------------------------------------------------------------------

    def _move(self, instr: Instr, names: dict[str, str], first_slot: int) -> Instr:
        """The instruction with this copy's registers and variables."""
        if not first_slot and not names:
            return instr
        moved = {id(o): _renamed(o, names, first_slot) for o in instr.operands}
        args = {
            key: None if o is None else moved.get(id(o)) or _renamed(o, names, first_slot)
            for key, o in instr.args.items()
        }
        guard = instr.guard
        if guard is not None:
            guard = replace(guard, slot=guard.slot + first_slot)
        return replace(instr, operands=tuple(moved[id(o)] for o in instr.operands), args=args, guard=guard)


def _arguments(operands: tuple) -> tuple:
    found = [o.items for o in operands if isinstance(o, Arguments)]
    return found[0] if found else ()


def _aim(instr: Instr, where) -> Instr:
    def aimed(operand):
        return Label(operand.name, where(operand.target)) if isinstance(operand, Label) else operand

    return replace(
        instr, operands=tuple(aimed(o) for o in instr.operands), args={k: aimed(o) for k, o in instr.args.items()}
    )


def _renamed(operand, names: dict[str, str], first_slot: int):
    """An operand with registers shifted by ``first_slot`` and variables renamed."""

    def again(inner):
        return _renamed(inner, names, first_slot)

    match operand:
        case Reg(slot=slot, name=name, type=kind):
            return Reg(slot + first_slot, name, kind)
        case Symbol(name=name, space=space, offset=offset):
            return Symbol(names.get(name, name), space, offset)
        case Address(base=base, offset=offset):
            return Address(again(base), offset)
        case Vector(items=items):
            return Vector(tuple(again(item) for item in items))
        case Arguments(items=items):
            return Arguments(tuple(again(item) for item in items))
        case TensorAddress(map=base, coords=coords):
            return TensorAddress(again(base), again(coords))
        case Pair(first=first, second=second):
            return Pair(again(first), again(second))
        case NotPred(reg=reg):
            return NotPred(again(reg))
        case Sink() | _:
            return operand
