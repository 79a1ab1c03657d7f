"""Accesses as findings name them: who, which lanes, and what memory."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from convc.ir.findings import Finding, Region, Site, Verdict, merged
from convc.machine.state.observed import ObservedCohort
from convc.machine.tensor_core.tensor_memory import COLUMNS
from convc.ptx import Instr
from convc.sanitizer.shadow import LANES, Access, AccessSet

RUNS = 32
"""Most pieces of memory that a finding lists."""

Warp = tuple[int, int]
"""Row of the CTA in its cohort, and number of the warp."""

COLLECTIVE = ("alloc", "dealloc", "wgmma")
"""Kinds of accesses that a warp makes as one."""


def site_of(cohort: ObservedCohort, access: Access, lanes: np.ndarray, region: Region | None) -> Site:
    """The site of one access, of which ``lanes`` matter; of a thread, or of a warp as one, it is all that issue it."""
    span = access.instr.span
    if access.kind in COLLECTIVE:
        known = tuple(range(LANES))
    else:
        known = tuple(lanes.tolist()) if access.lane is None else (access.lane,)
    return Site(
        file=span.file,
        line=span.line,
        step=access.instr.step,
        cta=cohort.number(access.row),
        warp=access.warp,
        lanes=known,
        nth=access.nth,
        region=region,
    )


def finding(verdict: Verdict, rule: str, message: str, site: Site, other: Site | None = None) -> Finding:
    """A finding at a site."""
    known = {field.name: getattr(site, field.name) for field in fields(Site)}
    return Finding(verdict=verdict, rule=rule, message=message, other=other, **known)


def warp_finding(
    cohort: ObservedCohort,
    instr: Instr,
    warp: Warp,
    verdict: Verdict,
    rule: str,
    message: str,
    region: Region | None = None,
) -> Finding:
    """A finding about an instruction that all lanes of a warp execute."""
    row, number = warp
    span = instr.span
    site = Site(
        file=span.file,
        line=span.line,
        step=instr.step,
        cta=cohort.number(row),
        warp=number,
        lanes=tuple(range(LANES)),
        region=region,
    )
    return finding(verdict, rule, message, site)


def region_of(access_set: AccessSet, here: np.ndarray, unit: int, allocated: dict[tuple[int, int], int]) -> Region:
    """The part of an access set where ``here`` (bool).

    Args:
        unit: bytes per place.
        allocated: columns of each allocation, by CTA and first column.
    """
    offsets = np.unique(access_set.by_lane()[here])
    if access_set.space == "tensor":
        lanes = offsets // COLUMNS
        columns = offsets % COLUMNS
        # Columns count from the first of the allocation that they are in: the one that begins last before them.
        before = [start for row, start in allocated if row == access_set.home and start <= int(columns.min())]
        first = max(before, default=0)
        return Region(
            space="tensor",
            lanes=(int(lanes.min()), int(lanes.max())),
            columns=(int(columns.min()) - first, int(columns.max()) - first),
        )
    runs = merged(tuple(offsets.tolist()), unit)
    if len(runs) > RUNS:
        runs = ((runs[0][0], runs[-1][1]),)
    buffer = access_set.home if isinstance(access_set.home, str) else None
    return Region(space=access_set.space, buffer=buffer, runs=runs)


def site_between(what: tuple[Instr, int], region: Region, thread: tuple[int, int] | None) -> Site:
    """The site of an instruction of a CTA, by one thread (warp, lane) where that is known."""
    instr, cta = what
    span = instr.span
    site = Site(file=span.file, line=span.line, step=instr.step, cta=cta, region=region)
    return site if thread is None else replace(site, warp=thread[0], lanes=(thread[1],))
