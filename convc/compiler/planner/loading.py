"""The choice of clusters whose CTAs load for each other (`convc.compiler.plan.multicast`)."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from convc.compiler.plan.choice import SLACK
from convc.compiler.plan.names import LaunchForm
from convc.compiler.planner.launch import Pick, Survey
from convc.compiler.schedules.all import schedule_of
from convc.compiler.schedules.base import MULTICAST_OF


def loading(pick: Pick, survey: Survey) -> Pick:
    """CTAs load for each other where that is faster; nothing is said where nobody asks."""
    request = survey.request
    tiled = pick.best.tiled
    if request.multicast is not None:
        asked = tiled.tiling.multicast
        if asked == (1, 1):
            return pick
        return pick.because(multicast=f"multicast of {_shared_tiles(asked)}, as requested")
    chosen = pick.schedule.schedule
    schedule = schedule_of(chosen)
    if tiled.parts > 1 or tiled.tiling.ctas > 1 or not schedule.multicasts:
        return pick
    walks = tiled.ctas is not None
    offers = [
        survey.offered(schedule, tiled, dataclasses.replace(request, multicast=shape, persistent=walks))
        for shape in MULTICAST_OF.values()
        if shape not in (None, (1, 1)) and LaunchForm(chosen, walks, False, 1, shape) not in survey.refused
    ]
    found = min((one.best for one in offers if one.possible), key=lambda best: best.cycles, default=None)
    if found is None:
        return pick
    cycles = f"{found.cycles:.0f} cycles with multicast, {pick.best.cycles:.0f} without"
    if SLACK * found.cycles > pick.best.cycles:  # off by less, an estimate must not make a kernel slower
        return pick.because(multicast=f"no multicast: {cycles}")
    taken = replace(pick, best=found)
    return taken.because(multicast=f"multicast of {_shared_tiles(found.tiled.tiling.multicast)}: {cycles}")


def _shared_tiles(shape: tuple[int, int]) -> str:
    """The operand tiles that the CTAs of a cluster share."""
    pixels, channels = shape
    both = (*(("filter tiles",) if pixels > 1 else ()), *(("activation tiles",) if channels > 1 else ()))
    return " and ".join(both)
