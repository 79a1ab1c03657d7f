"""Registers and predicates that nothing has written on the path by which a thread came (PTX manual, "State Spaces").

A register holds anything before its first write. Reading one is a matter for review while the value goes nowhere, and
an error where it, or what was computed of it, reaches memory, an address, a branch or guard, or a descriptor. Each lane
of each vector element counts by itself, and so does each element that is packed into a register: a vector of which half
is written may be packed, taken apart again, and half of it used (`convc.sanitizer.halves`). The CTA of a declined
clusterlaunchcontrol request is such a value too: the manual leaves it undefined, so that it may be read, and not used
(clusterlaunchcontrol.query_cancel.get_first_ctaid).

Most registers are written before they are read on every path that the text has, which the flow of the kernel says. The
others, and what is computed of these, are followed thread by thread. Accumulators of wgmma are taken to be written by
it: whether they are read as well depends on scale-d.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from convc.ir.findings import Finding, Verdict
from convc.machine.isa.all import forms_with
from convc.machine.isa.registry import Traits
from convc.machine.isa.sync.launch_control import declined
from convc.machine.state.flow import slots_of
from convc.machine.state.observed import ObservedCohort, ObservedStrand
from convc.machine.state.program import Program
from convc.ptx import Instr, NotPred, Operand, Reg
from convc.sanitizer.checker import Checker
from convc.sanitizer.halves import Held, results, whole
from convc.sanitizer.sites import Site, finding

PACKS = forms_with(Traits.PACKS)
ASYNC_REGISTERS = forms_with(Traits.ASYNC_REGISTERS)
ZERO_IDIOM = forms_with(Traits.ZERO_IDIOM)
PURE = forms_with(Traits.PURE)
CROSS_LANE = forms_with(Traits.CROSS_LANE)

DECLINED = "clusterlaunchcontrol.query_cancel.get_first_ctaid"


class FollowedInstr(NamedTuple):
    """An instruction, as far as it touches registers that are followed.

    Attributes:
        reads, writes: their slots. guard: that of its predicate, where it is followed; else None.
        pure: the value only goes into the results. across: so it does, from several lanes.
        choice: slots of both values and of the predicate of a selp; else None.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    guard: int | None
    pure: bool
    across: bool
    choice: tuple[int | None, int | None, int | None] | None


class Origin(NamedTuple):
    """The source of a value that means nothing: a register, or (``declined``) a request."""

    name: str
    declined: bool


class UnwrittenRegisters(Checker):
    """Follows all threads of all CTAs."""

    wants = frozenset[str]()

    @staticmethod
    def needed(program: Program) -> bool:
        """Whether there is anything to follow."""
        asks = any(instr.form.name == DECLINED for instr in program.kernel.body)
        return asks or bool(_first_read(program))

    def __init__(self) -> None:
        super().__init__()
        self.plans: dict[int, FollowedInstr] = {}
        self.origins: list[Origin] = []
        self.used: set[int] = set()  # origins with an error
        self.read: dict[int, Finding] = {}  # the first read of each

    def begin(self, cohort: ObservedCohort) -> None:
        """All registers are unwritten again."""
        self.cohort = cohort
        program = cohort.launch.program
        start = _first_read(program)
        if not self.plans:
            self.origins = [Origin(program.kernel.registers[slot].name, declined=False) for slot in start]
            self.origins.append(Origin("", declined=True))
            self.plans = _plans(program, start)
        threads = int(np.prod(cohort.launch.block))
        shape = (cohort.ctas, -(-threads // 32), 32)
        self.state = {slot: np.full((1, *shape), number + 1, np.uint8) for number, slot in enumerate(start)}
        self.shape = shape
        self.widths = program.widths
        self.unwritten = set(start)

    def step(self, strand: ObservedStrand, instr: Instr) -> None:
        """Look at an instruction before it runs."""
        plan = self.plans.get(instr.index)
        if plan is None:
            return
        asks = instr.form.name == DECLINED
        if not asks and self.unwritten.isdisjoint((*plan.reads, *plan.writes)):
            return
        active = self._active(strand)
        if plan.guard is not None and plan.guard in self.unwritten:
            self._use(strand, instr, plan.guard, active, f"{instr.form.name} is guarded by")
        if instr.guard is not None:
            value = strand.regs[instr.guard.slot]
            active = active & (~value if instr.guard.negate else value) if isinstance(value, np.ndarray) else active
            if not isinstance(value, np.ndarray) and bool(value) == instr.guard.negate:
                return
        if asks:
            result = np.full(active.shape, len(self.origins), np.uint8)
            result[~self._declined(strand, instr, active)] = 0
        else:
            apart = self._apart(strand, instr) if plan.pure and plan.writes else None
            if apart is not None:
                self._keep_apart(strand, instr, active, apart)
                return
            result = self._read(strand, instr, plan, active)
        for slot in plan.writes:
            self._write(strand, slot, active, result)

    def _apart(self, strand: ObservedStrand, instr: Instr) -> dict[int, Held] | None:
        """What an instruction leaves that keeps the elements of registers apart; None where it is no such one."""

        def held(operand: Operand) -> Held:
            return self._elements(strand, operand.slot) if isinstance(operand, Reg) else 0

        first = next(iter(_registers(instr.operands[0])), None)
        return None if first is None else results(instr, self.widths[first.slot], held)

    def _keep_apart(self, strand: ObservedStrand, instr: Instr, active: np.ndarray, left: dict[int, Held]) -> None:
        """Write elements. One that packs or unpacks them reads none; another one reads where no element was written."""
        for slot, held in left.items():
            if instr.form.name not in PACKS and isinstance(held, np.ndarray):
                here = np.where(active, held.min(axis=0), 0)
                if here.any():
                    self._note(strand, instr, here)
            self._write(strand, slot, active, held)

    def findings(self) -> list[Finding]:
        """Errors, and reads of registers of which nothing came."""
        return [*self.found.values(), *(each for number, each in self.read.items() if number not in self.used)]

    # ---- values ------------------------------------------------------------------------------------------------------

    def _active(self, strand: ObservedStrand) -> np.ndarray:
        """bool (rows, warps, 32): who executes."""
        shape = (strand.row_count, len(strand.warps), 32)
        return np.broadcast_to(np.True_ if strand.mask is None else strand.mask, shape)

    def _held(self, strand: ObservedStrand, slot: int | None) -> np.ndarray | int:
        """Origins (rows, warps, 32) of the values of a register, 0 where it was written."""
        return whole(self._elements(strand, slot))

    def _elements(self, strand: ObservedStrand, slot: int | None) -> Held:
        """The same of each element (elements or 1, rows, warps, 32)."""
        if slot not in self.unwritten:
            return 0
        own = self.state[slot]
        return (own if strand.rows is None else own[:, strand.rows])[:, :, strand.warps]

    def _read(self, strand: ObservedStrand, instr: Instr, plan: FollowedInstr, active: np.ndarray) -> np.ndarray | int:
        """Look at what is read; the origins of the result."""
        if not (plan.pure or plan.across):
            for slot in plan.reads:
                if slot in self.unwritten and slot != plan.guard:
                    self._use(strand, instr, slot, active, f"{instr.form.name} uses")
            return 0
        if plan.choice is not None:
            first, second, predicate = plan.choice
            chosen = True if predicate is None else strand.regs[predicate]
            result = np.maximum(
                np.where(chosen, self._held(strand, first), self._held(strand, second)), self._held(strand, predicate)
            )
        else:
            result: np.ndarray | int = 0
            for slot in plan.reads:
                if slot != plan.guard:
                    result = np.maximum(result, self._held(strand, slot))
        if isinstance(result, np.ndarray):
            here = np.where(active, result, 0)
            if here.any():
                self._note(strand, instr, here)
        return 0 if plan.across else result

    def _write(self, strand: ObservedStrand, slot: int, active: np.ndarray, result: Held) -> None:
        """Give a register the origins of a result, of all its elements or (elements, ...) of each."""
        if isinstance(result, int) and slot not in self.unwritten:
            return
        own = self.state.setdefault(slot, np.zeros((1, *self.shape), np.uint8))
        count = len(result) if isinstance(result, np.ndarray) and result.ndim == own.ndim else 1
        if count > len(own):
            own = self.state[slot] = np.repeat(own, count, axis=0)
        rows = slice(None) if strand.rows is None else strand.rows
        part = own[:, rows]
        part[:, :, strand.warps] = np.where(active, result, part[:, :, strand.warps])
        own[:, rows] = part
        if own.any():
            self.unwritten.add(slot)
        else:
            self.unwritten.discard(slot)

    def _declined(self, strand: ObservedStrand, instr: Instr, active: np.ndarray) -> np.ndarray:
        """Lanes (rows, warps, 32) whose request was declined."""
        (response,) = _registers(instr.operands[1])
        return active & declined(strand.regs[response.slot])

    # ---- findings ----------------------------------------------------------------------------------------------------

    def _use(self, strand: ObservedStrand, instr: Instr, slot: int, active: np.ndarray, what: str) -> None:
        """An error where a value that means nothing reaches what others see."""
        held = self._held(strand, slot)
        lanes = active & (np.asarray(held) > 0)
        if not lanes.any():
            return
        number = int(np.broadcast_to(held, lanes.shape)[lanes][0])
        self.used.add(number)
        origin = self.origins[number - 1]
        name = self.cohort.launch.program.kernel.registers[slot].name
        if origin.declined:
            rule = "declined-request-used"
            why = "comes from the CTA id of a declined request"
        else:
            rule = "register-unwritten"
            source = "" if name == origin.name else f"comes from {origin.name}, which "
            why = f"{source}was never written on this path"
        message = f"{what} {name}, which {why}"
        key = (rule, instr.index)
        if key not in self.found:
            self.found[key] = self._finding(strand, instr, lanes, Verdict.error, rule, message)

    def _note(self, strand: ObservedStrand, instr: Instr, held: np.ndarray) -> None:
        """A read of a register that nothing has written: for review, unless more comes of it."""
        numbers: list[int] = np.unique(held[held > 0]).tolist()
        for number in numbers:
            origin = self.origins[number - 1]
            if origin.declined or number in self.read:
                continue
            message = f"{instr.form.name} reads {origin.name}, which was never written on this path"
            self.read[number] = self._finding(
                strand, instr, held == number, Verdict.review, "register-unwritten", message
            )

    def _finding(
        self, strand: ObservedStrand, instr: Instr, lanes: np.ndarray, verdict: Verdict, rule: str, message: str
    ) -> Finding:
        """A finding about the first warp of some lanes (rows, warps, 32)."""
        at, warp = np.argwhere(lanes.any(axis=2))[0].tolist()
        row = at if strand.rows is None else int(strand.rows[at])
        site = Site(
            file=instr.span.file,
            line=instr.span.line,
            step=instr.step,
            cta=self.cohort.number(row),
            warp=int(strand.warps[warp]),
            lanes=tuple(np.flatnonzero(lanes[at, warp]).tolist()),
        )
        return finding(verdict, rule, message, site)


# ---- what the text says ----------------------------------------------------------------------------------------------


def _first_read(program: Program) -> list[int]:
    """Registers that may be read before they are written on some path of the text.

    Without accumulators that wgmma names first: no other instruction can reach these unwritten but behind it.
    """
    count = len(program.kernel.registers)
    live = {slot for slot in program.flow.live_in(0) if slot < count}
    if not live:
        return []
    seen: set[int] = set()
    bare: set[int] = set()
    others: set[int] = set()
    for instr in program.kernel.body:
        reads = set(slots_of(program.flow.facts[instr.index].reads)) & live
        own: set[int] = _results(instr) if instr.form.name in ASYNC_REGISTERS else set()
        bare |= (reads & own) - seen
        others |= reads - own
        seen |= reads
    return sorted(others - bare)


def _results(instr: Instr) -> set[int]:
    return {register.slot for register in _registers(instr.operands[0])}


def _registers(operand: Operand) -> Sequence[Reg]:
    items = getattr(operand, "items", (operand,))
    return [item for item in items if isinstance(item, Reg)]


def _plans(program: Program, start: Sequence[int]) -> dict[int, FollowedInstr]:
    """What each instruction does with the registers that are followed: those of ``start``, and what is made of them."""
    count = len(program.kernel.registers)
    followed = set(start)
    parts: list[tuple[Instr, set[int], set[int]]] = []
    for instr in program.kernel.body:
        fact = program.flow.facts[instr.index]
        reads = {slot for slot in slots_of(fact.reads) if slot < count}
        if instr.form.name in ZERO_IDIOM and instr.operands[1] == instr.operands[2]:
            reads -= {register.slot for register in _registers(instr.operands[1])}
        writes = {slot for slot in slots_of(fact.writes) if slot < count}
        if instr.form.name in ASYNC_REGISTERS:
            reads -= _results(instr)
            writes |= _results(instr)
        parts.append((instr, reads, writes))
        if instr.form.name == DECLINED:
            followed |= writes
    grown = True
    while grown:
        before = len(followed)
        for instr, reads, writes in parts:
            if instr.form.name in PURE and not reads.isdisjoint(followed):
                followed |= writes
        grown = len(followed) > before
    plans: dict[int, FollowedInstr] = {}
    for instr, reads, writes in parts:
        guard = None if instr.guard is None else instr.guard.slot
        own_reads = reads & followed
        own_writes = writes & followed
        if own_reads or own_writes:
            plans[instr.index] = FollowedInstr(
                tuple(sorted(own_reads)),
                tuple(sorted(own_writes)),
                guard if guard in followed else None,
                instr.form.name in PURE,
                instr.form.name in CROSS_LANE,
                _choice(instr) if instr.form.name == "selp" else None,
            )
    return plans


def _choice(instr: Instr) -> tuple[int | None, int | None, int | None]:
    """Slots of the two values and of the predicate of ``selp d, a, b, p``; None for what is no register."""
    slots = [operand.slot if isinstance(operand, Reg) else None for operand in instr.operands[1:]]
    predicate = instr.operands[3]
    if isinstance(predicate, NotPred):
        return slots[1], slots[0], predicate.reg.slot
    return slots[0], slots[1], slots[2]
