"""The race checker: vector clocks over the warps and asynchronous operations of one CTA.

Two accesses of one place, at least one a write, race unless one happened before the other. Only what the PTX manual
promises orders them: program order of a warp, mbarriers and CTA barriers, the proxy fences, commits, the tcgen05
waits and fences, and the pairs of tcgen05 instructions that the tensor core keeps in order. The machine performs
everything in some order; that order is no excuse here.

CTAs of a cohort do the same things, so one of them (the first row) stands for all.
"""

from __future__ import annotations

import numpy as np

from convc.check.clocks import Clock, Message, Views, join
from convc.check.shadow import Access, Shadow
from convc.findings import Finding, Verdict
from convc.machine.events import Observer
from convc.machine.state import COLUMNS, LANES

PIPELINED = {("cp", "mma"), ("shift", "mma"), ("mma", "shift")}
"""Pairs that one thread's tcgen05 instructions keep in order (PTX manual, "tcgen05 pipelined instructions").

So are shift and cp.4x256b, and mma after mma where accumulator and shape are the same; see `Races._pipelined`.
"""

WRITERS = {"tcgen05.alloc": "alloc", "mbarrier.init": "init"}
"""Instructions that write shared memory besides stores."""


class Races(Observer):
    """Findings of one launch; the first racing pair of instructions is reported, not each of its places."""

    def __init__(self) -> None:
        self.found: dict[tuple, Finding] = {}

    def begin(self, cohort) -> None:
        """Start afresh for every cohort."""
        self.cohort = cohort
        self.ashift_ordered = cohort.launch.switches.ashift_then_cp == "ordered"
        self.log: list[Access] = []
        self.spaces = {"shared": Shadow(cohort.shared.bytes.shape[1]), "tensor": Shadow(LANES * COLUMNS)}
        self.warps: dict[int, Views] = {}
        self.issued: dict[int, Clock] = {}
        self.pipes: dict[int, dict[tuple[str, object], Clock]] = {}
        self.loads: dict[tuple[int, str], Clock] = {}
        self.barriers: dict[int, Message] = {}
        self.done: dict[int, Message] = {}
        self.phases: dict[int, int] = {}
        self.meetings: dict[tuple[int, int], Message] = {}
        self.bulk: dict[int, list[Clock]] = {}
        self.component = 0

    def end(self, cohort) -> None:
        """Asynchronous work that nobody has waited for may still be under way when the CTA is gone."""
        told: Clock = {}
        for views in self.warps.values():
            join(told, views.generic)
        for access in self.log:
            if access.kind.split(".")[0] in ("copy", "mma", "cp", "shift") and access.component not in told:
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
        """Bulk groups come as instructions of their own."""
        if instr.form.name in ("cp.async.bulk.commit_group", "cp.async.bulk.wait_group") and self._watched(strand):
            self._groups(strand, instr)

    def _groups(self, strand, instr) -> None:
        """Bulk groups: a wait makes the thread know of all but its latest groups."""
        for warp in strand.warps.tolist():
            groups = self.bulk.setdefault(warp, [{}])
            if instr.form.name.endswith("commit_group"):
                groups.append({})
                continue
            left = next((o.bits for o in instr.operands if hasattr(o, "bits")), 0)
            while len(groups) > left + 1:
                done = groups.pop(0)
                views = self._views(warp)
                for clock in (views.generic, views.weak):
                    join(clock, done)

    # ---- accesses --------------------------------------------------------------------------------------------------

    def _access(self, space: str, places: np.ndarray, access: Access, views: Views, tensor: bool = False) -> None:
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
        clock, fenced = (views.tensor, None) if tensor else (views.generic, None if access.generic else views.fenced)
        for index in before:
            other = self.log[index]
            if not self._ordered(other, access, clock, fenced):
                self._report(space, other, access, views)
        shadow.record(places, number, None if access.write else f"{access.kind.split('.')[0]} {access.thread}")

    @staticmethod
    def _ordered(first: Access, second: Access, clock: Clock, fenced: Clock | None) -> bool:
        """Whether ``first`` happened before ``second``, whose issuer has these views."""
        view = fenced if fenced is not None and first.generic and first.write else clock
        return view.get(first.component, -1) >= first.time or first.component in second.after

    def _pipelined(self, first: tuple[str, object], second: tuple[str, object]) -> bool:
        """Whether a thread's tcgen05 instructions stay in order: (kind, accumulator and shape of an mma) of both."""
        kinds = tuple(kind.split(".")[0] for kind, _ in (first, second))
        if kinds == ("mma", "mma"):
            return first[1] == second[1]
        if second[0] == "cp.4x256b":
            return first[0] == "shift" or (first[0] == "mma.ashift" and self.ashift_ordered)
        return kinds in PIPELINED

    def _after(self, warp: int, component: int, what: tuple[str, object]) -> Clock:
        """The operation itself and those of its thread that it comes after, by one pair in order or by several."""
        pipes, known = self.pipes.setdefault(warp, {}), {component: 0}
        for before, operations in pipes.items():
            if self._pipelined(before, what):
                join(known, operations)
        join(pipes.setdefault(what, {}), known)
        return known

    def _report(self, space: str, first: Access, second: Access, views: Views) -> None:
        """An error, or a matter for review where ordinary synchronisation orders the two or they are the same store."""
        key = (space, first.line, second.line, first.write, second.write)
        weakly = views.weak.get(first.component, -1) >= first.time
        same = first.line == second.line and first.kind == second.kind == "st"
        unfenced = space == "shared" and first.kind == "st" and not second.generic  # data that an engine may not see
        forgiven = same or (weakly and not unfenced)
        if key in self.found and (forgiven or self.found[key].verdict is Verdict.error):
            return
        why = ""
        if same:
            why = "; they may store the same"
        elif weakly:
            why = "; only a proxy fence or a tcgen05 fence is missing"
        self.found[key] = Finding(
            verdict=Verdict.review if forgiven else Verdict.error, rule=f"race-{space}-memory",
            message=f"{second} is not ordered after {first}{why}", file=second.file, line=second.line,
            step=second.step, cta=self.cohort.number(0), warp=second.thread,
        )  # fmt: skip

    def _entry(self, views: Views, instr, kind: str, warp: int, write: bool, **more) -> Access:
        fields = {
            "component": views.component, "time": views.time, "actor": f"warp {warp}", "generic": True, "after": (),
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
            kind = WRITERS.get(instr.form.name, "st") if write else "ld"
            self._access("shared", where, self._entry(views, instr, kind, warp, write), views)

    def copy(self, strand, instr, barrier, reads, writes, rows=None) -> None:
        """A tensor or bulk copy: an operation of its own, ordered after what its issuer knows."""
        if not self._watched(strand) or (rows is not None and 0 not in rows):
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
            self._access("shared", places, entry, views)
        if barrier is not None:
            self._touch(instr, warp, barrier, views, views.fenced)
            self._release(barrier, views, {component: 0})
        else:
            self.bulk.setdefault(warp, [{}])[-1][component] = 0

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
            "after": self._after(warp, component, (kind, target)),
        }
        entry = self._entry(views, instr, kind, warp, False, **common)
        self._access("shared", shared, entry, views)
        self._access("tensor", reads, entry, views, tensor=True)
        self._access("tensor", writes, self._entry(views, instr, kind, warp, True, **common), views, tensor=True)
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
            self._access("tensor", where, entry, views, tensor=True)
            self.loads.setdefault((warp, kind), {})[component] = 0

    def allocate(self, strand, instr, column, columns, free) -> None:
        """dealloc must come after everything that used the columns."""
        if not self._watched(strand):
            return
        cells = (np.arange(LANES)[:, None] * COLUMNS + np.arange(column, column + columns)).reshape(-1)
        if free:
            warp = int(strand.warps[0])
            views = self._views(warp)
            views.tick()
            self._access("tensor", cells, self._entry(views, instr, "dealloc", warp, True), views, tensor=True)
        self.spaces["tensor"].forget(cells)

    # ---- synchronisation ---------------------------------------------------------------------------------------------

    def _touch(self, instr, warp: int, barrier: int, views: Views, fenced: Clock | None) -> None:
        """A barrier operation must come after the barrier's initialisation."""
        places = np.arange(barrier, barrier + 8)
        entry = self._entry(views, instr, "mbarrier", warp, False, generic=fenced is None)
        shadow = self.spaces["shared"]
        for index in shadow.writers_of(places):
            if not self._ordered(self.log[index], entry, views.generic, fenced):
                self._report("shared", self.log[index], entry, views)

    def init(self, strand, instr, barrier) -> None:
        """mbarrier.init writes the object."""
        if not self._watched(strand):
            return
        warp = self._issuer(strand)
        self.shared(strand, instr, {warp: np.arange(barrier, barrier + 8)}, True)
        self.barriers.pop(barrier, None)
        self.done.pop(barrier, None)
        self.phases[barrier] = 0

    def _release(self, barrier: int, views: Views, more: Clock | None = None) -> None:
        """Add to the running phase; a phase that completes is there for waits to acquire."""
        self._add(barrier, views, more)
        self._settle(barrier)

    def _add(self, barrier: int, views: Views, more: Clock | None = None) -> None:
        more = more or {}
        message = self.barriers.setdefault(barrier, Message())
        message.add(views.generic | more, views.fenced | more, views.weak | more)

    def _settle(self, barrier: int) -> None:
        state = self.cohort.barriers[barrier].phase
        phase = state if isinstance(state, int) else int(state[0])
        if phase != self.phases.get(barrier, 0) and barrier in self.barriers:
            self.phases[barrier] = phase
            message = self.barriers.pop(barrier)
            self.done.setdefault(barrier, Message()).add(message.generic, message.fenced, message.weak)

    def arrive(self, strand, instr, barrier) -> None:
        """Release."""
        if not self._watched(strand):
            return
        warps = {int(strand.warps[w]) for w, _ in strand.threads()}
        for warp in warps:  # all of them have arrived before the phase is seen to complete
            views = self._views(warp)
            self._touch(instr, warp, barrier, views, None)
            self._add(barrier, views)
        self._settle(barrier)
        for warp in warps:
            self._views(warp).tick()

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
        self._release(barrier, views, self.issued.get(warp, {}))
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
                self.meetings.setdefault((index, generation + 1), Message()).add(
                    views.generic, views.fenced, views.weak
                )
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
                loads = self.loads.pop((warp, kind), {})
                join(views.unpublished, loads)
                join(views.weak, loads)
                join(views.tensor, views.unpublished)
            elif "after_thread_sync" in name:
                join(views.tensor, views.generic)
            elif "before_thread_sync" in name:
                join(views.generic, views.unpublished)
                views.unpublished.clear()
            elif name.startswith(("fence.proxy.async", "fence.mbarrier_init")):
                join(views.fenced, views.generic)
