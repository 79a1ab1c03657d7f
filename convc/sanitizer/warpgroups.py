"""Rules of wgmma for registers (PTX manual, "wgmma.fence", "wgmma.mma_async", "wgmma.wait_group").

* Accumulators, and registers that hold A, belong to a wgmma until a wgmma.wait_group that waits for its group: whoever
  touches them before that reads or writes nothing certain. (ptxas 13 puts a wait there, moves the access behind the
  wait, or takes another register: C7514, C7515, C7517.)
* A wgmma.fence stands before the first wgmma, and between any other access of a register and a wgmma that names it;
  only accumulators that wgmma of one shape follow each other in need none. (ptxas 13 puts one there: C7519.)

So both are breaches of a rule, by which no result depends on the hardware; reading a register of A is for review.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from convc.ir.findings import Verdict
from convc.machine.isa.all import forms_with
from convc.machine.isa.observe import actors, watched_rows
from convc.machine.isa.registry import Traits
from convc.machine.state.flow import slots_of
from convc.machine.state.observed import ObservedCohort, ObservedStrand
from convc.machine.state.observer import LaneAccess
from convc.ptx import Instr, Operand, Reg, Vector
from convc.sanitizer.checker import Checker
from convc.sanitizer.sites import Warp, warp_finding


@dataclass(frozen=True, slots=True)
class WgmmaRegister:
    """A register that a wgmma has: the instruction, its group, and whether the register is an accumulator."""

    instr: Instr
    group: int
    accumulator: bool


@dataclass(slots=True)
class WarpRegisters:
    """The registers of wgmma of one warp.

    Attributes:
        closed: groups that it has committed. fenced: whether it ever executed wgmma.fence.
        flight: registers of wgmma not waited for. touched: the line of other accesses since the last fence.
        shapes: shapes of the wgmma that had an accumulator since the last fence.
    """

    closed: int = 0
    fenced: bool = False
    flight: dict[int, WgmmaRegister] = field(default_factory=dict)
    touched: dict[int, int] = field(default_factory=dict)
    shapes: dict[int, str | None] = field(default_factory=dict)


class WarpgroupRegisters(Checker):
    """Watches the first cluster of every cohort."""

    wants = frozenset[str]()

    def begin(self, cohort: ObservedCohort) -> None:
        """Start afresh for every cohort: find the registers of wgmma, and who else touches them."""
        self.cohort = cohort
        self.warps: dict[Warp, WarpRegisters] = {}
        kernel = cohort.launch.program.kernel
        self.own = {i.index: _registers(i) for i in kernel.body if i.form.name in forms_with(Traits.ASYNC_REGISTERS)}
        named = frozenset(slot for pair in self.own.values() for slots in pair for slot in slots)
        self.others: dict[int, tuple[frozenset[int], frozenset[int]]] = {}
        for instr in kernel.body if named else ():
            facts = cohort.launch.program.flow.facts[instr.index]
            reads = named.intersection(slots_of(facts.reads))
            writes = named.intersection(slots_of(facts.writes))
            if instr.index not in self.own and reads | writes:
                self.others[instr.index] = (reads, writes)

    def _state(self, warp: Warp) -> WarpRegisters:
        return self.warps.setdefault(warp, WarpRegisters())

    def step(self, strand: ObservedStrand, instr: Instr) -> None:
        """An instruction that is no wgmma touches registers of one."""
        access = self.others.get(instr.index)
        if access is None:
            return
        reads, writes = access
        for warp in _warps(strand):
            state = self._state(warp)
            state.touched.update(dict.fromkeys(reads | writes, instr.span.line))
            for slot in sorted(state.flight.keys() & (reads | writes)):
                use = state.flight.pop(slot)
                verdict = Verdict.rule if use.accumulator or slot in writes else Verdict.review
                self._early(instr, warp, slot, use, verdict)

    def warpgroup_multiply(self, strand: ObservedStrand, instr: Instr, accesses: Sequence[LaneAccess]) -> None:
        """A wgmma takes its registers."""
        d, a = self.own[instr.index]
        for _, row, _, number, _ in actors(strand):
            warp = (row, number)
            state = self._state(warp)
            for slot in (*d, *a):
                use = state.flight.get(slot)
                if use is not None and use.accumulator != (slot in d):
                    self._early(instr, warp, slot, use, Verdict.rule)
            self._fenced(instr, warp, state)
            state.flight.update(dict.fromkeys(d, WgmmaRegister(instr, state.closed, True)))
            state.flight.update(dict.fromkeys(a, WgmmaRegister(instr, state.closed, False)))
            state.shapes.update(dict.fromkeys(d, instr.slots["shape"]))

    def fence(self, strand: ObservedStrand, instr: Instr) -> None:
        """wgmma.fence orders what came before."""
        if instr.form.name == "wgmma.fence":
            for warp in _warps(strand):
                state = self._state(warp)
                state.fenced = True
                state.touched.clear()
                state.shapes.clear()

    def commit_group(self, strand: ObservedStrand, instr: Instr) -> None:
        """wgmma.commit_group closes a group."""
        if instr.form.name == "wgmma.commit_group":
            for warp in _warps(strand):
                self._state(warp).closed += 1

    def wait_group(self, strand: ObservedStrand, instr: Instr, left: int) -> None:
        """wgmma.wait_group gives back the registers of all groups but the latest."""
        if instr.form.name == "wgmma.wait_group":
            for warp in _warps(strand):
                state = self._state(warp)
                late = state.closed - left
                state.flight = {slot: use for slot, use in state.flight.items() if use.group >= late}

    def _fenced(self, instr: Instr, warp: Warp, state: WarpRegisters) -> None:
        """Look for what a wgmma.fence should have ordered before a wgmma."""
        d, a = self.own[instr.index]
        why = ""
        early = sorted(state.touched.keys() & {*d, *a})
        other = sorted(slot for slot in d if state.shapes.get(slot, instr.slots["shape"]) != instr.slots["shape"])
        if not state.fenced:
            why = "the first wgmma of a warp has no wgmma.fence before it"
        elif early:
            name = self._name(early[0])
            why = f"no wgmma.fence between the access of {name} in line {state.touched[early[0]]} and this wgmma"
        elif other:
            why = f"no wgmma.fence between wgmma of two shapes that accumulate in {self._name(other[0])}"
        if why:
            self._report("wgmma-fence-missing", instr, warp, Verdict.rule, why)

    def _early(self, instr: Instr, warp: Warp, slot: int, use: WgmmaRegister, verdict: Verdict) -> None:
        """A register is touched that a wgmma under way has."""
        what = "an accumulator" if use.accumulator else "operand A"
        message = (
            f"{self._name(slot)}, {what} of the wgmma of line {use.instr.span.line}, is used before wgmma.wait_group "
            "has waited for its group"
        )
        self._report("accumulator-before-wait", instr, warp, verdict, message)

    def _name(self, slot: int) -> str:
        return self.cohort.launch.program.kernel.registers[slot].name

    def _report(self, rule: str, instr: Instr, warp: Warp, verdict: Verdict, message: str) -> None:
        """One finding of a rule and an instruction stands for all that follow."""
        key = (rule, instr.index)
        if key not in self.found:
            self.found[key] = warp_finding(self.cohort, instr, warp, verdict, rule, message)


def _registers(instr: Instr) -> tuple[frozenset[int], frozenset[int]]:
    """Slots of the accumulators of a wgmma, and of the registers that hold A."""
    return frozenset(_slots(instr.args["d"])), frozenset(_slots(instr.args["a"]))


def _slots(operand: Operand | None) -> Iterator[int]:
    """Slots of the registers of a vector; none where there is no such operand."""
    if isinstance(operand, Vector):
        yield from (item.slot for item in operand.items if isinstance(item, Reg))


def _warps(strand: ObservedStrand) -> list[Warp]:
    """The warps of a strand in the CTAs that are watched, those with an active lane."""
    if strand.mask is None:
        return [(row, warp) for _, row in watched_rows(strand) for warp in strand.warps.tolist()]
    return [(row, warp) for _, row, _, warp, _ in actors(strand)]
