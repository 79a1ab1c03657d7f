"""Bulk copies of plain bytes: cp.async.bulk, cp.reduce.async.bulk, st.bulk (PTX manual).

Sizes and addresses are multiples of 16 bytes. Copies into shared memory end with a complete_tx of the size on a
barrier in the destination CTA; copies into global memory belong to the issuing thread's bulk group.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.errors import MachineFault
from convc.machine.isa.copies.issue import (
    CopyTarget,
    GlobalSpan,
    IssueGroup,
    aligned,
    complete,
    copy_target,
    global_span,
    issue_groups,
    own_address,
    own_target,
    shared_span,
)
from convc.machine.isa.copies.perform import check_written, note_writer, once, perform_load, perform_store
from convc.machine.isa.observe import notify_copy
from convc.machine.isa.operands import address_of, modifier, number
from convc.machine.isa.registry import BLIND, ORDINARY, Run, op
from convc.machine.state.cohort import Cohort
from convc.machine.state.counters import copies_of
from convc.machine.state.observer import GlobalRange, LaneAccess, Lines
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.tma.reduce import Reduction, reduce_into, reduction
from convc.ptx import Instr


@op("cp.async.bulk.load", traits=ORDINARY, result=False)
def bulk_load(instr: Instr, table: SlotTable) -> Run:
    """[dst], [src], size, [mbar] {, mask}: global to shared memory of one CTA or several."""
    args = instr.args
    name = "cp.async.bulk"
    destination, barrier, source = (address_of(args[key], table) for key in ("dst", "mbar", "src"))
    size_slot = table.slot(args["size"], 32)
    mask = [table.slot(args["mask"], 16)] if instr.slots.get("multicast") else []
    local = instr.slots["dst"] == "shared::cta"

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        origin = source(regs)
        scalars = [destination(regs), barrier(regs), regs[size_slot], *(regs[s] for s in mask)]
        for group in issue_groups(strand, scalars):
            where, signal, size, *ranks = group.values
            if local:
                target = own_target(cohort, group.rows, where, signal)
            else:
                target = copy_target(cohort, group.rows, where, signal, ranks[0] if ranks else None)
            aligned(name, **{"shared address": target.address, "size": size})
            span = global_span(cohort.launch.memory, name, group.pick(strand, origin), size)
            perform_load(strand, instr, group, _load, target, span)

    return run


def _load(strand: Strand, instr: Instr, group: IssueGroup, target: CopyTarget, span: GlobalSpan) -> None:
    cohort = strand.cohort
    data = span.buffer.data
    if isinstance(span.offset, np.ndarray):
        found = data[target.spread(span.offset)[:, None] + np.arange(span.size)]
    else:
        found = data[span.offset : span.offset + span.size]
    places = _deliver(strand, instr, target, span.size, found)
    notify_copy(strand, instr, group, target, writes=places, memory=_reach(span, "ld"))
    count = cohort.ctas if target.rows is None else len(target.rows)
    copies_of(cohort.counters.bulk_loads, span.buffer.name).add(count, span.size)


def _reach(span: GlobalSpan, kind: str, chosen: np.ndarray | None = None) -> GlobalRange:
    """The bytes of a span, or those that are ``chosen`` (int (n,), counted from its start)."""
    offset = span.offset

    def lines(which: np.ndarray) -> list[Lines]:
        if not span.size:
            return []
        starts = np.broadcast_to(offset[which] if isinstance(offset, np.ndarray) else offset, which.shape)[:, None]
        return [(which, starts, span.size)] if chosen is None else [(which, starts + chosen, 1)]

    return GlobalRange(buffer=span.buffer.name, kind=kind, lines=lines)


def _deliver(
    strand: Strand,
    instr: Instr,
    target: CopyTarget,
    size: int,
    data: np.ndarray,
    operation: Reduction | None = None,
) -> np.ndarray:
    """Put bytes into (or combine them with) shared memory of the destinations, and signal their barriers.

    Returns the places written.
    """
    cohort = strand.cohort
    where = shared_span(cohort, instr.form.name, target.address, size)
    rows = slice(None) if target.rows is None else target.rows
    if operation is None:
        cohort.shared.part(where.start, where.stop)[rows, where] = data
        cohort.shared.written.mark(where, target.rows)
    else:
        check_written(cohort, instr, where.start, ((0, size),), target.rows)
        kind, combine = operation
        for row, own in zip(np.arange(cohort.ctas)[rows], data, strict=True):
            held = cohort.shared.bytes[row, where].view(kind)
            held[:] = combine(held, own.view(kind))
    complete(cohort, target, size, instr.form.name)
    return np.arange(int(where.start), int(where.stop))


@op("cp.async.bulk.peer", "cp.reduce.async.bulk.peer", traits=ORDINARY, result=False)
def bulk_peer(instr: Instr, table: SlotTable) -> Run:
    """[dst], [src], size, [mbar]: shared memory of this CTA to that of a CTA of the cluster."""
    args = instr.args
    name = instr.form.name
    destination, barrier, source = (address_of(args[key], table) for key in ("dst", "mbar", "src"))
    size_slot = table.slot(args["size"], 32)
    operation = _operation(instr)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        for group in issue_groups(strand, [destination(regs), source(regs), barrier(regs), regs[size_slot]]):
            where, origin, signal, size = group.values
            origin = own_address(cohort, group.rows, origin, "the source of a bulk copy")
            target = copy_target(cohort, group.rows, where, signal)
            aligned(name, destination=target.address, source=origin, size=size)
            perform_load(strand, instr, group, _send, origin, target, size, operation)

    return run


def _operation(instr: Instr) -> Reduction | None:
    """How a reduction combines; None for a copy."""
    return reduction(modifier(instr, "op"), modifier(instr, "type")) if "op" in instr.slots else None


def _send(
    strand: Strand,
    instr: Instr,
    group: IssueGroup,
    origin: int,
    target: CopyTarget,
    size: int,
    operation: Reduction | None,
) -> None:
    """``size`` bytes at shared address ``origin`` of the group's CTAs to a CTA of each one's cluster."""
    data = _from_shared(strand.cohort, instr, origin, size, group.rows)
    places = _deliver(strand, instr, target, size, data, operation)
    notify_copy(strand, instr, group, target, reads=np.arange(origin, origin + size), writes=places)
    strand.cohort.counters.peer_copies.add(group.count, size)


def _from_shared(cohort: Cohort, instr: Instr, origin: int, size: int, rows: np.ndarray | None) -> np.ndarray:
    """Bytes (ctas, size) of the shared memory of the issuing CTAs."""
    where = shared_span(cohort, instr.form.name, origin, size)
    check_written(cohort, instr, origin, ((0, size),), rows)
    return cohort.shared.part(where.start, where.stop)[slice(None) if rows is None else rows, where].copy()


@op("cp.async.bulk.store", "cp.reduce.async.bulk.store", traits=ORDINARY, result=False)
def bulk_store(instr: Instr, table: SlotTable) -> Run:
    """[dst], [src], size {, byte mask}: shared to global memory."""
    args = instr.args
    name = instr.form.name
    target = address_of(args["dst"], table)
    source = address_of(args["src"], table)
    size_slot = table.slot(args["size"], 32)
    mask = [table.slot(args["bytes"], 16)] if instr.slots.get("cp_mask") else []
    operation = _operation(instr)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        destination = target(regs)
        for group in issue_groups(strand, [source(regs), regs[size_slot], *(regs[s] for s in mask)]):
            origin, size, *chosen = group.values
            origin = own_address(cohort, group.rows, origin, "the source of a bulk copy")
            aligned(name, **{"shared address": origin, "size": size})
            span = global_span(cohort.launch.memory, name, group.pick(strand, destination), size)
            written = np.arange(size)
            if chosen:
                written = written[(chosen[0] >> (written & 15)) & 1 == 1]
            perform_store(strand, instr, group, _store, origin, span, written, operation)

    if operation is not None:
        return run
    slots = [size_slot, *mask]
    return once(run, lambda strand: [target(strand.regs), source(strand.regs), *(strand.regs[s] for s in slots)])


def _store(
    strand: Strand,
    instr: Instr,
    group: IssueGroup,
    origin: int,
    span: GlobalSpan,
    written: np.ndarray,
    operation: Reduction | None,
) -> None:
    """Copy, or combine, shared memory from address ``origin`` on of the group's CTAs into a span of global memory.

    ``written`` has the numbers of the bytes that are copied; a reduction takes all.
    """
    cohort = strand.cohort
    launch = cohort.launch
    watch = launch.memory.watch
    buffer = span.buffer
    size = span.size
    data = _from_shared(cohort, instr, origin, size, group.rows)
    launch.about_to_change(buffer.name)
    offsets = np.broadcast_to(span.offset, len(data))
    switches = launch.switches
    backward = switches.colliding_stores == "lowest" if operation is None else switches.atomic_order == "descending"
    for i in range(len(data))[:: -1 if backward else 1]:
        start = int(offsets[i])
        own = data[i]
        if operation is None:
            buffer.data[start + written] = own[written]
        else:
            kind, combine = operation
            index = np.arange(size // kind.itemsize)
            reduce_into(buffer.data[start : start + size].view(kind), index, own.view(kind), combine, False)
        if watch is not None and watch - buffer.base - start in written:
            note_writer(strand, instr, group, i)
    launch.contents_changed(buffer.name)
    kind = "st" if operation is None else "atom"
    memory = _reach(span, kind, written if len(written) < size else None)
    notify_copy(strand, instr, group, None, reads=np.arange(origin, origin + size), memory=memory)
    copies_of(cohort.counters.bulk_stores, buffer.name).add(group.count, len(written))


@op("st.bulk", traits=ORDINARY, result=False)
def fill_zero(instr: Instr, table: SlotTable) -> Run:
    """st.bulk [a], size, 0: zero a range of shared memory."""
    target = address_of(instr.args["a"], table)
    size_slot = table.slot(instr.args["size"], 64)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        for group in issue_groups(strand, [target(regs), regs[size_slot]]):
            address = own_address(cohort, group.rows, group.values[0], "st.bulk")
            size = group.values[1]
            if address % 8 or size % 8:
                raise MachineFault(f"st.bulk: address {address:#x} and size {size} must be multiples of 8")
            where = shared_span(cohort, "st.bulk", address, size)
            cohort.shared.bytes[slice(None) if group.rows is None else group.rows, where] = 0
            cohort.shared.written.mark(where, group.rows)
            _notify_zeros(strand, instr, group, np.arange(int(where.start), int(where.stop)))

    return once(run, lambda strand: [target(strand.regs), strand.regs[size_slot]])


def _notify_zeros(strand: Strand, instr: Instr, group: IssueGroup, places: np.ndarray) -> None:
    """Tell the observer of a thread's st.bulk in the watched CTAs."""
    cohort = strand.cohort
    if cohort.observer is None:
        return
    at, lane = group.thread
    warp = int(strand.warps[at])
    lanes = np.array([lane])
    rows = range(cohort.watched) if group.rows is None else group.rows[group.rows < cohort.watched].tolist()
    cohort.observer.shared(strand, instr, "st", [LaneAccess(row, warp, row, lanes, places[None]) for row in rows])


Step = Callable[[Cohort, tuple[int, int], np.ndarray | None], None]
"""What a thread, (warp number, lane), does in the CTAs of some rows; None for all."""


@op("cp.async.bulk.commit_group", traits=BLIND, result=False)
def commit_group(instr: Instr, table: SlotTable) -> Run:
    """cp.async.bulk.commit_group: close the thread's group of bulk copies."""

    def commit(cohort: Cohort, thread: tuple[int, int], rows: np.ndarray | None) -> None:
        cohort.bulk_groups.commit(thread, rows)

    def run(strand: Strand) -> None:
        _for_issuers(strand, commit)
        if strand.cohort.observer is not None:
            strand.cohort.observer.commit_group(strand, instr)

    return run


@op("cp.async.bulk.wait_group", traits=BLIND, result=False)
def wait_group(instr: Instr, table: SlotTable) -> Run:
    """cp.async.bulk.wait_group{.read} n: wait until at most n groups are under way."""
    left = number(instr.args["n"])

    def run(strand: Strand) -> None:
        waits: list[tuple[tuple[int, int], int]] = []

        def wait(cohort: Cohort, thread: tuple[int, int], rows: np.ndarray | None) -> None:
            waits.append((thread, cohort.bulk_groups.wait(thread, rows, left)))

        _for_issuers(strand, wait)
        strand.cohort.pending.finish_stores(waits)
        if strand.cohort.observer is not None:
            strand.cohort.observer.wait_group(strand, instr, left)

    return run


def _for_issuers(strand: Strand, step: Step) -> None:
    """Take a step for those active threads that have issued bulk copies: it matters to no other."""
    cohort = strand.cohort
    for warp, lane in strand.threads():
        thread = (int(strand.warps[warp]), lane)
        if cohort.bulk_groups.known(thread):
            if strand.mask is None or strand.mask.shape[0] == 1:
                step(cohort, thread, strand.rows)
                continue
            for group in issue_groups(strand, []):
                if group.thread == (warp, lane):
                    step(cohort, thread, group.rows)
