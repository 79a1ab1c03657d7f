"""Rules of a single warp: aligned instructions need converged lanes, and loads that are under way fill registers.

Lanes that parted at a branch need not run together again before ``bar.warp.sync``, and an aligned instruction must be
executed by all threads of the warp together (PTX manual, "barrier{.cta}", "elect.sync"). At a barrier that is a matter
for review: NVIDIA's compiler makes a bare bar.sync of every __syncthreads, and leaves it to the assembler to bring the
lanes together. The registers of a tcgen05.ld hold nothing before ``tcgen05.wait::ld`` (PTX manual, "tcgen05.ld");
compilers that move arithmetic above the wait rely on the assembler to track them, so that is a matter for review too.
"""

from __future__ import annotations

from convc.findings import Finding, Verdict
from convc.machine.events import Observer

BARRIERS = ("bar.sync", "bar.arrive", "bar.red", "barrier.cluster.arrive", "barrier.cluster.wait")


class Warps(Observer):
    """Watches the first CTA of every cohort."""

    def __init__(self) -> None:
        self.found: dict[tuple, Finding] = {}

    def begin(self, cohort) -> None:
        """Start afresh for every cohort."""
        self.cohort = cohort
        self.depth: dict[int, int] = {}
        self.parted: set[int] = set()
        self.filling: dict[int, dict[int, object]] = {}

    def step(self, strand, instr) -> None:
        """Look at an instruction before it runs."""
        if strand.rows is None or 0 in strand.rows:
            self._converged(strand, instr)
            if self.filling:
                self._registers(strand, instr)

    def tensor(self, strand, instr, kind, cells, write) -> None:
        """A tcgen05.ld begins to fill registers."""
        if write or not (strand.rows is None or 0 in strand.rows):
            return
        slots = strand.program.flow.facts[instr.index].writes
        for warp in cells:
            self.filling.setdefault(warp, {}).update(dict.fromkeys(slots, instr))

    def fence(self, strand, instr) -> None:
        """tcgen05.wait::ld: they are filled."""
        if "wait::ld" in instr.mods:
            for warp in strand.warps.tolist():
                self.filling.pop(warp, None)

    def _converged(self, strand, instr) -> None:
        warps = set(strand.warps.tolist())
        depth = sum(frame.join != instr.index or frame.other is not None for frame in strand.frames)
        if depth < self.depth.get(id(strand), 0):
            self.parted |= warps
        self.depth[id(strand)] = depth
        if instr.form.name == "bar.warp.sync":
            self.parted -= warps
        aligned = "aligned" in instr.mods or (instr.form.opcode == "bar" and instr.form.name != "bar.warp.sync")
        if aligned and warps & self.parted and not depth:
            warp = min(warps & self.parted)
            self.parted -= warps
            message = "an aligned instruction follows a divergent branch without bar.warp.sync in between"
            verdict = Verdict.review if instr.form.name in BARRIERS else Verdict.error
            self._report(("aligned", instr.index), verdict, "aligned-after-divergence", message, instr, warp)

    def _registers(self, strand, instr) -> None:
        facts = strand.program.flow.facts[instr.index]
        for warp in strand.warps.tolist():
            filling = self.filling.get(warp, {})
            early = filling.keys() & (facts.reads | facts.writes)
            for load in {filling[slot].index: filling[slot] for slot in early}.values():
                name = strand.program.kernel.registers[min(s for s in early if filling[s] is load)].name
                message = f"{name} is used before tcgen05.wait::ld completes the tcgen05.ld of line {load.span.line}"
                self._report(("early", load.index), Verdict.review, "register-before-wait", message, instr, warp)
                self.filling[warp] = {s: other for s, other in self.filling[warp].items() if other is not load}

    def _report(self, key: tuple, verdict: Verdict, rule: str, message: str, instr, warp: int) -> None:
        finding = Finding(
            verdict=verdict, rule=rule, message=message, file=instr.span.file, line=instr.span.line, step=instr.step,
            cta=self.cohort.number(0), warp=warp,
        )  # fmt: skip
        self.found.setdefault(key, finding)
