"""Decoding: a parsed kernel becomes a list of closures, once.

Every operand becomes a slot of the strand's register list: registers first, then constants and special registers, so
that executing an instruction is a few list look-ups and one numpy (or integer) operation. Forms without semantics are
collected and refused together, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from convc.errors import LaunchError, UnmodelledError
from convc.machine.base.cluster_ranks import own_address
from convc.machine.base.values import DTYPE, FLOAT, MASK, POISON, Value, width
from convc.machine.execute import functions
from convc.machine.execute.flow import Flow, FlowFacts
from convc.machine.execute.inline import inline_calls
from convc.machine.execute.module_data import align_up, image, layout
from convc.machine.isa import all as _all_forms  # noqa: F401 - registers the builders
from convc.machine.isa.registry import NO_RESULT, OPS
from convc.machine.isa.sync import control
from convc.machine.memory.global_memory import LOCAL_PARAMETERS, MODULE_FIRST, SHIFT
from convc.machine.state.cohort import Cohort
from convc.machine.state.strand import Strand
from convc.ptx import (
    Address,
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
    Sink,
    Special,
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)
from convc.ptx.special import SPECIAL_TYPES

SHARED_BASE = 1024
"""First shared address a kernel may use: the lowest KiB belongs to the system on sm_90 and later."""

UNMODELLED_SPECIALS = frozenset(
    name
    for name in SPECIAL_TYPES
    if name.startswith(("pm", "envreg", "reserved_smem", "current_graph")) or name.endswith(("_hi", "_lo"))
)
"""Special registers without a value here (the clocks' halves have one in mov only)."""

TAKES_CARRY = frozenset(("int.addc", "int.subc", "int.madc"))
CARRY_FORMS = TAKES_CARRY | {"int.add.cc", "int.sub.cc", "int.mad.cc"}

JUMPS = ("bra", "ret", "exit")
WAITING = frozenset((
    "bar.sync", "bar.arrive", "bar.red", "barrier.cluster.arrive", "barrier.cluster.wait", "mbarrier.try_wait",
    "mbarrier.try_wait.parity", "tcgen05.alloc",
))  # fmt: skip
"""Forms that count whole warps or may block, so that a warp whose guard is false must not take part."""

Run = Callable[[Strand], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """Place of a kernel parameter in parameter space, in bytes."""

    name: str
    offset: int
    size: int


class Program:
    """A decoded kernel."""

    def __init__(self, module: Module, kernel: Kernel) -> None:
        kernel = inline_calls(module, kernel)
        self.module = module
        self.kernel = kernel
        self.widths = [width(r.type) for r in kernel.registers]
        self._initial: list[Value] = [POISON[w] for w in self.widths]
        self._specials: list[tuple[int, str]] = []
        self._shared: list[tuple[int, int]] = []
        self._slots: dict[tuple, int] = {}
        self.parameters = _layout_parameters(kernel.params)
        self.static_bytes, self.shared_symbols = _layout_shared(kernel)
        self.local_bytes, self._local = layout((*kernel.local, *kernel.call_params))
        self._global = [v for v in module.variables if v.space == "global" and v.size_bytes]
        constants = [v for v in module.variables if v.space == "const" and v.size_bytes]
        const_bytes, self._const = layout(constants)
        self.constants = np.zeros(const_bytes, np.uint8)
        for variable in constants:
            start = self._const[variable.name]
            self.constants[start : start + variable.size_bytes] = image(variable, self.symbol_address)
        self.ops: list[Run] = _decode_body(self)
        self._joins: set[int] = set()
        self.uses_tensor_memory = any(i.form.name.startswith("tcgen05") for i in kernel.body)

    # ---- operands --------------------------------------------------------------------------------------------

    def slot(self, operand, bits: int = 64) -> int:
        """Slot of a register, an immediate read as ``bits`` bits, a special register or a symbol's address."""
        if type(operand) is Reg:  # nearly always
            return operand.slot
        match operand:
            case Special(name=name):
                if name.partition(".")[0] in UNMODELLED_SPECIALS:
                    raise UnmodelledError(f"the machine has no special register %{name}")
                return self._extra(("special", name), 0, width(SPECIAL_TYPES[name]), special=name)
            case Imm():
                return self.constant(immediate(operand, bits), bits)
            case Symbol(space="shared"):
                address = self.symbol_address(operand)
                return self._extra(("shared", address, bits), address, bits, shared=address)
            case Symbol() | Func():
                return self.constant(self.symbol_address(operand), bits)
        raise UnmodelledError(f"operand {operand} cannot be a value here")

    def target(self, operand) -> int | None:
        """Slot of a result; None where it is thrown away (``_``)."""
        return None if isinstance(operand, Sink) else self.slot(operand)

    def width_of(self, operand) -> int:
        """Bits of a result's register."""
        return width(operand.type)

    def carry_slot(self) -> int:
        """Slot of the condition code's carry bit, one per thread."""
        return self._extra(("carry",), False, 1)

    def constant(self, value: int, bits: int) -> int:
        """Slot of a constant."""
        return self._extra(("const", value, bits), value & MASK[bits], bits)

    def _extra(self, key: tuple, value: Value, bits: int, special: str | None = None, shared: int | None = None) -> int:
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = len(self._initial)
            self._initial.append(value)
            self.widths.append(bits)
            if special is not None:
                self._specials.append((slot, special))
            if shared is not None:
                self._shared.append((slot, shared))
        return slot

    def symbol_address(self, symbol: Symbol | Func) -> int:
        """Address of a function, or of a declared variable in its own space (`convc.machine.memory.global_memory`)."""
        if isinstance(symbol, Func):
            return functions.address(self.module, symbol.name)
        name, offset = symbol.name, symbol.offset
        if symbol.space == "param":
            for parameter in self.parameters:
                if parameter.name == name:
                    return parameter.offset + offset
            if name in self._local:
                return LOCAL_PARAMETERS + self._local[name] + offset
        if symbol.space == "shared" and name in self.shared_symbols:
            return self.shared_symbols[name] + offset
        if symbol.space == "local" and name in self._local:
            return self._local[name] + offset
        if symbol.space == "const" and name in self._const:
            return self._const[name] + offset
        for number, variable in enumerate(self._global):
            if symbol.space == "global" and variable.name == name:
                return ((MODULE_FIRST + number + 1) << SHIFT) + offset
        raise UnmodelledError(
            f"the machine has no address for {symbol.space} variable {name!r}",
            hint="a variable of another module (.extern without a size) has no contents here",
        )

    def variables(self) -> list[tuple[str, np.ndarray]]:
        """The .global variables of the module with their initial bytes, in the order of their addresses."""
        return [(v.name, image(v, self.symbol_address)) for v in self._global]

    # ---- launch ----------------------------------------------------------------------------------------------

    def shared_bytes(self, dynamic: int) -> int:
        """Shared memory of a CTA: system area, static variables, dynamic part."""
        return self.static_bytes + dynamic

    def check_block(self, block: tuple[int, int, int]) -> None:
        """Compare the launch with .reqntid and .maxntid."""
        for name, allowed in (
            ("reqntid", lambda want: tuple(block) == want),
            ("maxntid", lambda want: np.prod(block) <= np.prod(want)),
        ):
            want = self.kernel.directives.get(name)
            if want is not None:
                full = (*want, 1, 1)[:3]
                if not allowed(full):
                    raise LaunchError(
                        f"the launch file gives a block of {tuple(block)}, "
                        f"the kernel says .{name} {', '.join(map(str, full))}"
                    )

    def registers(self, cohort: Cohort, warps: np.ndarray) -> list[Value]:
        """Fresh register list of a strand."""
        regs = list(self._initial)
        for slot, name in self._specials:
            regs[slot] = cohort.special(name, warps)
        for slot, address in self._shared:
            regs[slot] = own_address(cohort.place.rank, cohort.cluster_size, address, self.widths[slot])
        return regs

    # ---- control flow -------------------------------------------------------------------------------------------

    @cached_property
    def flow(self) -> Flow:
        """Control-flow facts, computed when a branch first diverges."""
        return Flow([_facts(instr, self) for instr in self.kernel.body])

    def watch_join(self, join: int | None) -> None:
        """From now on, arriving at ``join`` checks for waiting lanes."""
        if join is None or join in self._joins or join >= len(self.ops):
            return
        self._joins.add(join)
        run = self.ops[join]

        def arrive(strand: Strand) -> int | None:
            if strand.frames and strand.frames[-1].join == join:
                pc = strand.meet(join)
                if pc != join:
                    return pc
            return run(strand)

        self.ops[join] = arrive


def decode(module: Module, kernel: Kernel) -> Program:
    """Decode a kernel; `UnmodelledError` lists every form that the machine has no semantics for."""
    return Program(module, kernel)


def _decode_body(program: Program) -> list[Run]:
    ops: list[Run] = []
    refused: list[Instr] = []
    for instr in program.kernel.body:
        builder = OPS.get(instr.form.name)
        if builder is None:
            refused.append(instr)
            continue
        try:
            run = builder(instr, program)
        except UnmodelledError as error:
            error.span = error.span or instr.span
            raise
        if instr.guard is not None and instr.form.name not in JUMPS:
            wrap = control.by_whole_warps if instr.form.name in WAITING else _guarded
            run = wrap(run, instr.guard, instr.index)
        ops.append(run)
    if refused:
        first = refused[0]
        names = sorted({i.form.name for i in refused})
        raise UnmodelledError(
            f"the machine has no semantics for {first.span.text.strip()!r}"
            if len(names) == 1
            else f"the machine has no semantics for {len(names)} forms: {', '.join(names)}",
            span=first.span,
            hint="nothing was run; docs/forms.md lists the modelled forms",
        )
    ops.append(lambda strand: strand.retire())
    return ops


def _guarded(run: Run, guard: Guard, here: int) -> Run:
    slot, negate = guard.slot, guard.negate

    def guarded(strand: Strand) -> int | None:
        predicate = strand.regs[slot]
        if not isinstance(predicate, np.ndarray):
            return run(strand) if bool(predicate) != negate else None
        if negate:
            predicate = ~predicate
        if strand.mask is None and predicate.all():
            return run(strand)
        return strand.under(predicate, run)

    return guarded


def _facts(instr: Instr, program: Program) -> FlowFacts:
    """Which registers an instruction reads and surely writes, and where it may go."""
    operands = list(instr.operands)
    results: set[int] = set()
    if instr.form.name not in NO_RESULT and operands and isinstance(operands[0], Reg | Vector | Pair | Sink):
        results = {r.slot for r in registers_of(operands[0])}
        operands = operands[1:]
    reads = {r.slot for operand in operands for r in registers_of(operand)}
    if instr.guard is not None:
        reads.add(instr.guard.slot)
    if instr.form.name in CARRY_FORMS:
        carry = program.carry_slot()
        reads |= {carry} if instr.form.name in TAKES_CARRY else set()
        results |= {carry} if "cc" in instr.mods else set()
    target = None
    if instr.form.name in JUMPS:
        target = next((o.target for o in operands if isinstance(o, Label)), len(program.kernel.body))
    return FlowFacts(
        target=target,
        falls=target is None or instr.guard is not None,
        reads=frozenset(reads),
        writes=frozenset() if instr.guard is not None else frozenset(results - reads),
    )


def registers_of(operand) -> list[Reg]:
    """All registers that an operand names."""
    kind = type(operand)
    if kind is Reg:
        return [operand]
    if kind is Imm or kind is Special or kind is Symbol:
        return []
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
    return []


def immediate(operand: Imm, bits: int) -> int:
    """The bit pattern of a number used where ``bits`` bits are read; a decimal float becomes the type's nearest."""
    if operand.is_float and operand.width != bits:
        return int(np.asarray(operand.value, FLOAT[bits]).view(DTYPE[bits]))
    return operand.bits & MASK[bits]


def _layout_parameters(params: tuple[Variable, ...]) -> list[Parameter]:
    offset, out = 0, []
    for variable in params:
        offset = align_up(offset, variable.align)
        out.append(Parameter(name=variable.name, offset=offset, size=variable.size_bytes))
        offset += variable.size_bytes
    return out


def _layout_shared(kernel: Kernel) -> tuple[int, dict[str, int]]:
    """Addresses of the static shared variables from `SHARED_BASE` up; the end is where dynamic shared memory starts."""
    offset, symbols = SHARED_BASE, {}
    for variable in kernel.shared:
        offset = align_up(offset, variable.align)
        symbols[variable.name] = offset
        offset += variable.size_bytes
    if kernel.extern_shared is not None:
        offset = align_up(offset, max(16, kernel.extern_shared.align))
        symbols[kernel.extern_shared.name] = offset
    return offset, symbols
