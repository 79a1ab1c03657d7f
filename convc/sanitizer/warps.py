"""Rules of a single warp: aligned instructions need converged lanes, and loads that are under way fill registers.

Lanes that parted at a branch need not run together again before ``bar.warp.sync``, and an aligned instruction must be
executed by all threads of the warp together (PTX manual, "barrier{.cta}", "elect.sync"). A bare bar.sync brings them
together: NVIDIA's compiler makes one of every __syncthreads, behind an "if" too, and leaves the rest to the assembler.
In a kernel that has bar.warp.sync, which takes that upon itself, and at a barrier that says .aligned, it is a matter
for review. The registers of a tcgen05.ld hold nothing before
``tcgen05.wait::ld`` (PTX manual, "tcgen05.ld"); compilers that move arithmetic above the wait rely on the assembler to
track them, so that is a matter for review too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from convc.ir.findings import Region, Site, Verdict
from convc.machine.isa.all import forms_with
from convc.machine.isa.observe import watched_rows
from convc.machine.isa.registry import Traits
from convc.machine.state.flow import slots_of
from convc.machine.state.observed import ObservedCohort, ObservedStrand
from convc.machine.state.observer import LaneAccess
from convc.machine.tensor_core.tensor_memory import COLUMNS
from convc.ptx import Instr
from convc.sanitizer.checker import Checker
from convc.sanitizer.sites import Warp, warp_finding

BARRIERS = forms_with(Traits.BARRIER)


class Warps(Checker):
    """Watches the first cluster of every cohort."""

    def begin(self, cohort: ObservedCohort) -> None:
        """Start afresh for every cohort."""
        self.cohort = cohort
        self.explicit = any(i.form.name == "bar.warp.sync" for i in cohort.launch.program.kernel.body)
        self.depth: dict[int, int] = {}
        self.parted: set[Warp] = set()
        self.filling: dict[Warp, dict[int, tuple[Instr, Region]]] = {}

    def step(self, strand: ObservedStrand, instr: Instr) -> None:
        """Look at an instruction before it runs."""
        self._converged(strand, instr)
        if self.filling:
            self._registers(strand, instr)

    def tensor(self, strand: ObservedStrand, instr: Instr, kind: str, accesses: Sequence[LaneAccess]) -> None:
        """A tcgen05.ld begins to fill registers."""
        if kind == "ld":
            slots = slots_of(strand.program.flow.facts[instr.index].writes)
            for access in accesses:
                lanes = access.places // COLUMNS
                region = Region(space="tensor", lanes=(int(lanes.min()), int(lanes.max())))
                self.filling.setdefault((access.row, access.warp), {}).update(dict.fromkeys(slots, (instr, region)))

    def fence(self, strand: ObservedStrand, instr: Instr) -> None:
        """tcgen05.wait::ld: they are filled."""
        if "wait::ld" in instr.mods:
            for warp in _warps(strand):
                self.filling.pop(warp, None)

    def _converged(self, strand: ObservedStrand, instr: Instr) -> None:
        """Follow which warps have parted; an aligned instruction finds them together."""
        depth = strand.depth(instr.index)
        if depth < self.depth.get(id(strand), 0):
            self.parted |= _warps(strand)
        self.depth[id(strand)] = depth
        if not self.parted:
            return
        warps = _warps(strand) & self.parted
        bare = instr.form.opcode == "bar" and instr.form.name != "bar.warp.sync"
        if instr.form.name == "bar.warp.sync" or (bare and not self.explicit):
            self.parted -= warps
        elif warps and not depth and (bare or "aligned" in instr.mods):
            self.parted -= warps
            message = (
                "an aligned instruction follows a divergent branch without bar.warp.sync in between: put one before it"
            )
            verdict = Verdict.review if instr.form.name in BARRIERS else Verdict.rule
            found = warp_finding(self.cohort, instr, min(warps), verdict, "aligned-after-divergence", message)
            self.found.setdefault(("aligned", instr.index), found)

    def _registers(self, strand: ObservedStrand, instr: Instr) -> None:
        """An instruction must not touch registers that a tcgen05.ld still fills."""
        facts = strand.program.flow.facts[instr.index]
        touched = facts.reads | facts.writes
        for warp in _warps(strand):
            filling = self.filling.get(warp, {})
            early = {slot for slot in filling if touched >> slot & 1}
            for load, region in {filling[slot][0].index: filling[slot] for slot in early}.values():
                first = min(slot for slot in early if filling[slot][0] is load)
                name = strand.program.kernel.registers[first].name
                message = f"{name} is used before tcgen05.wait::ld completes the tcgen05.ld of line {load.span.line}"
                found = warp_finding(self.cohort, instr, warp, Verdict.review, "register-before-wait", message, region)
                waited = Site(file=load.span.file, line=load.span.line, step=load.step)
                self.found.setdefault(("early", load.index), replace(found, other=waited))
                # One report a load: its other registers would say the same.
                self.filling[warp] = {s: other for s, other in self.filling[warp].items() if other[0] is not load}


def _warps(strand: ObservedStrand) -> set[Warp]:
    return {(row, warp) for _, row in watched_rows(strand) for warp in strand.warps.tolist()}
