"""Bulk groups: how a thread waits for its bulk and tensor copies into global memory (PTX manual, "Async-group")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.machine.isa.copies.issue import issue_groups
from convc.machine.isa.operands import number
from convc.machine.isa.registry import Run, op
from convc.machine.state.cohort import Cohort
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.ptx import Instr

Step = Callable[[Cohort, tuple[int, int], np.ndarray | None], None]
"""What a thread, (warp number, lane), does in the CTAs of some rows; None for all."""


@op("cp.async.bulk.commit_group", result=False)
def commit_group(instr: Instr, table: SlotTable) -> Run:
    """cp.async.bulk.commit_group: close the thread's group of bulk copies."""

    def commit(cohort: Cohort, thread: tuple[int, int], rows: np.ndarray | None) -> None:
        cohort.bulk_groups.commit(thread, rows)

    def run(strand: Strand) -> None:
        _for_issuers(strand, commit)
        if strand.cohort.observer is not None:
            strand.cohort.observer.commit_group(strand, instr)

    return run


@op("cp.async.bulk.wait_group", result=False)
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
