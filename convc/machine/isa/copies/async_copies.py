"""cp.async: each thread copies 4, 8 or 16 bytes from global to shared memory (PTX manual, "cp.async").

When is up to the completion policy, see `completion`. Where the simulator copies at once, the groups and their waits
change nothing, and cp.async.mbarrier.arrive arrives at once.
"""

from __future__ import annotations

import functools

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.completion import named
from convc.machine.base.values import Value, array
from convc.machine.isa.memory.shared_space import shared_offset
from convc.machine.isa.observe import notify_shared
from convc.machine.isa.operands import address_of, number, reader
from convc.machine.isa.registry import ORDINARY, Run, op
from convc.machine.isa.sync.parties import Party, act, parties_of
from convc.machine.isa.threads import rows_of, thread_shape
from convc.machine.memory.mbarrier import Arrival
from convc.machine.state.cohort import Cohort
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr


@op("cp.async", traits=ORDINARY, result=False)
def async_copy(instr: Instr, table: SlotTable) -> Run:
    """[dst], [src], size {, src_size | ignore_src}: bytes past src_size are zeros; ignore_src means src_size 0."""
    args = instr.args
    size = number(args["size"])
    target = address_of(args["dst"], table)
    source = address_of(args["src"], table)
    limit = table.optional(args.get("src_size"), 32)
    ignore = args.get("ignore_src")
    ignored = None if ignore is None else reader(ignore, table)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        regs = strand.regs
        cohort.core.seal()
        shape = thread_shape(strand)
        active = np.broadcast_to(True if strand.mask is None else strand.mask, shape)
        asked: Value = size
        if limit is not None:
            asked = regs[limit]
        elif ignored is not None:
            asked = np.where(array(ignored(regs), 1), 0, size)
        wanted = np.broadcast_to(asked, shape)[active]
        if wanted.size and int(wanted.max()) > size:
            raise MachineFault(f"cp.async: src-size must be at most {size}, got {int(wanted.max())}")
        origin = np.broadcast_to(array(source(regs), 64), shape)[active]
        offset = shared_offset(strand, target(regs), size, "cp.async")
        row = np.broadcast_to(rows_of(strand), shape)[active]
        place = np.broadcast_to(np.asarray(offset), shape)[active].astype(np.int64)
        if cohort.pending.eager:
            _copy(cohort, size, origin, wanted, row, place)
        else:
            operands = origin, wanted, row, place

            def some(chosen: np.ndarray) -> None:
                named(instr, functools.partial(_copy, cohort, size, *(o[chosen] for o in operands)))()

            cohort.copy_groups.issue(_threads(strand), some)
        if cohort.observer is not None:
            notify_shared(strand, instr, "cp.async", offset, size)
            _notify_sources(strand, instr, origin, wanted, active)

    return run


def _threads(strand: Strand) -> np.ndarray:
    """Numbers in the cohort of the active threads, int64."""
    numbers = (rows_of(strand) * strand.cohort.warps + strand.warps[None, :, None]) * 32 + np.arange(32)
    return numbers.reshape(-1) if strand.mask is None else numbers[np.broadcast_to(strand.mask, numbers.shape)]


def _notify_sources(strand: Strand, instr: Instr, origin: np.ndarray, wanted: np.ndarray, active: np.ndarray) -> None:
    """Tell the observer what the ``active`` threads read: ``wanted`` bytes from ``origin`` on, each (threads,)."""
    observer = strand.cohort.observer
    if observer is None:
        return
    for count in np.unique(wanted[wanted > 0]).tolist():
        buffer, start = strand.cohort.launch.memory.locate(origin[wanted == count], 1)
        offset = np.zeros(active.shape, np.int64)
        taking = np.zeros(active.shape, bool)
        taking[active] = wanted == count
        offset[taking] = start
        observer.global_access(strand, instr, "cp.async", buffer.name, offset, count, taking)


def _copy(
    cohort: Cohort, size: int, origin: np.ndarray, wanted: np.ndarray, row: np.ndarray, place: np.ndarray
) -> None:
    """For each thread: ``wanted`` bytes at the global address ``origin`` to shared memory of the CTA ``row``."""
    cohort.shared.bytes[row[:, None], place[:, None] + np.arange(size)] = _fetch(cohort, origin, wanted, size)
    cohort.shared.written.mark_each(row, place, size)
    cohort.counters.global_load_bytes += int(wanted.sum())


def _fetch(cohort: Cohort, origin: np.ndarray, wanted: np.ndarray, size: int) -> np.ndarray:
    """Bytes (threads, size): ``wanted`` of them from each address, zeros behind."""
    data = np.zeros((origin.size, size), np.uint8)
    if (origin[wanted > 0] & np.uint64(size - 1)).any():
        raise MachineFault(f"cp.async: a {size}-byte copy needs a global address that is a multiple of {size}")
    for count in np.unique(wanted).tolist():
        chosen = wanted == count
        if count:
            buffer, start = cohort.launch.memory.locate(origin[chosen], 1)
            if int(start.max()) + count > buffer.size:
                raise MachineFault(
                    f"cp.async of {count} bytes at offset {int(start.max())} of buffer {buffer.name!r}, "
                    f"which has {buffer.size} bytes"
                )
            data[chosen, :count] = buffer.data[start[:, None] + np.arange(count)]
    return data


@op("cp.async.commit_group", traits=ORDINARY, result=False)
def commit_group(instr: Instr, table: SlotTable) -> Run:
    """cp.async.commit_group: close the group of each thread."""

    def run(strand: Strand) -> None:
        if not strand.cohort.pending.eager:
            strand.cohort.copy_groups.commit(_threads(strand))
        if strand.cohort.observer is not None:
            strand.cohort.observer.commit_group(strand, instr)

    return run


@op("cp.async.wait_group", "cp.async.wait_all", traits=ORDINARY, result=False)
def wait_group(instr: Instr, table: SlotTable) -> Run:
    """cp.async.wait_group n: wait for all groups but the latest n. wait_all: commit_group, then wait_group 0."""
    count = instr.args.get("n")
    left = 0 if count is None else number(count)

    def run(strand: Strand) -> None:
        if strand.cohort.observer is not None:
            strand.cohort.observer.wait_group(strand, instr, left)
        if strand.cohort.pending.eager:
            return
        threads = _threads(strand)
        groups = strand.cohort.copy_groups
        if count is None:
            groups.commit(threads)
        groups.wait(threads, left)

    return run


@op("cp.async.mbarrier.arrive", traits=ORDINARY, result=False)
def arrive_on_copies(instr: Instr, table: SlotTable) -> Run:
    """cp.async.mbarrier.arrive{.noinc} [addr]: an arrival of each thread when its earlier copies are done.

    Without .noinc the pending count is raised by one first, so that the barrier's count need not include it.
    """
    parties = parties_of(instr, table, own=True)
    noinc = instr.slots.get("noinc") is not None

    def one(strand: Strand, party: Party) -> None:
        cohort = strand.cohort
        barrier = cohort.barrier(party.where, "cp.async.mbarrier.arrive", party.homes, strand.count)
        if not cohort.pending.eager:
            count = strand.count
            copies = cohort.copy_groups.earlier(_threads(strand))
            if not noinc:
                barrier.arrive(cohort.ctas, party.homes, -count)

            def arrive() -> None:
                copies()
                barrier.arrive_each(cohort.ctas, party.homes, count, Arrival())

            cohort.pending.copy(named(instr, arrive))
        elif noinc:
            barrier.arrive_each(cohort.ctas, party.homes, strand.count, Arrival())
        if cohort.observer is not None:
            cohort.observer.arrive(strand, instr, party.where, None)

    def run(strand: Strand) -> None:
        for party in parties(strand, []):
            act(strand, party, functools.partial(one, party=party))

    return run
