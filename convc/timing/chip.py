"""The grid on the chip: CTAs on SMs, in rounds, and what each SM gets of what all share.

A stated scheduler model: SMs are filled round by round with as many CTAs as fit beside each other; a round begins
when the one before has ended. All SMs that are busy ask L2 at the same rate, and get equal shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from convc.timing.engine import Event, Replay
from convc.timing.parameters import Chip
from convc.timing.tensor_core import read_a_cycles, read_b_cycles
from convc.timing.trace import Contribution, Item, Trace, Work

CTA_BYTES = 1024
"""Shared memory that a CTA takes beyond what it asks for (CUDA programming guide)."""

MOST_CTAS = 32
"""CTAs that an SM holds at most (CUDA programming guide)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The parts of an SM that a CTA takes.

    Attributes:
        shared_bytes: of shared memory. columns: of tensor memory. threads: how many.
    """

    shared_bytes: int
    columns: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch, timed.

    Attributes:
        cycles: of the SM clock, from the entry of the first CTA to the exit of the last.
        beside: CTAs that an SM holds at the same time. rounds: how many follow each other.
        busy: SMs that have work in the first round.
        l2: bytes a cycle that each of them gets of L2.
        replay: of one cluster's SMs in the first round.
        use: share of the first round's time in which each unit of the first of them works; ``L2`` and ``memory``: of
            what all SMs that are busy could get.
        clusters: of each round. lengths: cycles of each.
    """

    cycles: float
    beside: int
    rounds: int
    busy: int
    l2: float
    replay: Replay
    use: dict[str, float]
    clusters: tuple[int, ...]
    lengths: tuple[float, ...]

    @property
    def events(self) -> Sequence[Event]:
        """Of the first round, on the SMs of one cluster."""
        return self.replay.events


def time_launch(trace: Trace, ctas: int, footprint: Footprint, chip: Chip, cold: bool = False) -> Launch:
    """Time a launch of ``ctas`` CTAs that all do what the trace shows."""
    sms = int(chip["chip.sms"]) // trace.ctas * trace.ctas
    clusters = ctas // trace.ctas
    beside = most_beside(footprint, chip)
    slots = sms // trace.ctas
    whole, rest = divmod(clusters, slots * beside)
    first = _round(trace, min(clusters, slots * beside), slots, chip, cold)
    each = first.clusters * max(whole, 1)
    lengths = (first.cycles,) * max(whole, 1)
    if whole and rest:
        each += (rest,)
        lengths += (_round(trace, rest, slots, chip, cold).cycles,)
    rounds = len(lengths)
    cycles = sum(lengths) + (rounds - 1) * chip["launch.replace"]
    return replace(first, cycles=cycles, beside=beside, rounds=rounds, clusters=each, lengths=lengths)


def most_beside(footprint: Footprint, chip: Chip) -> int:
    """CTAs that fit on an SM; registers, which ptxas deals out, are taken to suffice."""
    limits = [
        MOST_CTAS,
        int(chip["chip.shared"]) // (footprint.shared_bytes + CTA_BYTES),
        int(chip["chip.threads"]) // footprint.threads,
    ]
    if footprint.columns:
        limits.append(int(chip["chip.tensor_columns"]) // footprint.columns)
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
    return Launch(
        cycles=cycles,
        beside=beside,
        rounds=1,
        busy=busy,
        l2=l2,
        replay=replay,
        use=_use(replay, cycles, busy, cold),
        clusters=(clusters,),
        lengths=(cycles,),
    )


def _use(replay: Replay, cycles: float, busy: int, cold: bool) -> dict[str, float]:
    """Share of a round in which each resource works; of the read port what MMAs, tcgen05.cp and bulk stores read."""
    chip = replay.chip
    units = {name: unit.busy for name, unit in replay.sms[0].units.items()}
    lanes = [units.pop(name) for name in list(units) if name.startswith("tensor memory")]
    mine = [work for work in replay.trace.works if work.row % len(replay.sms) == 0]
    port = sum(port_cycles(work, chip) for work in mine)
    read = sum(work.bytes - work.filled for work in mine if work.kind == "load") * busy
    spent = units | {"tensor memory": max(lanes), "read port": port, "L2": read / chip["chip.l2"]}
    if cold:
        spent["memory"] = read / (chip["chip.memory"] * 1e3 / chip["chip.clock"])
    return {name: worked / cycles for name, worked in spent.items()}


def port_cycles(work: Work, chip: Chip) -> float:
    """Cycles of the port through which shared memory is read, for a work."""
    if work.mma is not None:
        return read_a_cycles(work.mma, chip) + read_b_cycles(work.mma, chip)
    return work.bytes / chip["shared_memory.read_port"] if work.kind in ("cp", "store") else 0.0


def side_by_side(trace: Trace, copies: int) -> Trace:
    """A trace of several clusters that know nothing of each other: rows of the next ones follow."""
    if copies == 1:
        return trace
    whole = Trace(items={}, works=[], phases={}, arrivals={}, ctas=trace.ctas * copies, prefetches=trace.prefetches)
    for copy in range(copies):
        rows = copy * trace.ctas
        first = len(whole.works)
        whole.works += [replace(work, row=work.row + rows) for work in trace.works]
        for (row, warp), items in trace.items.items():
            whole.items[row + rows, warp] = [_moved(item, rows, first, copy) for item in items]
        for (row, address, number), contributions in trace.phases.items():
            whole.phases[row + rows, address, number] = [_contribution(one, rows, first) for one in contributions]
        whole.barriers |= {(row + rows, address): name for (row, address), name in trace.barriers.items()}
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
