"""tcgen05.commit and wait, and cp and shift, which are queued on the tensor core too.

tcgen05.fence is with the other fences, in `convc.machine.isa.sync.barriers`.
"""

from __future__ import annotations

import functools

import numpy as np

from convc.machine.isa.observe import actors
from convc.machine.isa.operands import address_of, modifier
from convc.machine.isa.registry import BLIND, Run, Traits, op
from convc.machine.isa.sync.barriers import notify_fence
from convc.machine.isa.sync.parties import Party, act, parties_of
from convc.machine.isa.tcgen05.collective import is_pair
from convc.machine.isa.tcgen05.mma import issues, notify_operation
from convc.machine.isa.threads import threads_active
from convc.machine.memory.mbarrier import Arrival, Count
from convc.machine.state.observer import Observer
from convc.machine.state.pending_registers import finish
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.tensor_core.copy_shift import Copy, Shift
from convc.ptx import Instr


@op("tcgen05.commit", traits=BLIND, result=False)
def commit(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.commit [mbar] {, mask}: one arrival when the thread's earlier asynchronous tcgen05 operations are done.

    With a mask, at the same offset in every CTA of the cluster that it names.
    """
    parties = parties_of(instr, table, own=False)
    named = instr.args.get("mask")
    mask = None if named is None else table.slot(named, 16)

    def one(strand: Strand, party: Party) -> None:
        cohort = strand.cohort
        core = cohort.core
        barrier = cohort.barrier(party.where, "tcgen05.commit")
        if mask is None:
            everyone: list[tuple[np.ndarray | None, Count]] = [(party.homes, strand.count)]
            pairs = [] if cohort.observer is None else [_own(strand, party.homes)]
        else:
            named = _named(strand, party.amounts[0])
            everyone = [(to, count) for _, to, count in named]
            pairs = [(senders, to) for senders, to, _ in named]
        for signalled, count in everyone:
            cohort.barrier(party.where, "tcgen05.commit", signalled, count)
        work = core.take()
        cohort.counters.commit += threads_active(strand)

        def complete() -> None:
            core.perform(work)
            for signalled, count in everyone:
                barrier.arrive_each(cohort.ctas, signalled, count, Arrival())

        if cohort.pending.eager:
            complete()
        else:
            cohort.pending.tensor(complete)
        if cohort.observer is not None:
            _notify(strand, instr, cohort.observer, party.where, pairs)

    def run(strand: Strand) -> None:
        for party in parties(strand, [] if mask is None else [strand.regs[mask]]):
            act(strand, party, functools.partial(one, party=party))

    return run


def _named(strand: Strand, word: int | np.ndarray) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(CTAs that commit, CTAs that their multicast mask names, arrivals), rank by rank."""
    cohort = strand.cohort
    everyone = cohort.rows_or_all(strand.rows)
    words = np.broadcast_to(word, everyone.shape)
    count = np.broadcast_to(strand.count, everyone.shape)
    senders = [((words >> rank) & 1 == 1) & (count > 0) for rank in range(cohort.cluster_size)]
    return [
        (everyone[s], everyone[s] - cohort.place.rank[everyone[s]] + rank, count[s])
        for rank, s in enumerate(senders)
        if s.any()
    ]


def _own(strand: Strand, homes: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(CTAs that commit, CTAs whose barrier each of them names)."""
    everyone = strand.cohort.rows_or_all(strand.rows)
    active = np.broadcast_to(strand.count, everyone.shape) > 0
    return everyone[active], (everyone if homes is None else homes)[active]


def _notify(
    strand: Strand, instr: Instr, observer: Observer, barrier: int, pairs: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    homes: dict[int, list[int]] = {}
    for senders, to in pairs:
        for row, home in zip(senders.tolist(), to.tolist(), strict=True):
            homes.setdefault(row, []).append(home)
    signals = [
        (row, (warp, lane), home)
        for _, row, _, warp, lanes in actors(strand)
        for lane in lanes.tolist()
        for home in homes.get(row, ())
    ]
    observer.commit(strand, instr, barrier, signals)


@op("tcgen05.wait", traits=BLIND | Traits.EARLY, result=False)
def wait(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.wait::ld, wait::st: the warp's loads have filled their registers, its stores their cells."""
    loads = "wait::ld" in instr.mods

    def run(strand: Strand) -> None:
        if loads and strand.loads:
            strand.loads = finish(strand, strand.loads)
        elif not loads and strand.stores:
            strand.stores = finish(strand, strand.stores)
        notify_fence(strand, instr)

    return run


@op("tcgen05.cp", traits=BLIND, result=False)
def copy(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.cp.shape{.multicast}{.format} [taddr], descriptor."""
    target = address_of(instr.args["taddr"], table)
    source = table.slot(instr.args["sdesc"], 64)
    shape = modifier(instr, "shape")
    multicast = instr.slots.get("multicast")
    decompress = instr.slots.get("format")
    pair = is_pair(instr)
    name = shape if multicast is None else f"{shape}.{multicast}"
    rows_read, bits = map(int, shape.removesuffix("b").split("x"))
    size = rows_read * bits // 8 * (2 if pair else 1)

    def run(strand: Strand) -> None:
        values = [target(strand.regs), strand.regs[source]]
        for thread in strand.threads():
            for (taddr, descriptor), rows, issuers in issues(strand, thread, values, pair):
                item = Copy(shape, multicast, decompress, taddr, descriptor, rows, instr)
                strand.cohort.core.move(item)
                issued = strand.row_count if issuers is None else len(issuers)
                strand.cohort.counters.copy(name, issued, issued * size)
                kind = "cp.4x256b" if item.shape == "4x256b" else "cp"
                notify_operation(strand, kind, item, thread, issuers, pair)

    return run


@op("tcgen05.shift", traits=BLIND, result=False)
def shift(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.shift.down [taddr]."""
    target = address_of(instr.args["taddr"], table)
    pair = is_pair(instr)

    def run(strand: Strand) -> None:
        values = [target(strand.regs)]
        for thread in strand.threads():
            for (taddr,), rows, issuers in issues(strand, thread, values, pair):
                item = Shift(taddr, rows, instr)
                strand.cohort.core.move(item)
                strand.cohort.counters.shift += strand.row_count if issuers is None else len(issuers)
                notify_operation(strand, "shift", item, thread, issuers, pair)

    return run
