"""The end of a walk: who is stuck, what was left behind, and whether all of it fits together."""

from __future__ import annotations

import math

from convc.auditor.barriers import Mbarrier, Signal
from convc.auditor.clocks import Clock
from convc.auditor.layout import BUFFERS
from convc.auditor.limits import COLUMNS, REGISTERS, certainly_resident, resident
from convc.auditor.program import registers_in, results
from convc.auditor.state import Cluster, Cta, Warp
from convc.ir.findings import Verdict
from convc.ptx import Instr, Kernel, Symbol

FACT = -100
"""The place of what is said of the launch as a whole."""


def judge(cluster: Cluster, kernel: Kernel) -> None:
    """Everything that can be said at the end."""
    _residency(cluster, kernel)
    _register_counts(cluster)
    for cta in cluster.ctas:
        _dependents(cluster, cta)
        _read_only(cluster, cta, kernel)
    stuck = [warp for warp in cluster.warps if not warp.over]
    if cluster.ledger.lost:
        return
    cluster.ledger.look("no-end", FACT)
    if stuck:
        _explain(cluster, stuck)
        return
    for cta in cluster.ctas:
        _left_behind(cluster, cta)


def _explain(cluster: Cluster, stuck: list[Warp]) -> None:
    """No warp can go on: the barrier that the first of them waits for says why."""
    ledger = cluster.ledger
    for cta in cluster.ctas:
        for barrier in cta.barriers.values():
            if barrier.pending <= 0 and barrier.transactions:
                who = barrier.announced or barrier.brought or barrier.maker
                what = (
                    f"phase {barrier.phase} of the mbarrier at byte {barrier.offset} of CTA {cta.number} expects "
                    f"{barrier.expected} bytes, and {barrier.arrived} arrive"
                )
                ledger.accuse("transaction-bytes", what, who, barrier.brought)
                return
    if any(all("lanes" in reason for reason, _ in warp.reasons) for warp in stuck):
        at = stuck[0].reasons[0][1] if stuck[0].reasons else None
        ledger.unknown(at, "diverged lanes of a warp wait for each other at different instructions", lost=True)
        return
    waits = [(warp, reason, instr) for warp in stuck for reason, instr in warp.reasons if "lanes" not in reason]
    for warp, reason, instr in waits:
        barrier = warp.cta.barriers.get(int(reason.rsplit(" ", 1)[1])) if "mbarrier" in reason else None
        if barrier is not None and 0 < barrier.pending < barrier.count:
            what = (
                f"warps wait for phase {barrier.phase} of the mbarrier at byte {barrier.offset}, which expects "
                f"{barrier.count} arrivals and gets {barrier.count - barrier.pending}"
            )
            ledger.accuse("arrival-count", what, warp.doer(instr), barrier.maker)
            return
    who = ", ".join(f"CTA {warp.cta.number} warp {warp.index} for {reason}" for warp, reason, _ in waits[:4])
    first, _, instr = waits[0]
    ledger.accuse("no-end", f"deadlock: no warp can continue; waiting are {who}", first.doer(instr))


def _left_behind(cluster: Cluster, cta: Cta) -> None:
    """What a CTA leaves open when its threads are gone."""
    ledger = cluster.ledger
    for held in cta.allocations:
        if not held.freed:
            what = f"{held.columns} columns of tensor memory are not freed before exit"
            ledger.accuse("tensor-memory-alloc", what, held.who)
    known = cta.clock_at_end()
    for barrier in cta.barriers.values():
        if barrier.pending <= 0 and barrier.transactions and barrier.announced is not None:
            what = f"a phase expects {barrier.expected} bytes, and {barrier.arrived} arrive"
            ledger.accuse("transaction-bytes", what, barrier.announced, barrier.brought)
        for signal in barrier.signals:
            _awaited(cluster, cta, barrier, signal, known)
    for who, warp, time in cta.visits:
        ledger.look("producer-tail", who.instr.index)
        if known.get(("did", warp), 0) < time:
            what = f"CTA {cta.number} may have exited when its shared memory is used: it does not wait for this access"
            ledger.accuse("producer-tail", what, who)


def _awaited(cluster: Cluster, cta: Cta, barrier: Mbarrier, signal: Signal, known: Clock) -> None:
    """What others did to a barrier has to be known to its CTA when it goes."""
    ledger = cluster.ledger
    ledger.look("producer-tail", signal.who.instr.index)
    if known.get(("phase", barrier.key), 0) > signal.phase:
        return
    if not signal.asynchronous and known.get(("did", signal.warp), 0) >= signal.time:
        return
    what = (
        f"CTA {cta.number} may have exited when this reaches its mbarrier at byte {barrier.offset}: it does not wait "
        f"for phase {signal.phase} of it"
    )
    ledger.accuse("producer-tail", what, signal.who, barrier.maker)


def _dependents(cluster: Cluster, cta: Cta) -> None:
    """The next grid may begin once the CTA says so: behind its own allocation."""
    for said in cta.dependents:
        for held in cta.allocations:
            if said.clock.get(("did", held.warp), 0) < held.time:
                what = (
                    "the dependent grid may start and allocate tensor memory before this CTA does: "
                    "launch_dependents is not ordered after tcgen05.alloc"
                )
                cluster.ledger.accuse("dependent-launch", what, said.who, held.who)


def _read_only(cluster: Cluster, cta: Cta, kernel: Kernel) -> None:
    """Loads of what a preceding kernel may still write."""
    names = cluster.layout.buffers
    waits = any(warp.grid_waited for warp in cta.warps)
    for load in cta.nc_loads:
        if not waits:
            continue
        if cluster.in_front is None:
            what = (
                "the launch file does not say (dependent) whether the preceding kernel writes what this "
                "ld.global.nc reads"
            )
            cluster.ledger.unknown(load.who.instr, what)
            continue
        found = {names[load.buffer - 1]} if load.buffer is not None else _reached(cluster, kernel, load.who.instr)
        written = found & set(cluster.in_front)
        if written and len(found) == 1:
            (name,) = found
            what = f"buffer {name!r} is read by ld.global.nc, and the preceding kernel may write it while this one runs"
            cluster.ledger.accuse("read-only-load", what, load.who)
        elif written or not found:
            cluster.ledger.unknown(load.who.instr, "unknown buffer of this ld.global.nc")


def _reached(cluster: Cluster, kernel: Kernel, instr: Instr) -> set[str]:
    """The buffers whose addresses are among the numbers that the address of a load is made of."""
    layout = cluster.layout
    pointers = {name: layout.scalars.get((address, 8), 0) >> BUFFERS for name, address in layout.parameters.items()}
    writers: dict[int, list[Instr]] = {}
    for each in kernel.body:
        for slot in results(each):
            writers.setdefault(slot, []).append(each)
    found: set[str] = set()
    seen: set[int] = set()
    waiting = list(registers_in(instr.args["a"]))
    while waiting:
        slot = waiting.pop()
        if slot in seen:
            continue
        seen.add(slot)
        for each in writers.get(slot, ()):
            operand = each.args.get("a")
            base = getattr(operand, "base", None)
            if each.form.name == "ld" and isinstance(base, Symbol):
                number = pointers.get(base.name, 0)
                found |= {layout.buffers[number - 1]} if 0 < number <= len(layout.buffers) else set()
            elif each.form.name != "ld.nc":
                for source in each.operands[1:]:
                    waiting += registers_in(source)
    return found


def _register_counts(cluster: Cluster) -> None:
    """Counts that warps set: all together, and alike in a warpgroup."""
    ledger = cluster.ledger
    for cta in cluster.ctas:
        setters = [warp for warp in cta.warps if warp.register_count is not None and warp.at_registers is not None]
        total = sum(32 * (warp.register_count or 0) for warp in setters)
        if total > REGISTERS:
            ledger.accuse(
                "register-sum", f"warps set {total} registers in all, an SM has {REGISTERS}", setters[0].at_registers
            )
        for warp in setters:
            others = [other for other in cta.warps if other.index // 4 == warp.index // 4]
            if not ledger.lost and any(other.register_count != warp.register_count for other in others):
                what = "the warps of a warpgroup do not set the same count of registers"
                ledger.accuse("register-sum", what, warp.at_registers)


def _residency(cluster: Cluster, kernel: Kernel) -> None:
    """Clusters that hold columns and wait for peers that may not get any."""
    launch = cluster.launch
    if launch is None or len(cluster.ctas) < 2 or math.prod(launch.grid) <= len(cluster.ctas):
        return
    for cta in cluster.ctas:
        for held in cta.allocations:
            cluster.ledger.look("residency", held.who.instr.index)
            fit = resident(cluster.layout, kernel, launch)
            if fit * held.columns > COLUMNS:
                what = (
                    f"shared memory and threads let {fit} CTAs onto an SM, which want {fit} x {held.columns} of its "
                    f"{COLUMNS} columns: unless registers keep some away, CTAs that have columns may wait for peers "
                    "that get none"
                )
                sure = certainly_resident(fit, kernel, launch) * held.columns > COLUMNS
                cluster.ledger.accuse("residency", what, held.who, level=Verdict.error if sure else Verdict.review)
