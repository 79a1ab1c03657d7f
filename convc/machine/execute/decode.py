"""Decoding: a parsed kernel becomes a list of closures, once.

Forms without semantics are collected and refused together, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from convc.errors import LaunchError, UnmodelledError
from convc.machine.execute.facts import facts_of
from convc.machine.execute.inline import inline_calls
from convc.machine.execute.repeat import may_repeat
from convc.machine.execute.segments import with_segments
from convc.machine.execute.slp import segments_of
from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import OPS, Run, Traits
from convc.machine.isa.sync import control
from convc.machine.isa.wgmma.groups import serialised
from convc.machine.state.flow import Flow, FlowFacts, slots_of
from convc.machine.state.pending_registers import finish
from convc.machine.state.replay import Recorded
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import DONE, Strand
from convc.machine.state.variables import NONE, Variables
from convc.ptx import Guard, Instr, Kernel, Module, Reg

PURE = forms_with(Traits.PURE)
WHOLE_WARPS = forms_with(Traits.WHOLE_WARPS)
JUMPS = forms_with(Traits.JUMP)


class DecodedKernel:
    """A kernel that is ready to run (a `convc.machine.state.program.Program`).

    Attributes:
        variables: where everything lies that it names. slots: its operand table.
        ops: the operation of each instruction, and one behind the last, where lanes exit.
        uses_tensor_memory: whether any instruction is a tcgen05 one.
        dependent: the operations where loads of tensor memory may be under way (`convc.machine.execute.engine`), those
            made of ``packed`` and those of ``ops``, once they were needed.
        asks: whether any asks for clusters that have not begun.
        repeats: whether launches may replay an earlier one (known once `packed` is). kept: the latest,
            by the first CTA of their cohorts.
    """

    def __init__(self, module: Module, kernel: Kernel, placed: Mapping[str, int] = NONE) -> None:
        self.kernel = inline_calls(module, kernel)
        self.variables = Variables(module, self.kernel, placed)
        self.constants = self.variables.constants
        self._initial = self.constants.copy()
        self.local_bytes = self.variables.local_bytes
        self.slots = SlotTable(self.kernel, self.variables)
        self.widths = self.slots.widths
        self._flow: Flow | None = None
        self.slots.unheard = unheard_waits(self.kernel.body, lambda: self.flow)
        self.ops: list[Run] = _decode_body(self.kernel, self.slots)
        forms = {instr.form.name: instr.form for instr in self.kernel.body}
        if not forms_with(Traits.ASYNC_REGISTERS).isdisjoint(forms):
            _serialise(self.ops, self.kernel, self.flow)
        self.uses_tensor_memory = any(form.opcode == "tcgen05" for form in forms.values())
        self.asks = "clusterlaunchcontrol.try_cancel" in forms
        self.dependent: dict[bool, list[Run]] = {}
        self._packed: list[Run] | None = None
        self.repeats = False
        self.kept: dict[int, Recorded] = {}
        self._joins: set[int] = set()

    def constant_images(self) -> dict[str, np.ndarray]:
        """The initial bytes of each ``.const`` variable."""
        return {name: self._initial[part] for name, part in self.variables.constant_parts().items()}

    def set_constants(self, contents: Mapping[str, np.ndarray]) -> None:
        """Let constant memory hold these bytes of some ``.const`` variables, and the initial ones of the others."""
        wanted = self._initial.copy()
        for name, part in self.variables.constant_parts().items():
            if name in contents:
                wanted[part] = contents[name]
        if not np.array_equal(wanted, self.constants):
            self.constants[:] = wanted
            self.kept.clear()

    def shared_bytes(self, dynamic: int) -> int:
        """Shared memory of a CTA: system area, static variables, dynamic part."""
        return self.variables.shared_end + dynamic

    def check_block(self, block: tuple[int, int, int]) -> None:
        """Compare a launch with .reqntid and .maxntid; `LaunchError` where they do not allow it."""
        for name in ("reqntid", "maxntid"):
            allowed = self.kernel.directives.get(name)
            if allowed is None:
                continue
            fits = tuple(block) == allowed if name == "reqntid" else np.prod(block) <= np.prod(allowed)
            if not fits:
                raise LaunchError(
                    f"the launch file gives a block of {tuple(block)}, the kernel says .{name} "
                    f"{', '.join(map(str, allowed))}"
                )

    @property
    def unheard(self) -> frozenset[int]:
        """Indices of waits for mbarriers whose answer goes nowhere."""
        return self.slots.unheard

    @property
    def flow(self) -> Flow:
        """Control-flow facts, computed when a branch first diverges."""
        if self._flow is None:
            self._flow = Flow(facts_of(self.kernel.body, self.slots))
        return self._flow

    @property
    def packed(self) -> list[Run]:
        """The operations, with those of many instructions in the places where segments begin."""
        if self._packed is None:
            segments = segments_of(self.kernel.body, self.slots, self.flow)
            self._packed = with_segments(segments, self.kernel.body, self.slots, self.ops)
            self.repeats = may_repeat(self.kernel.body, self.flow, segments)
        return self._packed

    def watch_join(self, join: int | None) -> None:
        """From now on, arriving at ``join`` checks for waiting lanes.

        The operation there is replaced once and for all, so that instructions that are no join cost nothing.
        """
        if join is None or join in self._joins or join >= len(self.ops):
            return
        self._joins.add(join)
        for ops in (self.ops,) if self._packed is None else (self.ops, self._packed):
            ops[join] = _arriving(ops[join], join)


def _arriving(run: Run, join: int) -> Run:
    """The operation at a join: lanes that wait there are looked for first."""

    def arrive(strand: Strand) -> int | None:
        if strand.frames and strand.frames[-1].join == join:
            pc = strand.meet(join)
            if pc != join:
                return pc
        return run(strand)

    return arrive


def decode(module: Module, kernel: Kernel, placed: Mapping[str, int] = NONE) -> DecodedKernel:
    """Decode a kernel; `UnmodelledError` lists every form that the simulator has no semantics for.

    ``placed``: the addresses of ``.global`` variables that buffers are.
    """
    return DecodedKernel(module, kernel, placed)


def _decode_body(kernel: Kernel, table: SlotTable) -> list[Run]:
    ops: list[Run] = []
    refused: list[Instr] = []
    applied = table.applied
    for instr in kernel.body:
        name = instr.form.name
        builder = OPS.get(name)
        if builder is None:
            refused.append(instr)
            continue
        try:
            run = builder(instr, table)
        except UnmodelledError as error:
            error.span = error.span or instr.span
            raise
        if instr.index in applied and applied[instr.index].run is not run:
            del applied[instr.index]  # more than that function: a switch chooses, say
        if instr.guard is not None and name not in JUMPS:
            guarded = control.by_whole_warps if name in WHOLE_WARPS else _guarded
            run = guarded(run, instr.guard, instr.index)
        ops.append(run)
    if refused:
        raise _refusal(refused)
    ops.append(_retire)
    return ops


def _serialise(ops: list[Run], kernel: Kernel, flow: Flow) -> None:
    """Put the operations that touch registers of wgmma behind those that are under way."""
    asynchronous = forms_with(Traits.ASYNC_REGISTERS)
    named = 0
    for instr, fact in zip(kernel.body, flow.facts, strict=True):
        if instr.form.name in asynchronous:
            named |= fact.reads | fact.writes
    for instr, fact in zip(kernel.body, flow.facts, strict=True):
        if instr.form.name not in asynchronous and (fact.reads | fact.writes) & named:
            reads, writes = (frozenset(slots_of(bits & named)) for bits in (fact.reads, fact.writes))
            ops[instr.index] = serialised(ops[instr.index], reads, writes)


def _refusal(refused: list[Instr]) -> UnmodelledError:
    first = refused[0]
    names = sorted({instr.form.name for instr in refused})
    what = repr(first.span.text.strip()) if len(names) == 1 else f"{len(names)} forms: {', '.join(names)}"
    return UnmodelledError(
        f"the simulator has no semantics for {what}",
        span=first.span,
        hint="nothing was run; docs/forms.md lists the modelled forms",
    )


def _retire(strand: Strand) -> int:
    """The active lanes exit; behind the last ones, their warps' stores that no wait covered are performed."""
    result = strand.retire()
    if result == DONE and strand.stores:
        strand.set_mask(None)
        strand.stores = finish(strand, strand.stores)
    return result


def _guarded(run: Run, guard: Guard, here: int) -> Run:
    slot = guard.slot
    negate = guard.negate

    def guarded(strand: Strand) -> int | None:
        predicate = strand.regs[slot]
        if not isinstance(predicate, np.ndarray):
            return run(strand) if bool(predicate) != negate else None
        if negate:
            predicate = ~predicate
        if strand.mask is None and np.count_nonzero(predicate) == predicate.size:
            return run(strand)
        return strand.under(predicate, run)

    return guarded


def unheard_waits(body: Sequence[Instr], flow: Callable[[], Flow]) -> frozenset[int]:
    """The indices of waits for an mbarrier on whose answer no branch, guard or access depends.

    ``mbarrier.test_wait`` and ``.try_wait`` may return before the phase is over, and say so in a predicate (PTX manual,
    "mbarrier.test_wait, mbarrier.try_wait"). Where nothing depends on that, the wait orders nothing: the simulator goes
    on at once. Compilers leave such waits where a loop looks ahead once too often.

    ``flow`` gives that of the body. It is called where the answer of a wait is not the guard of the next instruction.
    """
    tests = forms_with(Traits.TRY_WAIT | Traits.TEST_WAIT)
    waits = [instr for instr in body if instr.form.name in tests and not _guards_next(instr, body)]
    if not waits:
        return frozenset()
    known = flow()
    wanted = _wanted(body, known.facts)
    return frozenset(
        wait.index
        for wait in waits
        if not (answer := known.facts[wait.index].writes) & wanted
        or known.live_in(wait.index + 1).isdisjoint(slots_of(answer))
    )


def _guards_next(wait: Instr, body: Sequence[Instr]) -> bool:
    """Whether the instruction behind a wait is guarded by its answer, as that of a loop is."""
    guard = body[wait.index + 1].guard if wait.index + 1 < len(body) else None
    return guard is not None and isinstance(wait.operands[0], Reg) and wait.operands[0].slot == guard.slot


def _wanted(body: Sequence[Instr], facts: Sequence[FlowFacts]) -> int:
    """Registers on which something depends that others see, as the bits of a number."""
    wanted = 0
    pure: list[FlowFacts] = []
    for instr, fact in zip(body, facts, strict=True):
        if instr.form.name in PURE:
            pure.append(fact)
        else:
            wanted |= fact.reads
    before = -1
    while before != wanted:
        before = wanted
        for fact in pure:
            if fact.writes & wanted:
                wanted |= fact.reads
    return wanted
