"""A cluster of a launch: made, and walked until none of its warps can go on.

Waits are real: an mbarrier phase ends when its arrivals and bytes are there, a CTA barrier when its threads are. So
what a warp knows when it goes on is what the text made sure of, in whatever order the warps of a GPU run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from convc.auditor.lanes import LANES
from convc.auditor.layout import Layout
from convc.auditor.ledger import Ledger
from convc.auditor.program import Program
from convc.auditor.state import MOST_ANSWERS, MOST_STEPS, Cluster, Cta, Place, TooLongError, Warp, place_of
from convc.auditor.walk import Walker
from convc.ir.launch import LaunchSpec

MOST_WARPS = 32
"""Warps of a CTA."""


def walk(cluster: Cluster, program: Program) -> None:
    """Let all warps take turns until none can go on."""
    walkers = [Walker(warp, program) for warp in cluster.warps]
    try:
        moved = True
        while moved:
            moved = False
            for walker in walkers:
                moved |= walker.advance()
    except TooLongError:
        cluster.ledger.unknown(None, f"the walk takes more than {MOST_STEPS} operations, and ends here", lost=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A kernel that is audited.

    Attributes:
        ledger: of its audit. layout: its addresses. program: its operations.
        launch: how it is launched, where that is known. block, shape: extents of a CTA and of a cluster.
    """

    ledger: Ledger
    layout: Layout
    program: Program
    launch: LaunchSpec | None
    block: tuple[int, int, int]
    shape: tuple[int, int, int]


def cluster_of(subject: Subject, number: int) -> Cluster:
    """A cluster of a launch, by its number; of a text alone the only one there is."""
    launch = subject.launch
    shape = subject.shape
    count = math.prod(launch.grid) // math.prod(shape) if launch is not None else 1
    cluster = Cluster(
        ledger=subject.ledger,
        layout=subject.layout,
        block=subject.block,
        grid=launch.grid if launch is not None else (None, None, None),
        shape=shape,
        answers=min(MOST_ANSWERS, count - 1),
        launch=launch,
        number=number,
    )
    first = place_of(number, shape, launch)
    for rank in range(math.prod(shape)):
        inside = (rank % shape[0], rank // shape[0] % shape[1], rank // (shape[0] * shape[1]))
        place: Place = (None, None, None)
        index = rank
        if launch is not None:
            x, y, z = (a + b for a, b in zip(first, inside, strict=True))
            place = (x, y, z)
            index = x + launch.grid[0] * (y + launch.grid[1] * z)
        cta = Cta(cluster=cluster, rank=rank, number=index, place=place, inside=inside)
        cta.warps += _warps(cta, subject)
        cluster.ctas.append(cta)
    return cluster


def _warps(cta: Cta, subject: Subject) -> list[Warp]:
    """The warps of a CTA, the last of which may have fewer lanes."""
    warps: list[Warp] = []
    threads = math.prod(subject.block)
    for index in range(-(-threads // LANES)):
        lanes = min(LANES, threads - index * LANES)
        number = cta.rank * MOST_WARPS + index
        warps.append(Warp(cta, index, number, subject.program.registers, (1 << lanes) - 1))
    return warps
