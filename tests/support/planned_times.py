"""The planner's model beside the timing engine: each term of a kernel's time, as both have it, in cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from convc.compiler.compile import Compiled, compile_problem
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan import terms
from convc.compiler.plan.constraints import TiledProblem
from convc.compiler.plan.cost import pace_of
from convc.compiler.plan.issue_cycles import load_issue_cycles, multiply_issue_cycles
from convc.compiler.plan.requests import row_cycles
from convc.compiler.schedules.all import SCHEDULES
from convc.compiler.schedules.base import Request, Schedule
from convc.errors import PlanError
from convc.host_layout.device_layout import device_layout
from convc.ir.arch import SM_100A
from convc.ir.problem import ConvProblem
from convc.timing.engine import Replay
from convc.timing.events import Event
from convc.timing.kernel import time_kernel
from convc.timing.parameters import Chip, read_chip
from convc.timing.resources import Share
from convc.timing.trace import Item, Trace

TERMS = (
    "tensor core", "TMA fill", "issue of copies", "issue of MMAs", "first MMA", "K loop", "epilogue", "launch",
)  # fmt: skip

NO_QUEUE = {"tensor_core.queue": 10**6}
"""A tensor core that keeps nobody waiting who issues operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A kernel's time by term: `model` is the planner's, `engine` that of `convc.timing`; both in cycles."""

    layer: str
    schedule: str
    columns: int
    model: dict[str, float]
    engine: dict[str, float]

    def error(self, term: str) -> float:
        """Relative error of the model."""
        return self.model[term] / self.engine[term] - 1


class Unhindered(Replay):
    """A replay in which no wait blocks: what a thread's issue takes."""

    def _needed(self, item: Item) -> object | None:
        return None if item.waits is not None else super()._needed(item)

    def _perform(self, strand, item: Item, start: float, own: float):
        if item.waits is not None:
            strand.time = start + own
            return None, "program"
        return super()._perform(strand, item, start, own)


def compared(layer: str, problem: ConvProblem, schedule: Schedule, columns: int | None = None) -> Compared:
    """Time a layer in one schedule both ways, a CTA for each tile by itself; `columns`: the width of its tiles."""
    options = ScheduleOptions(
        schedule=schedule.name, shift=schedule.variant or "auto", persistent="off", cta_group="1", split_k="off"
    )
    compiled = compile_problem(problem, options=options, block_n=columns)
    chip = read_chip("b200")
    timed = time_kernel(compiled.artifact.ptx, compiled.artifact.launch, {}, chip)
    return Compared(
        layer=layer,
        schedule=compiled.schedule,
        columns=compiled.plan.tiling.block_n,
        model=_by_the_model(compiled),
        engine=_alone(timed.trace, chip) | {"launch": timed.cycles},
    )


def all_compared(layer: str, problem: ConvProblem, schedules: Sequence[Schedule] = SCHEDULES) -> Iterator[Compared]:
    """Time a layer in every legal schedule, each with its narrowest and its widest tiles."""
    layout = device_layout(problem)
    for schedule in schedules:
        legal = schedule.candidates(layout, SM_100A, Request()).legal
        widths = sorted({candidate.tiled.tiling.block_n for candidate in legal})
        for columns in dict.fromkeys((*widths[:1], *widths[-1:])):
            try:
                yield compared(layer, problem, schedule, columns)
            except PlanError:
                continue  # it cannot be proved right here


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Rank correlation: that of the places in both orders, equal values sharing theirs."""
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, place, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def _by_the_model(compiled: Compiled) -> dict[str, float]:
    """The terms of an estimate."""
    plan = compiled.plan
    rates = plan.arch.rates
    need = plan.storage.need
    tiled = TiledProblem(layout=plan.layout, arch=plan.arch, tiling=plan.tiling, need=need, grid=plan.launch.grid[:2])
    pace = pace_of(tiled, plan.work, row_cycles(plan.layout, plan.work.row_bytes, rates))
    loop = max(pace.loop, plan.estimate.latency_cycles + pace.stage)
    return {
        "tensor core": plan.estimate.mma_cycles,
        "TMA fill": plan.estimate.fill_cycles,
        "issue of copies": load_issue_cycles(plan.work),
        "issue of MMAs": multiply_issue_cycles(plan.work),
        "first MMA": terms.first_mma_cycles(plan.work, pace.fill, rates),
        "K loop": loop + terms.last_mma_cycles(plan.work, terms.mma_times(plan.work, rates), rates),
        "epilogue": plan.estimate.epilogue_cycles,
        "launch": plan.estimate.cycles,
    }


def _alone(trace: Trace, chip: Chip) -> dict[str, float]:
    """The same of a CTA that has an SM, and all of L2, for itself."""
    alone = Share(l2=1e9)
    own = Unhindered(trace, chip.changed(NO_QUEUE), alone, 1)
    own.run()
    replay = Replay(trace, chip, alone, 1)
    end = replay.run()
    multiplied = [event for event in replay.events if event.track == "tensor core"]
    first = min(event.start for event in multiplied)
    last = max(event.end for event in multiplied)
    waited = max(event.end for event in replay.events if event.step == "epilogue.wait")
    return {
        "tensor core": replay.sms[0].tensor.busy,
        "TMA fill": replay.sms[0].fill.busy,
        "issue of copies": _span(own.events, "load", "wait"),
        "issue of MMAs": _span(own.events, "mma", "wait"),
        "first MMA": first,
        "K loop": last - first,
        "epilogue": end - waited,
    }


def _span(events: Sequence[Event], role: str, begins: str) -> float:
    """Cycles of a role's instructions from its first wait on."""
    own = [event for event in events if event.track.startswith("warp") and event.step.startswith(f"{role}.")]
    first = min(event.start for event in own if event.step.startswith(f"{role}.{begins}"))
    return max(event.end for event in own) - first
