"""wgmma.fence, commit_group and wait_group (PTX manual, "Asynchronous wgmma instructions, async proxy").

The completion policy says when a group is performed: when it is committed, or as late as when a warp waits for it. A
warp leaves wait_group when all four of its warpgroup have performed their part of what it waits for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from convc.errors import UnmodelledError
from convc.machine.base.completion import Action, named
from convc.machine.isa.operands import number
from convc.machine.isa.registry import ORDINARY, WHOLE_WARPS, Run, op
from convc.machine.isa.sync.barriers import notify_fence
from convc.machine.isa.wgmma.accumulate import Accumulation
from convc.machine.isa.wgmma.multiply import warpgroup_warps
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import BLOCK, Strand
from convc.machine.state.warpgroups import WarpgroupMultiply
from convc.ptx import Instr

Ready = Callable[[WarpgroupMultiply], np.ndarray]
"""The warps, bool (rows | 1, warps | 1, 1), whose part of an instruction is to be performed."""

EVERY_WARP = np.ones((1, 1, 1), bool)


@op("wgmma.fence", traits=ORDINARY, result=False)
def fence(instr: Instr, table: SlotTable) -> Run:
    """wgmma.fence: registers are performed in order anyway; the observer is told."""

    def run(strand: Strand) -> None:
        active = warpgroup_warps(strand, "wgmma.fence")
        strand.cohort.warpgroups.count(instr, strand.cohort.rows_or_all(strand.rows), strand.warps, active)
        notify_fence(strand, instr)

    return run


@op("wgmma.commit_group", traits=ORDINARY, result=False)
def commit_group(instr: Instr, table: SlotTable) -> Run:
    """wgmma.commit_group: close the group of each warp."""

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        groups = cohort.warpgroups
        active = warpgroup_warps(strand, "wgmma.commit_group")
        here = np.ix_(cohort.rows_or_all(strand.rows), strand.warps)
        groups.closed[here] += active
        groups.count(instr, cohort.rows_or_all(strand.rows), strand.warps, active)
        if not cohort.pending.later():
            perform(strand, lambda issued: EVERY_WARP)
            groups.done[here] = np.where(active, groups.closed[here], groups.done[here])
        if cohort.observer is not None:
            cohort.observer.commit_group(strand, instr)

    return run


@op("wgmma.wait_group", traits=WHOLE_WARPS, result=False)
def wait_group(instr: Instr, table: SlotTable) -> Run:
    """wgmma.wait_group n: wait for all groups but the latest n, which is no less than 0."""
    left = number(instr.args["n"])
    if not 0 <= left < 1 << 63:  # ptxas takes what is above for a negative number
        raise UnmodelledError(f"wgmma.wait_group leaves 0 or more groups under way, got {left}", span=instr.span)

    def run(strand: Strand) -> int | None:
        cohort = strand.cohort
        groups = cohort.warpgroups
        active = warpgroup_warps(strand, "wgmma.wait_group")
        rows = cohort.rows_or_all(strand.rows)
        here = np.ix_(rows, strand.warps)
        target = groups.closed[here] - left
        perform(strand, lambda issued: issued.group < target[:, :, None])
        groups.done[here] = np.where(active, np.maximum(groups.done[here], target), groups.done[here])
        ready = ~active | (groups.least_done(rows, strand.warps) >= target)
        if not ready.all():
            strand.waiting = "the other warps of its warpgroup to commit the wgmma that it waits for"
            strand.ready = ready
            return BLOCK
        groups.count(instr, rows, strand.warps, active)
        if cohort.observer is not None:
            cohort.observer.wait_group(strand, instr, left)
        return None

    return run


def serialised(run: Run, reads: frozenset[int], writes: frozenset[int]) -> Run:
    """An instruction that touches registers of wgmma, behind those under way that it must not overtake.

    The manual has a wait there. Where there is none, ptxas puts one, or moves the access behind the wait, or gives the
    new value another register; what comes out is what comes out here.
    """
    both = reads | writes

    def behind(strand: Strand) -> int | None:
        if strand.multiplies and any(
            not both.isdisjoint(issued.targets) or not writes.isdisjoint(issued.sources) for issued in strand.multiplies
        ):
            perform(strand, lambda issued: EVERY_WARP)
        return run(strand)

    return behind


def perform(strand: Strand, ready: Ready) -> None:
    """Perform what the active warps of a strand have issued, where it is ready; the rest stays to be done."""
    if not strand.multiplies:
        return
    active = EVERY_WARP if strand.mask is None else np.asarray(strand.mask.any(axis=2, keepdims=True))
    due: list[tuple[WarpgroupMultiply, np.ndarray]] = []
    left: list[WarpgroupMultiply] = []
    for issued in strand.multiplies:
        mask = EVERY_WARP if issued.mask is None else issued.mask
        now = mask & active & ready(issued)
        if now.any():
            due.append((issued, now))
        rest = mask & ~(active & ready(issued))
        if rest.any():
            left.append(replace(issued, mask=rest))
    strand.multiplies = left
    for run, mask in _runs(due):
        first = run[0]
        act = named(first.instr, Accumulation(strand, run).perform)
        if mask.all():
            act()
        else:
            strand.only(mask, functools.partial(_act, act))


def _act(act: Action, strand: Strand) -> None:
    act()


def _runs(due: list[tuple[WarpgroupMultiply, np.ndarray]]) -> list[tuple[list[WarpgroupMultiply], np.ndarray]]:
    """Instructions of the same accumulators, shape and warps, which may be performed together."""
    runs: list[tuple[list[WarpgroupMultiply], np.ndarray]] = []
    for issued, mask in due:
        for run, other in reversed(runs):
            first = run[0]
            same = first.targets == issued.targets and first.shape == issued.shape and np.array_equal(mask, other)
            if same and bool(first.sources) == bool(issued.sources):
                run.append(issued)
                break
            if set(first.targets) & {*issued.targets, *issued.sources}:
                runs.append(([issued], mask))
                break
        else:
            runs.append(([issued], mask))
    return runs
