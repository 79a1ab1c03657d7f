"""Perform asynchronous copies, at once or when the completion policy says so, and note what they read and wrote."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec

import numpy as np

from convc.machine.base.completion import named
from convc.machine.base.findings import Who
from convc.machine.base.values import Value, fixed
from convc.machine.isa.copies.issue import IssueGroup
from convc.machine.isa.registry import Run
from convc.machine.isa.threads import active_lanes
from convc.machine.state.cohort import Cohort
from convc.machine.state.strand import Strand
from convc.ptx import Instr

Operands = ParamSpec("Operands")

Copy = Callable[Concatenate[Strand, Instr, IssueGroup, Operands], None]
"""Moves the bytes: takes the strand as it was at the issue, the instruction, who issued it, and operands of its own."""

LANES = np.arange(32)

ByteRanges = tuple[tuple[int, int], ...]
"""(start, stop) of ranges of bytes."""


def perform_load(
    strand: Strand,
    instr: Instr,
    group: IssueGroup,
    copy: Copy[Operands],
    *operands: Operands.args,
    **options: Operands.kwargs,
) -> None:
    """Perform a copy that completes on an mbarrier."""
    if strand.cohort.pending.eager:
        copy(strand, instr, group, *operands, **options)
        return
    action = functools.partial(copy, strand.frozen(), instr, group, *operands, **options)
    strand.cohort.pending.copy(named(instr, action))


def perform_store(
    strand: Strand,
    instr: Instr,
    group: IssueGroup,
    copy: Copy[Operands],
    *operands: Operands.args,
    **options: Operands.kwargs,
) -> None:
    """Perform a copy that completes in the bulk group of its thread."""
    cohort = strand.cohort
    warp, lane = group.thread
    thread = (int(strand.warps[warp]), lane)
    number = cohort.bulk_groups.issue(thread, group.rows, instr)
    if cohort.pending.eager:
        copy(strand, instr, group, *operands, **options)
        return
    action = functools.partial(copy, strand.frozen(), instr, group, *operands, **options)
    cohort.pending.store(thread, number, named(instr, action))


def check_written(cohort: Cohort, instr: Instr, where: int, ranges: ByteRanges, rows: np.ndarray | None) -> None:
    """A finding where a copy reads shared memory that was never written.

    Args:
        cohort: the CTAs.
        instr: the copy.
        where: shared address from which ``ranges`` count.
        ranges: what it reads.
        rows: in which CTAs; None for all.
    """
    written = cohort.shared.written
    missing = sum(
        written.missing(("copy", where + low, where + high), slice(where + low, where + high), rows)
        for low, high in ranges
    )
    if missing:
        text = f"an asynchronous copy reads {missing} bytes of shared memory that were never written"
        who = Who(row=written.lacking(places(where, ranges), rows))
        cohort.findings.report("shared-memory-unwritten", text, instr, who=who)


@functools.lru_cache(maxsize=64)
def places(where: int, ranges: ByteRanges) -> np.ndarray:
    """Shared addresses of all bytes of ``ranges``, which count from ``where``; not to be written, and kept."""
    return fixed(np.concatenate([np.arange(where + low, where + high) for low, high in ranges]))


def note_writer(strand: Strand, instr: Instr, group: IssueGroup, position: int) -> None:
    """Note the thread that wrote the watched byte: that of the CTA at a position of the group."""
    row = position if group.rows is None else int(group.rows[position])
    warp, lane = group.thread
    strand.cohort.launch.memory.writers.append((instr, strand.cohort.number(row), int(strand.warps[warp]), lane))


def once(run: Run, operands: Callable[[Strand], Sequence[Value]]) -> Run:
    """An operation that of the lanes of a warp with the same ``operands`` one performs for all.

    Of a copy into global memory by a whole warp, ptxas makes machine code that goes through the *distinct* operands of
    the lanes, one copy for each; where the lanes have the same, there is one. To do it twice would leave the same
    bytes. What signals, reduces or multiplies is done lane by lane instead (docs/fidelity.md has the table, made from
    machine code). The copy is that of the lane that `elect.sync` would elect among those that ask for it.
    """

    def elected(strand: Strand) -> int | None:
        if strand.active is not None:  # nearly always
            return run(strand)
        mask = _issuers(strand, operands(strand))
        return run(strand) if mask is None else strand.only(mask, run)

    return elected


def _issuers(strand: Strand, operands: Sequence[Value]) -> np.ndarray | None:
    """bool (rows | 1, warps, 32): the lanes that issue; None where no two lanes of a warp ask for the same."""
    apart = [value for value in operands if isinstance(value, np.ndarray) and value.shape[2] > 1]
    lanes = active_lanes(strand)
    if any(_all_differ(value, lanes) for value in apart):
        return None
    shape = np.broadcast_shapes(lanes.shape, *(value.shape for value in apart), (1, len(strand.warps), 32))
    active = np.broadcast_to(lanes, shape)
    order = LANES if strand.cohort.launch.switches.elect == "lowest" else LANES[::-1]
    if not apart:
        first = order[active[:, :, order].argmax(axis=2)]
        return active & (first[:, :, None] == LANES)
    copying = np.flatnonzero(active.any(axis=(0, 2)))
    before = order.argsort()[None, :] < order.argsort()[:, None]  # which lane comes before which
    same = active[:, copying, None, :] & before
    for value in apart:
        own = np.broadcast_to(value, shape)[:, copying]
        same &= own[..., None, :] == own[..., :, None]
    issuing = active.copy()
    issuing[:, copying] &= ~same.any(axis=3)
    return None if (issuing == active).all() else issuing


def _all_differ(value: np.ndarray, active: np.ndarray) -> bool:
    """Whether no two active lanes of a warp have the same."""
    if not active.all():
        value = np.where(active, value.astype(np.int64), -1 - LANES)  # addresses and coordinates have fewer bits
    ordered = np.sort(value, axis=2)
    return bool((ordered[:, :, 1:] != ordered[:, :, :-1]).all())
