"""Fences, CTA barriers and cluster barriers (PTX manual, 9.7.13.1 to 9.7.13.4, 9.7.16.11.1)."""

from __future__ import annotations

from convc.auditor.barriers import CtaBarrier
from convc.auditor.clocks import after_fence, join, join_relaxed, proxy_fence
from convc.auditor.effects.registry import Run, effect
from convc.auditor.lanes import LANES, at
from convc.auditor.operands import reader
from convc.auditor.state import Dependents, Warp
from convc.ptx import Instr, Reg

SHARED_KINDS = {"async", "async.shared::cta", "async.shared::cluster"}
"""Proxy fences that are about shared memory."""


@effect("fence.proxy", strict=False)
def _proxy(instr: Instr) -> Run:
    shared = "async" in instr.mods or any(mod.startswith("async.shared") for mod in instr.mods)
    shared = shared or ("async" in instr.mods and any(mod.startswith("shared") for mod in instr.mods))
    only_global = "global" in instr.mods or "async.global" in instr.mods

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        if shared and not only_global:
            warp.cta.cluster.ledger.look("proxy-fence", instr.index)
            proxy_fence(warp.clock)

    return run


@effect("fence.proxy.restrict", strict=False)
def _restricted(instr: Instr) -> Run:
    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        proxy_fence(warp.clock)

    return run


@effect("fence.mbarrier_init", strict=False)
def _initialised(instr: Instr) -> Run:
    def run(warp: Warp, lanes: int) -> None:
        warp.clock["made", warp.id] = warp.tick()
        warp.cta.cluster.ledger.look("barrier-init", instr.index)

    return run


@effect("tcgen05.fence", strict=False)
def _tcgen05(instr: Instr) -> Run:
    before = any("before" in mod for mod in instr.mods)

    def run(warp: Warp, lanes: int) -> None:
        time = warp.tick()
        warp.cta.cluster.ledger.look("tcgen05-fence", instr.index)
        if before:
            warp.clock["handed", warp.id] = time
        else:
            after_fence(warp.clock)

    return run


@effect("bar.warp.sync")
def _warp(instr: Instr) -> Run:
    members = reader(instr.args["membermask"])

    def run(warp: Warp, lanes: int) -> bool | None:
        mask = at(members(warp), lanes)
        if mask is None:
            return None
        if mask & warp.alive & ~lanes:
            warp.waiting_for = "lanes of this warp"
            return True
        return None

    return run


def _barrier(instr: Instr, *, waits: bool) -> Run:
    name = reader(instr.args["a"])
    count = instr.args.get("b")
    threads = reader(count) if count is not None else None
    result = instr.operands[0] if instr.form.name == "bar.red" else None

    def run(warp: Warp, lanes: int) -> bool | None:
        number = at(name(warp), lanes)
        wanted = None if threads is None else at(threads(warp), lanes)
        if number is None or (threads is not None and wanted is None):
            warp.lose(instr, "unknown barrier number or thread count")
            return None
        barrier = warp.cta.named.setdefault(number, CtaBarrier())
        key = f"bar {number}"
        if key in warp.waits:
            if barrier.rounds <= warp.waits[key]:
                return True
            join(warp.clock, barrier.done[warp.waits.pop(key)])
            warp.waiting_for = ""
            if isinstance(result, Reg):
                warp.write(result.slot, None, lanes)
            return None
        warp.tick()
        barrier.everybody = wanted is None
        join(barrier.clock, warp.clock)
        barrier.arrived += LANES if wanted is not None else lanes.bit_count()
        turn = barrier.rounds
        if barrier.arrived >= (warp.cta.alive if wanted is None else wanted):
            barrier.complete()
        if not waits:
            return None
        if barrier.rounds > turn:
            join(warp.clock, barrier.done[turn])
            if isinstance(result, Reg):
                warp.write(result.slot, None, lanes)
            return None
        warp.waits[key] = turn
        warp.waiting_for = f"barrier {number} of the CTA"
        return True

    return run


effect("bar.sync", result=False)(lambda instr: _barrier(instr, waits=True))
effect("bar.red")(lambda instr: _barrier(instr, waits=True))
effect("bar.arrive", result=False)(lambda instr: _barrier(instr, waits=False))


@effect("barrier.cluster.arrive")
def _cluster_arrive(instr: Instr) -> Run:
    relaxed = "relaxed" in instr.mods

    def run(warp: Warp, lanes: int) -> None:
        cluster = warp.cta.cluster
        warp.tick()
        if relaxed:
            join_relaxed(cluster.barrier.clock, warp.clock)
        else:
            join(cluster.barrier.clock, warp.clock)
        warp.waits["cluster"] = len(cluster.barrier.done)
        cluster.barrier.arrived += lanes.bit_count()
        if cluster.barrier.arrived >= sum(cta.alive for cta in cluster.ctas):
            cluster.barrier.complete()

    return run


@effect("barrier.cluster.wait")
def _cluster_wait(instr: Instr) -> Run:
    def run(warp: Warp, lanes: int) -> bool | None:
        barrier = warp.cta.cluster.barrier
        turn = warp.waits.get("cluster")
        if turn is None:
            warp.lose(instr, "no barrier.cluster.arrive precedes this wait")
            return None
        if len(barrier.done) <= turn:
            warp.waiting_for = "the barrier of the cluster"
            return True
        join(warp.clock, barrier.done[turn])
        warp.tick()
        warp.waiting_for = ""
        warp.waits["met"] = warp.time
        return None

    return run


@effect("griddepcontrol")
def _grid(instr: Instr) -> Run:
    wait = "wait" in instr.mods

    def run(warp: Warp, lanes: int) -> None:
        warp.tick()
        if wait:
            warp.grid_waited = True
            warp.clock["waited", 0] = 1
        else:
            warp.cta.cluster.ledger.look("dependent-launch", instr.index)
            warp.cta.dependents.append(Dependents(warp.doer(instr), dict(warp.clock)))

    return run


@effect("setmaxnreg")
def _registers(instr: Instr) -> Run:
    count = reader(instr.args["count"])

    def run(warp: Warp, lanes: int) -> None:
        warp.cta.cluster.ledger.look("register-sum", instr.index)
        warp.register_count = at(count(warp), lanes)
        warp.at_registers = warp.doer(instr)

    return run
