"""Kernels as they were when they were recorded: with a tiling that the planner would not take today."""

from __future__ import annotations

import dataclasses
import re

from convc.compiler.emit.kernel import emit
from convc.compiler.kernels import shared_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.candidate import Offer
from convc.compiler.schedules import planner
from convc.compiler.schedules.all import schedule_of
from convc.compiler.schedules.launching import Pick
from convc.compiler.schedules.program import build
from convc.ir.launch import KernelArtifact
from convc.ir.problem import ConvProblem
from convc.layout.device_layout import device_layout


def with_tiling(problem: ConvProblem, options: ScheduleOptions, tiling: str) -> KernelArtifact:
    """The kernel of a convolution whose tiling, as text, is the one that was written down.

    Args:
        problem: the convolution.
        options: one schedule by name.
        tiling: as in the column of the recording, ``128x64 tile, 128-byte rows, 4 stages``.

    Raises:
        AssertionError: the schedule offers no such tiling any more.
    """
    width, stages = (int(number) for number in re.findall(r"x(\d+) tile.*?(\d+) stages", tiling)[0])
    layout = device_layout(shared_problem(problem))
    (found,) = planner._found(layout, options, planner._request(options, width, stages), {}).values()
    offers = [
        dataclasses.replace(offer, tilings=tuple(one for one in offer.tilings if str(one) == tiling))
        for offer in found.parts
        if isinstance(offer, Offer)
    ]
    kept = tuple(offer for offer in offers if offer.tilings)
    assert kept, f"{options.schedule} offers no {tiling} for {problem.name}"
    decided = dataclasses.replace(found, parts=kept)
    pick = Pick(schedule=decided, best=decided.best)
    return emit(build(planner._finished(pick, schedule_of(decided.schedule).indexing(decided.best), (), options)))
