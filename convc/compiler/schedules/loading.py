"""The choice of clusters whose CTAs load for each other (`convc.compiler.plan.multicast`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from convc.compiler.plan.candidate import Candidate, ScheduleCandidates
from convc.compiler.plan.cost import SLACK
from convc.compiler.plan.names import Form
from convc.compiler.schedules.all import schedule_of
from convc.compiler.schedules.base import MULTICAST_OF, Request


def loading(
    chosen: ScheduleCandidates, best: Candidate, request: Request, refused: Mapping[Form, str]
) -> tuple[Candidate, str]:
    """The candidate to take, whose CTAs load for each other where that is faster, and the reason.

    Nothing is said where nobody asks.
    """
    if request.multicast is not None:
        asked = best.tiled.tiling.multicast
        return best, "" if asked == (1, 1) else f"each loads its part of {_shared_tiles(asked)}, as asked"
    schedule = schedule_of(chosen.schedule)
    tiled = best.tiled
    if tiled.parts > 1 or tiled.tiling.ctas > 1 or not schedule.multicasts:
        return best, ""
    walks = tiled.ctas is not None
    offers = [
        schedule.candidates(tiled.layout, tiled.arch, replace(request, multicast=shape, persistent=walks))
        for shape in MULTICAST_OF.values()
        if shape not in (None, (1, 1)) and Form(chosen.schedule, walks, False, 1, shape) not in refused
    ]
    legal = [one.best for one in offers if one.legal]
    if not legal:
        return best, ""
    found = min(legal, key=lambda one: one.cost.cycles)
    cycles = f"{found.cost.cycles:.0f} cycles where CTAs load for each other, {best.cost.cycles:.0f} where none does"
    if SLACK * found.cost.cycles > best.cost.cycles:  # an estimate that is off by less must not make a kernel slower
        return best, f"each CTA loads for itself: {cycles}"
    return found, f"each loads its part of {_shared_tiles(found.tiled.tiling.multicast)}: {cycles}"


def _shared_tiles(shape: tuple[int, int]) -> str:
    """The operand tiles that the CTAs of a cluster share."""
    pixels, channels = shape
    both = (*(("filter tiles",) if pixels > 1 else ()), *(("activation tiles",) if channels > 1 else ()))
    return " and ".join(both)
