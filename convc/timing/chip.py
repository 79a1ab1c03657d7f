"""The grid on the chip: CTAs on SMs, in rounds, and what each SM gets of what all share.

A stated scheduler model: SMs are filled round by round with as many CTAs as fit beside each other; a round begins
when the one before has ended. All SMs that are busy ask L2 at the same rate, and get equal shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from convc.timing.engine import Event, Replay
from convc.timing.parameters import Chip
from convc.timing.trace import Contribution, Item, Trace

CTA_BYTES = 1024
"""Shared memory that a CTA takes beyond what it asks for (CUDA programming guide)."""

REGISTERS = 65536
"""Registers of an SM (CUDA programming guide)."""

WARP_REGISTERS = 256
"""Registers are dealt out to a warp in this many (CUDA occupancy calculator)."""

MOST_CTAS = 32
"""CTAs that an SM holds at most (CUDA programming guide)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The parts of an SM that a CTA takes.

    Attributes:
        shared_bytes: of shared memory. columns: of tensor memory. threads: how many.
        registers: of each thread; 0 where nobody knows, which is taken to be few enough.
    """

    shared_bytes: int
    columns: int
    threads: int
    registers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch, timed.

    Attributes:
        cycles: of the SM clock, from the entry of the first CTA to the exit of the last.
        beside: CTAs that an SM holds at the same time. rounds: how many follow each other.
        busy: SMs that have work in the first round.
        l2: bytes a cycle that each of them gets of L2.
        events: of one SM in the first round.
        use: share of the first round's time in which each unit of that SM works.
    """

    cycles: float
    beside: int
    rounds: int
    busy: int
    l2: float
    events: Sequence[Event]
    use: dict[str, float]


def time_launch(trace: Trace, ctas: int, footprint: Footprint, chip: Chip, cold: bool = False) -> Launch:
    """Time a launch of ``ctas`` CTAs that all do what the trace shows."""
    sms = int(chip["chip.sms"]) // trace.ctas * trace.ctas
    clusters = ctas // trace.ctas
    beside = most_beside(footprint, chip)
    slots = sms // trace.ctas
    whole, rest = divmod(clusters, slots * beside)
    first = _round(trace, min(clusters, slots * beside), slots, chip, cold)
    cycles = first.cycles * max(whole, 1)
    rounds = whole
    if whole and rest:
        cycles += _round(trace, rest, slots, chip, cold).cycles
    rounds += bool(rest)
    cycles += (rounds - 1) * chip["launch.replace"]
    return replace(first, cycles=cycles, beside=beside, rounds=rounds)


def most_beside(footprint: Footprint, chip: Chip) -> int:
    """CTAs that fit on an SM."""
    limits = [
        MOST_CTAS,
        int(chip["chip.shared"]) // (footprint.shared_bytes + CTA_BYTES),
        int(chip["chip.threads"]) // footprint.threads,
    ]
    if footprint.columns:
        limits.append(int(chip["chip.tensor_columns"]) // footprint.columns)
    if footprint.registers:
        warp = -(-footprint.registers * 32 // WARP_REGISTERS) * WARP_REGISTERS
        limits.append(REGISTERS // (warp * -(-footprint.threads // 32)))
    return max(1, min(limits))


def _round(trace: Trace, clusters: int, slots: int, chip: Chip, cold: bool) -> Launch:
    """A round of that many clusters on the chip."""
    beside = -(-clusters // slots)
    busy = min(clusters, slots) * trace.ctas
    l2 = min(chip["chip.l2"] / busy, chip["tma.fill"])
    if cold:
        l2 = min(l2, chip["chip.memory"] * 1e3 / chip["chip.clock"] / busy)
    replay = Replay(side_by_side(trace, beside), chip, l2, trace.ctas, cold)
    cycles = replay.run()
    sm = replay.sms[0]
    use = {
        "tensor core": sm.tensor.busy,
        "fill": sm.fill.busy,
        "bulk stores": sm.stores.busy,
        "sectors": sm.sectors.busy,
        "tensor memory": max(lane.busy for lane in sm.lanes),
    }
    share = {name: cycles_busy / cycles for name, cycles_busy in use.items()}
    return Launch(cycles=cycles, beside=beside, rounds=1, busy=busy, l2=l2, events=replay.events, use=share)


def side_by_side(trace: Trace, copies: int) -> Trace:
    """A trace of several clusters that know nothing of each other: rows of the next ones follow."""
    whole = Trace(items={}, works=[], phases={}, arrivals={}, ctas=trace.ctas * copies, prefetches=trace.prefetches)
    for copy in range(copies):
        rows = copy * trace.ctas
        first = len(whole.works)
        whole.works += [replace(work, row=work.row + rows) for work in trace.works]
        for (row, warp), items in trace.items.items():
            whole.items[row + rows, warp] = [_moved(item, rows, first, copy) for item in items]
        for (row, address, number), contributions in trace.phases.items():
            whole.phases[row + rows, address, number] = [_contribution(one, rows, first) for one in contributions]
        for meeting, arrivals in trace.arrivals.items():
            whole.arrivals[*meeting, copy] = [((row + rows, warp), item) for (row, warp), item in arrivals]
    return whole


def _moved(item: Item, rows: int, first: int, copy: int) -> Item:
    """An item of a copy."""
    waits = None if item.waits is None else (item.waits[0] + rows, item.waits[1], item.waits[2])
    meets = None if item.meets is None else (*item.meets, copy)
    leaves = None if item.leaves is None else (*item.leaves, copy)
    return replace(item, works=[work + first for work in item.works], waits=waits, meets=meets, leaves=leaves)


def _contribution(one: Contribution, rows: int, first: int) -> Contribution:
    """A contribution of a copy."""
    warp = None if one.warp is None else (one.warp[0] + rows, one.warp[1])
    return Contribution(warp, one.item, tuple(work + first for work in one.works))
