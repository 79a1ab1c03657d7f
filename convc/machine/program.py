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
from convc.machine.cohort import Cohort
from convc.machine.flow import Flow, FlowFacts
from convc.machine.ops import alu, control, copies, mbarriers, memory, tensor  # noqa: F401 - they register their forms
from convc.machine.ops.registry import NO_RESULT, OPS
from convc.machine.strand import Strand
from convc.machine.values import DTYPE, FLOAT, MASK, POISON, Value, width
from convc.ptx import (
    Address,
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

SHARED_BASE = 1024
"""First shared address a kernel may use: the lowest KiB belongs to the system on sm_90 and later."""

PARAM_WINDOW = 0x7F << 56
"""Generic addresses of parameter space start here (made up; only cvta.param and tensor-map operands see them)."""

JUMPS = ("bra", "ret", "exit")

Run = Callable[[Strand], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """Place of a kernel parameter in parameter space, in bytes."""

    name: str
    offset: int
    size: int


def align_up(value: int, alignment: int) -> int:
    """The next multiple of ``alignment``."""
    return -(-value // alignment) * alignment


class Program:
    """A decoded kernel."""

    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module = module
        self.kernel = kernel
        self.widths = [width(r.type) for r in kernel.registers]
        self._initial: list[Value] = [POISON[w] for w in self.widths]
        self._specials: list[tuple[int, str]] = []
        self._slots: dict[tuple, int] = {}
        self.parameters = _layout_parameters(kernel.params)
        self.static_bytes, self.shared_symbols = _layout_shared(kernel)
        self.ops: list[Run] = _decode_body(self)
        self._joins: set[int] = set()
        self.uses_tensor_memory = any(i.form.name.startswith("tcgen05") for i in kernel.body)

    # ---- operands --------------------------------------------------------------------------------------------

    def slot(self, operand, bits: int = 64) -> int:
        """Slot of a register, an immediate read as ``bits`` bits, a special register or a symbol's address."""
        match operand:
            case Reg(slot=slot):
                return slot
            case Special(name=name):
                return self._extra(("special", name), 0, 32, special=name)
            case Imm():
                return self.constant(immediate(operand, bits), bits)
            case Symbol():
                return self.constant(self.symbol_address(operand), 64)
        raise UnmodelledError(f"operand {operand} cannot be a value here")

    def constant(self, value: int, bits: int) -> int:
        """Slot of a constant."""
        return self._extra(("const", value, bits), value & MASK[bits], bits)

    def _extra(self, key: tuple, value: Value, bits: int, special: str | None = None) -> int:
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = len(self._initial)
            self._initial.append(value)
            self.widths.append(bits)
            if special is not None:
                self._specials.append((slot, special))
        return slot

    def symbol_address(self, symbol: Symbol) -> int:
        """Address of a declared variable in its own space."""
        if symbol.space == "param":
            for parameter in self.parameters:
                if parameter.name == symbol.name:
                    return PARAM_WINDOW + parameter.offset + symbol.offset
        if symbol.space == "shared" and symbol.name in self.shared_symbols:
            return self.shared_symbols[symbol.name] + symbol.offset
        raise UnmodelledError(f"the machine has no address for {symbol.space} variable {symbol.name!r}")

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
            run = _guarded(run, instr.guard.slot, instr.guard.negate)
        ops.append(run)
    if refused:
        first = refused[0]
        names = sorted({i.form.name for i in refused})
        raise UnmodelledError(
            f"the machine has no semantics for {first.span.text.strip()!r}"
            if len(names) == 1
            else f"the machine has no semantics for {len(names)} forms: {', '.join(names)}",
            span=first.span,
            hint="nothing was run; FIDELITY.md lists the modelled forms",
        )
    ops.append(lambda strand: strand.retire())
    return ops


def _guarded(run: Run, slot: int, negate: bool) -> Run:
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
    match operand:
        case Reg():
            return [operand]
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
