"""Calls of device functions: every call becomes a copy of the function's body (PTX manual, 7.1 and "call").

A copy has registers, local variables and labels of its own, so the rest of the simulator sees one flat body, and
control flow, divergence and masks need no stack. The caller's ``.param`` variables become per-thread local memory, and
the function's own names for its parameters mean those. ``ret`` jumps behind the copy. An indirect branch (brx.idx)
becomes a chain of comparisons and branches, for the same reason, and so does an indirect call: it may reach every
function whose address the module takes and whose parameters are as long as those of the prototype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from convc.errors import UnmodelledError
from convc.machine.execute.renaming import Renaming, aim, fitting
from convc.machine.execute.stack import STACK_FORMS, PlainInstr, Stack, form
from convc.machine.isa.operands import expect
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
    Operand,
    Prototype,
    Reg,
    Symbol,
    Targets,
    Variable,
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
    "call": "the body is inlined",
    "call.indirect": "a chain of comparisons, each with a body",
    "brx.idx": "a chain of comparisons and branches",
    **dict.fromkeys(STACK_FORMS, "moves of a pointer into a local variable"),
}
"""Forms that are gone before decoding, and what stands in their place."""


MOV = form("mov")
SETP = form("setp")
BRA = form("bra")
TRAP = form("trap")
LOAD = form("ld")
STORE = form("st")
DROPPED = form("dropped.printf")


@dataclass(frozen=True, slots=True)
class _Expansion:
    """A call, and the copy of the function that takes its place.

    Attributes:
        call: the instruction, without its guard.
        prefix: begins the names of the copy's own variables.
        renaming: what the copy calls the function's registers and variables.
        formals: the registers of those parameters and results that are registers, by name.
    """

    call: Instr
    prefix: str
    renaming: Renaming
    formals: dict[str, Reg]


def inline_calls(module: Module, kernel: Kernel) -> Kernel:
    """The kernel with the bodies of all functions it calls copied in, and brx.idx spelled as plain branches."""
    if REWRITTEN.keys().isdisjoint([instr.form.name for instr in kernel.body]):
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
        self.stack: Stack | None = None

    def run(self) -> Kernel:
        """The kernel with all copies."""
        if any(_on_stack(function) for function in (self.kernel, *self.module.functions)) and self.kernel.body:
            self.stack = Stack(self.registers)
            self.local.append(self.stack.variable)
            self._step(self.kernel.body[0], self.stack.begin())
        self._copy(self.kernel, Renaming(0, {}), 0)
        return replace(
            self.kernel,
            body=tuple(self.body),
            registers=tuple(self.registers),
            local=tuple(self.local),
            call_params=tuple(self.call_params),
            shared=tuple(self.shared.values()),
            extern_shared=self.dynamic,
        )

    def _copy(self, function: Kernel, renaming: Renaming, depth: int) -> None:
        """Append a copy of ``function``, inside ``depth`` calls."""
        starts: list[int] = []
        jumps: list[int] = []
        returns: list[int] = []
        frame = self.stack.enter() if self.stack is not None and depth and _on_stack(function) else None
        if frame is not None:
            self._step(function.body[0], frame[0])
        for instr in function.body:
            starts.append(len(self.body))
            moved = renaming.instr(instr)
            if instr.form.name == "call":
                self._call(moved, depth)
            elif instr.form.name == "call.indirect":
                self._call_through_pointer(moved, depth)
            elif instr.form.name == "brx.idx":
                jumps += self._choose(moved)
            elif instr.form.name in STACK_FORMS:
                self._move_stack(moved)
            elif instr.form.name == "ret" and depth > 0:
                returns.append(len(self.body))
                self._add(moved, BRA, (Label("return", -1),))
            else:
                if any(isinstance(o, Label) for o in instr.operands):
                    jumps.append(len(self.body))
                self._append(moved)
        starts.append(len(self.body))
        for index in jumps:
            self.body[index] = aim(self.body[index], lambda target: starts[target])
        for index in returns:
            self.body[index] = aim(self.body[index], lambda _: starts[-1])
        if frame is not None:
            self._step(function.body[0], frame[1])

    def _move_stack(self, instr: Instr) -> None:
        """Append what stands for stacksave, stackrestore or alloca."""
        assert self.stack is not None  # the function that has the instruction asked for it
        skip = self._skip_unless(instr)
        for step in self.stack.steps(instr):
            self._step(instr, step)
        self._end_skip(skip)

    def _step(self, like: Instr, step: PlainInstr) -> None:
        """Append an instruction without the guard of the one that it stands for."""
        bare = replace(like, guard=None)
        self._add(bare, form(step.form), step.operands, step.mods, guard=step.guard)

    def _choose(self, brx: Instr) -> list[int]:
        """brx.idx as a chain of comparisons; returns where its branches are. An index past the end is a trap."""
        index = brx.operands[0]
        labels = expect(brx.operands[1], Targets).labels
        hit = self._predicate("brx")
        jumps: list[int] = []
        skip = self._skip_unless(brx)
        brx = replace(brx, guard=None)
        for number, label in enumerate(labels):
            self._add(brx, SETP, (hit, index, Imm(number, False, number)), ("eq", "u32"))
            last = number == len(labels) - 1
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
        self.registers.append(Reg(slot, f"{name}#{slot}", "pred"))
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
        """Let a branch of `_skip_unless` lead to what comes next."""
        if skip is not None:
            self.body[skip] = aim(self.body[skip], lambda _: len(self.body))

    def _append(self, instr: Instr) -> None:
        """Append an instruction; the kernel must not grow beyond measure."""
        if len(self.body) >= MAX_BODY:
            raise UnmodelledError(
                f"the kernel has more than {MAX_BODY} instructions after its calls are inlined", span=instr.span
            )
        self.body.append(replace(instr, index=len(self.body)))

    def _add(
        self,
        like: Instr,
        form: Form,
        operands: tuple[Operand, ...],
        mods: tuple[str, ...] = (),
        guard: Guard | None = None,
    ) -> None:
        """Append an instruction that the text does not have, in the place and under the guard of ``like``."""
        named = _nameless(form.name, mods, tuple(map(type, operands)))
        self._append(
            replace(like, form=form, mods=mods, slots={}, operands=operands, named=named, guard=guard or like.guard)
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
                hint="the simulator links no other modules and has no system calls",
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
                elif isinstance(actual, Symbol):
                    self._add(call, STORE, (Address(actual), zero), ("param", variable.type))
        else:
            self._expand(call, function, depth)
        self._end_skip(skip)

    def _call_through_pointer(self, call: Instr, depth: int) -> None:
        """Compare the address with that of one function after the other; the one it is of is called."""
        pointer = expect(call.args["pointer"], Reg)
        miss = self._predicate("call")
        ends: list[int] = []
        skip = self._skip_unless(call)
        call = replace(call, guard=None)
        within = fitting(self.module, expect(call.args["prototype"], Prototype))
        missed = f"a call through {pointer.name}, which does not hold the address of a matching function,"
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
        """Append a copy of a function that a call reaches, with what hands over its arguments and results."""
        position = next(i for i, o in enumerate(call.operands) if isinstance(o, Func | Reg))
        results = _arguments(call.operands[:position])
        arguments = _arguments(call.operands[position + 1 :])
        if len(results) != len(function.returns) or len(arguments) != len(function.params):
            raise UnmodelledError(f"the call of {function.name!r} does not fit its declaration", span=call.span)
        into = self._declare(call, function)
        for variable, actual in zip(function.params, arguments, strict=True):
            self._pass(into, variable, actual)
        for variable, actual in zip(function.returns, results, strict=True):
            if variable.space != "reg" and isinstance(actual, Symbol):
                into.renaming.names[variable.name] = actual.name
            elif variable.space != "reg":
                self._own(into, variable)
        self._copy(function, into.renaming, depth + 1)
        for variable, actual in zip(function.returns, results, strict=True):
            self._take(into, variable, actual)

    def _declare(self, call: Instr, function: Kernel) -> _Expansion:
        """Give the registers and variables of a function their counterparts in a new copy of it."""
        self.copies += 1
        prefix = f"{function.name}#{self.copies}:"
        first_slot = len(self.registers)
        registers = [Reg(first_slot + r.slot, f"{prefix}{r.name}", r.type) for r in function.registers]
        self.registers += registers
        names: dict[str, str] = {}
        for here, variables in ((self.local, function.local), (self.call_params, function.call_params)):
            for variable in variables:
                names[variable.name] = prefix + variable.name
                here.append(replace(variable, name=prefix + variable.name))
        for variable in function.shared:
            # Shared memory is one for all copies.
            own = variable.name if variable.name in self.outside else f"{function.name}:{variable.name}"
            names[variable.name] = own
            self.shared[own] = replace(variable, name=own)
        if function.extern_shared is not None:
            self.dynamic = function.extern_shared
        # The parser declares the registers of results and parameters before all others, in this order.
        formal = [variable for variable in (*function.returns, *function.params) if variable.space == "reg"]
        formals = {
            variable.name: Reg(register.slot, register.name, register.type)
            for variable, register in zip(formal, registers, strict=False)
        }
        return _Expansion(call, prefix, Renaming(first_slot, names), formals)

    def _own(self, into: _Expansion, variable: Variable) -> Address:
        name = into.prefix + variable.name
        into.renaming.names[variable.name] = name
        self.call_params.append(replace(variable, name=name))
        return Address(Symbol(name, "param"))

    def _pass(self, into: _Expansion, variable: Variable, actual: Operand) -> None:
        call = into.call
        if variable.space == "reg":
            register = into.formals[variable.name]
            if isinstance(actual, Symbol) and actual.space == "param":
                place = Address(Symbol(actual.name, "param"))
                self._add(call, LOAD, (register, place), ("param", variable.type))
            else:
                self._add(call, MOV, (register, actual), (variable.type,))
        elif isinstance(actual, Symbol) and actual.space == "param":
            into.renaming.names[variable.name] = actual.name
        elif isinstance(actual, Reg | Imm):
            self._add(call, STORE, (self._own(into, variable), actual), ("param", variable.type))
        else:
            raise UnmodelledError(f"the simulator cannot pass {actual} to {variable.name!r}", span=call.span)

    def _take(self, into: _Expansion, variable: Variable, actual: Operand) -> None:
        call = into.call
        if variable.space == "reg" and isinstance(actual, Reg):
            self._add(call, MOV, (actual, into.formals[variable.name]), (variable.type,))
        elif isinstance(actual, Reg):
            place = Address(Symbol(into.renaming.names[variable.name], "param"))
            self._add(call, LOAD, (actual, place), ("param", variable.type))
        elif variable.space == "reg" and isinstance(actual, Symbol):
            place = Address(Symbol(actual.name, "param"))
            self._add(call, STORE, (place, into.formals[variable.name]), ("param", variable.type))


@lru_cache(maxsize=1 << 10)
def _nameless(
    form: str, mods: tuple[str, ...], kinds: tuple[type[Operand], ...]
) -> Callable[[Sequence[Operand]], dict[str, Operand | None]]:
    """The `Instr.named` of instructions that the text does not have: no names."""
    return lambda _: {}


def _on_stack(function: Kernel) -> bool:
    """Whether a function moves the stack itself."""
    return any(instr.form.name in STACK_FORMS for instr in function.body)


def _arguments(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    found = [o.items for o in operands if isinstance(o, Arguments)]
    return found[0] if found else ()
