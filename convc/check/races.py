"""The race checker: vector clocks over the warps and asynchronous operations of one CTA.

Two accesses of one place, at least one a write, race unless one happened before the other. Only what the PTX manual
promises orders them: program order of a warp, mbarriers and CTA barriers, the proxy fences, commits, the tcgen05
waits and fences, and the pairs of tcgen05 instructions that the tensor core keeps in order. The machine performs
everything in some order; that order is no excuse here.

Registers that a tcgen05.ld fills are checked too: nothing may read them before tcgen05.wait::ld.

CTAs of a cohort do the same things, so one of them (the first row) stands for all.
"""

from __future__ import annotations

import numpy as np

from convc.check.clocks import Clock, Message, Views, join
from convc.check.shadow import Access, Shadow
from convc.findings import Finding, Verdict
from convc.machine.events import Observer
from convc.machine.state import COLUMNS, LANES

PIPELINED = {("cp", "mma"), ("shift", "mma"), ("shift", "cp.4x256b"), ("mma", "shift")}
"""Pairs that one thread's tcgen05 instructions keep in order (PTX manual, "tcgen05 pipelined instructions").

mma after mma is ordered too, where accumulator and shape are the same; cp stands for all its shapes as first of a pair.
"""


class Races(Observer):
    """Findings of one launch; the first racing pair of instructions is reported, not each of its places."""

    def __init__(self) -> None:
        self.found: dict[tuple, Finding] = {}

    def begin(self, cohort) -> None:
        """Start afresh for every cohort."""
        self.cohort = cohort
        self.log: list[Access] = []
        self.spaces = {"shared": Shadow(cohort.shared.bytes.shape[1]), "tensor": Shadow(LANES * COLUMNS)}
        self.warps: dict[int, Views] = {}
        self.issued: dict[int, Clock] = {}
        self.loads: dict[tuple[int, str], Clock] = {}
        self.barriers: dict[int, Message] = {}
        self.done: dict[int, Message] = {}
        self.phases: dict[int, int] = {}
        self.meetings: dict[tuple[int, int], Message] = {}
        self.depth: dict[int, int] = {}
        self.parted: set[int] = set()
        self.filling: dict[int, dict[int, object]] = {}
        self.component = 0

    def end(self, cohort) -> None:
        """Asynchronous work that nobody has waited for may still be under way when the CTA is gone."""
        told: Clock = {}
        for views in self.warps.values():
            join(told, views.generic)
        for access in self.log:
            if access.kind in ("copy", "mma", "cp", "shift") and access.component not in told:
                key = ("unobserved", access.line)
                self.found.setdefault(key, Finding(
                    verdict=Verdict.error, rule="exit-before-completion",
                    message=f"the CTA exits although nobody has waited for the {access}",
                    file=access.file, line=access.line, step=access.step, cta=cohort.number(0), warp=access.thread,
                ))  # fmt: skip

    # ---- who -----------------------------------------------------------------------------------------------------

    def _watched(self, strand) -> bool:
        return strand.rows is None or 0 in strand.rows

    def _views(self, warp: int) -> Views:
        if warp not in self.warps:
            self.warps[warp] = Views(component=self._new())
        return self.warps[warp]

    def _new(self) -> int:
        self.component += 1
        return self.component

    def _issuer(self, strand) -> int:
        return int(strand.warps[strand.threads()[0][0]])

    def step(self, strand, instr) -> None:
        """Aligned instructions need converged warps, and registers that a load still fills must not be used."""
        if not self._watched(strand):
            return
        self._converged(strand, instr)
        if not self.filling:
            return
        facts = strand.program.flow.facts[instr.index]
        for warp in strand.warps.tolist():
            early = self.filling.get(warp, {}).keys() & (facts.reads | facts.writes)
            for load in {self.filling[warp][slot].index: self.filling[warp][slot] for slot in early}.values():
                slot = min(s for s in early if self.filling[warp][s] is load)
                self.filling[warp] = {s: other for s, other in self.filling[warp].items() if other is not load}
                key = ("register", load.span.line)
                if key not in self.found:
                    self.found[key] = self._early(strand, instr, load, slot, warp)

    def _converged(self, strand, instr) -> None:
        """Lanes that parted need not run together again before bar.warp.sync, and aligned instructions need that.

        PTX manual, "barrier{.cta}" and "elect.sync": all threads of the warp must execute the same instruction.
        """
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
            self.found.setdefault(("aligned", instr.index), Finding(
                verdict=Verdict.error, rule="aligned-after-divergence",
                message="an aligned instruction follows a divergent branch without bar.warp.sync in between",
                file=instr.span.file, line=instr.span.line, step=instr.step, cta=self.cohort.number(0), warp=warp,
            ))  # fmt: skip

    def _early(self, strand, instr, load, slot: int, warp: int) -> Finding:
        name = strand.program.kernel.registers[slot].name
        return Finding(
            verdict=Verdict.error, rule="register-before-wait",
            message=f"{name} is used before tcgen05.wait::ld completes the tcgen05.ld of line {load.span.line}",
            file=instr.span.file, line=instr.span.line, step=instr.step, cta=self.cohort.number(0), warp=warp,
        )  # fmt: skip

    # ---- accesses --------------------------------------------------------------------------------------------------

    def _access(self, space: str, places: np.ndarray, access: Access, clock: Clock, fenced: Clock | None) -> None:
        """Compare with the last accesses of the places, then become the last access.

        Places outside the storage are left out: the machine faults on them.
        """
        shadow, number = self.spaces[space], len(self.log)
        places = places[places < shadow.writer.size]
        if not places.size:
            return
        self.log.append(access)
        before = list(shadow.writers_of(places))
        if access.write:
            before += list(shadow.readers_of(places))
        for index in before:
            other = self.log[index]
            if not self._ordered(other, access, clock, fenced):
                self._report(space, other, access)
        shadow.record(places, number, None if access.write else f"{access.kind.split('.')[0]} {access.thread}")

    @staticmethod
    def _ordered(first: Access, second: Access, clock: Clock, fenced: Clock | None) -> bool:
        """Whether ``first`` happened before ``second``, whose issuer has these views."""
        view = fenced if fenced is not None and first.generic and first.write else clock
        if view.get(first.component, -1) >= first.time:
            return True
        if first.thread != second.thread:
            return False
        kinds = (first.kind.split(".")[0], second.kind)
        if kinds == ("mma", "mma"):
            return first.target == second.target
        return kinds in PIPELINED

    def _report(self, space: str, first: Access, second: Access) -> None:
        key = (space, first.line, second.line, first.write, second.write)
        if key in self.found:
            return
        self.found[key] = Finding(
            verdict=Verdict.error, rule=f"race-{space}-memory",
            message=f"{second} is not ordered after {first}", file=second.file, line=second.line, step=second.step,
            cta=self.cohort.number(0), warp=second.thread,
        )  # fmt: skip

    def _entry(self, views: Views, instr, kind: str, warp: int, write: bool, **more) -> Access:
        fields = {
            "component": views.component, "time": views.time, "actor": f"warp {warp}", "generic": True, "target": None,
        } | more  # fmt: skip
        span = instr.span
        return Access(kind=kind, write=write, thread=warp, file=span.file, line=span.line, step=instr.step, **fields)

    def shared(self, strand, instr, places, write) -> None:
        """Ordinary loads and stores."""
        if not self._watched(strand):
            return
        for warp, where in places.items():
            views = self._views(warp)
            views.tick()
            entry = self._entry(views, instr, "st" if write else "ld", warp, write)
            self._access("shared", where, entry, views.generic, None)

    def copy(self, strand, instr, barrier, reads, writes) -> None:
        """A tensor or bulk copy: an operation of its own, ordered after what its issuer knows."""
        if not self._watched(strand):
            return
        warp = self._issuer(strand)
        views, component = self._views(warp), self._new()
        views.tick()
        for places, write in ((reads, False), (writes, True)):
            entry = self._entry(
                views,
                instr,
                "copy",
                warp,
                write,
                component=component,
                time=0,
                actor=f"a copy of warp {warp}",
                generic=False,
            )
            self._access("shared", places, entry, views.generic, views.fenced)
        if barrier is not None:
            self._touch(instr, warp, barrier, views, views.fenced)
            known = {component: 0}
            self._release(barrier, views.generic | known, views.fenced | known)

    def tensor_op(self, strand, instr, kind, shared, reads, writes, target) -> None:
        """mma, cp, shift: ordered after what the issuing thread's tcgen05 instructions know, or by the pipeline."""
        if not self._watched(strand):
            return
        warp = self._issuer(strand)
        views, component = self._views(warp), self._new()
        views.tick()
        common = {
            "component": component,
            "time": 0,
            "actor": f"{kind} of warp {warp}",
            "generic": False,
            "target": target,
        }
        entry = self._entry(views, instr, kind, warp, False, **common)
        self._access("shared", shared, entry, views.generic, views.fenced)
        self._access("tensor", reads, entry, views.tensor, None)
        self._access("tensor", writes, self._entry(views, instr, kind, warp, True, **common), views.tensor, None)
        self.issued.setdefault(warp, {})[component] = 0

    def tensor(self, strand, instr, kind, cells, write) -> None:
        """tcgen05.ld and st: known to others only behind their wait."""
        if not self._watched(strand):
            return
        for warp, where in cells.items():
            views = self._views(warp)
            views.tick()
            component = self._new()
            entry = self._entry(
                views, instr, kind, warp, write, component=component, time=0, actor=f"warp {warp}", generic=False
            )
            self._access("tensor", where, entry, views.tensor, None)
            self.loads.setdefault((warp, kind), {})[component] = 0
            if not write:
                slots = strand.program.flow.facts[instr.index].writes
                self.filling.setdefault(warp, {}).update(dict.fromkeys(slots, instr))

    def allocate(self, strand, instr, column, columns, free) -> None:
        """dealloc must come after everything that used the columns."""
        if not self._watched(strand):
            return
        cells = (np.arange(LANES)[:, None] * COLUMNS + np.arange(column, column + columns)).reshape(-1)
        if free:
            warp = int(strand.warps[0])
            views = self._views(warp)
            views.tick()
            self._access("tensor", cells, self._entry(views, instr, "dealloc", warp, True), views.tensor, None)
        self.spaces["tensor"].forget(cells)

    # ---- synchronisation ---------------------------------------------------------------------------------------------

    def _touch(self, instr, warp: int, barrier: int, views: Views, fenced: Clock | None) -> None:
        """A barrier operation must come after the barrier's initialisation."""
        places = np.arange(barrier, barrier + 8)
        entry = self._entry(views, instr, "mbarrier", warp, False, generic=fenced is None)
        shadow = self.spaces["shared"]
        for index in shadow.writers_of(places):
            if not self._ordered(self.log[index], entry, views.generic, fenced):
                self._report("shared", self.log[index], entry)

    def init(self, strand, instr, barrier) -> None:
        """mbarrier.init writes the object."""
        if not self._watched(strand):
            return
        warp = self._issuer(strand)
        self.shared(strand, instr, {warp: np.arange(barrier, barrier + 8)}, True)
        self.barriers.pop(barrier, None)
        self.done.pop(barrier, None)
        self.phases[barrier] = 0

    def _release(self, barrier: int, generic: Clock, fenced: Clock) -> None:
        """Add to the running phase; a phase that completes is there for waits to acquire."""
        self.barriers.setdefault(barrier, Message()).add(generic, fenced)
        self._settle(barrier)

    def _settle(self, barrier: int) -> None:
        state = self.cohort.barriers[barrier].phase
        phase = state if isinstance(state, int) else int(state[0])
        if phase != self.phases.get(barrier, 0) and barrier in self.barriers:
            self.phases[barrier] = phase
            message = self.barriers.pop(barrier)
            self.done.setdefault(barrier, Message()).add(message.generic, message.fenced)

    def arrive(self, strand, instr, barrier) -> None:
        """Release."""
        if not self._watched(strand):
            return
        for warp in {int(strand.warps[w]) for w, _ in strand.threads()}:
            views = self._views(warp)
            self._touch(instr, warp, barrier, views, None)
            self._release(barrier, views.generic, views.fenced)
            views.tick()

    def wait(self, strand, instr, barrier) -> None:
        """Acquire."""
        if not self._watched(strand):
            return
        self._settle(barrier)
        for warp in strand.warps.tolist():
            views = self._views(warp)
            self._touch(instr, warp, barrier, views, None)
            if barrier in self.done:
                views.receive(self.done[barrier])

    def commit(self, strand, instr, barrier) -> None:
        """The barrier hears of all earlier tensor operations of this thread, and of what the thread knows.

        The commit implies ``tcgen05.fence::before_thread_sync`` (PTX manual, tcgen05.commit).
        """
        if not self._watched(strand):
            return
        warp = self._issuer(strand)
        views = self._views(warp)
        self._touch(instr, warp, barrier, views, views.fenced)
        known = views.generic | self.issued.get(warp, {})
        self._release(barrier, known, views.fenced | self.issued.get(warp, {}))
        views.tick()

    def cta_barrier(self, strand, instr, index, leave) -> None:
        """bar.sync: everybody who arrives tells everybody who leaves."""
        if not self._watched(strand):
            return
        generation = int(self.cohort.named[index].generation[0])
        for warp in strand.warps.tolist():
            views = self._views(warp)
            if leave:
                views.receive(self.meetings.setdefault((index, generation), Message()))
            else:
                self.meetings.setdefault((index, generation + 1), Message()).add(views.generic, views.fenced)
                views.tick()

    def fence(self, strand, instr) -> None:
        """Proxy fences, tcgen05 fences and waits."""
        if not self._watched(strand):
            return
        name = ".".join((instr.form.opcode, *instr.mods))
        for warp in strand.warps.tolist():
            views = self._views(warp)
            if name.startswith("tcgen05.wait"):
                kind = name.split("::")[1][:2]
                join(views.unpublished, self.loads.pop((warp, kind), {}))
                if kind == "ld":
                    self.filling.pop(warp, None)
                join(views.tensor, views.unpublished)
            elif "after_thread_sync" in name:
                join(views.tensor, views.generic)
            elif "before_thread_sync" in name:
                join(views.generic, views.unpublished)
                views.unpublished.clear()
            elif name.startswith(("fence.proxy.async", "fence.mbarrier_init")):
                join(views.fenced, views.generic)
