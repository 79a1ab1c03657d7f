"""Perform asynchronous copies, at once or when the completion policy says so, and note what they read and wrote."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec

import numpy as np

from convc.machine.base.completion import named
from convc.machine.base.findings import Who
from convc.machine.base.values import fixed
from convc.machine.isa.copies.issue import IssueGroup
from convc.machine.state.cohort import Cohort
from convc.machine.state.strand import Strand
from convc.ptx import Instr

Operands = ParamSpec("Operands")

Copy = Callable[Concatenate[Strand, Instr, IssueGroup, Operands], None]
"""Moves the bytes: takes the strand as it was at the issue, the instruction, who issued it, and operands of its own."""

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
