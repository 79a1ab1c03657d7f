"""cp.async: each thread copies 4, 8 or 16 bytes from global to shared memory (PTX manual, "cp.async").

The machine copies at once, so cp.async.commit_group and the waits change nothing; cp.async.mbarrier.arrive arrives at
once, since all earlier copies of the thread are done.
"""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault
from convc.machine.ops.mbarriers import barrier_address
from convc.machine.ops.memory import address_of, places_by_warp, shared_offset
from convc.machine.ops.registry import op
from convc.machine.strand import Strand
from convc.machine.values import Value, array
from convc.ptx import NotPred


@op("cp.async", result=False)
def async_copy(instr, program):
    """[dst], [src], size {, src_size | ignore_src}: bytes past src_size are zeros; ignore_src means src_size 0."""
    args, size = instr.args, instr.args["size"].value
    target, source = address_of(args["dst"], program), address_of(args["src"], program)
    limit = program.slot(args["src_size"], 32) if args.get("src_size") is not None else None
    ignore = args.get("ignore_src")
    negated = isinstance(ignore, NotPred)
    ignored = None if ignore is None else program.slot(ignore.reg if negated else ignore)

    def run(strand: Strand) -> None:
        cohort, regs = strand.cohort, strand.regs
        cohort.core.seal()
        shape = (strand.row_count, len(strand.warps), 32)
        active = np.broadcast_to(True if strand.mask is None else strand.mask, shape)
        wanted: Value = size
        if limit is not None:
            wanted = regs[limit]
        elif ignored is not None:
            wanted = np.where(array(regs[ignored], 1) ^ negated, 0, size)
        wanted = np.broadcast_to(wanted, shape)[active]
        if wanted.size and int(wanted.max()) > size:
            raise MachineFault(f"cp.async: src-size must be at most {size}, got {int(wanted.max())}")
        origin = np.broadcast_to(array(source(regs), 64), shape)[active]
        offset = shared_offset(strand, target(regs), size, "cp.async")
        data = _fetch(cohort, origin, wanted, size)
        rows = np.arange(cohort.ctas) if strand.rows is None else strand.rows
        row = np.broadcast_to(rows[:, None, None], shape)[active]
        place = np.broadcast_to(np.asarray(offset), shape)[active].astype(np.int64)
        cohort.shared.bytes[row[:, None], place[:, None] + np.arange(size)] = data
        for_mark = np.unique(place)[:, None] + np.arange(size)
        cohort.shared.written.mark(for_mark.reshape(-1), strand.rows)
        cohort.counters.global_load_bytes += int(wanted.sum())
        if cohort.observer is not None:
            cohort.observer.shared(strand, instr, places_by_warp(strand, offset, size), True)

    return run


def _fetch(cohort, origin: np.ndarray, wanted: np.ndarray, size: int) -> np.ndarray:
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


@op("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all", result=False)
def groups(instr, program):
    """cp.async groups: the copies have been done."""
    return lambda strand: None


@op("cp.async.mbarrier.arrive", result=False)
def arrive_on_copies(instr, program):
    """cp.async.mbarrier.arrive{.noinc} [addr]: an arrival of each thread when its earlier copies are done.

    Without .noinc the pending count is raised by one first, so that the barrier's count need not include it.
    """
    address, noinc = barrier_address(instr, program), instr.slots.get("noinc") is not None

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        where = address(strand)
        barrier = cohort.barrier(where, "cp.async.mbarrier.arrive")
        if noinc:
            barrier.arrive(cohort.ctas, strand.rows, strand.count)
        if cohort.observer is not None:
            cohort.observer.arrive(strand, instr, where)

    return run
