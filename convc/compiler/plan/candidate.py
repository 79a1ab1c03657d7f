"""The offer of a schedule for a problem: its legal candidates, each with its work and its price."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.candidates import pipeline_of
from convc.compiler.plan.constraints import TILING_RULES, TiledProblem, TilingRule, check_tiling
from convc.compiler.plan.cost import choose, estimate
from convc.compiler.plan.records import Estimate, Pipeline, Rejection, ScheduleName, ScheduleSummary, Tiling
from convc.compiler.plan.work import CtaWork

LATE = ("proof", "emission")
"""Rules by which a schedule is turned down after it was chosen; candidates are kept to the others before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One legal tiling.

    Attributes:
        tiled: the problem, its tiles, and where they lie.
        pipeline, work, cost: what a CTA does, and what that takes.
        geometry: how activations are shared; None where they are not.
    """

    tiled: TiledProblem
    pipeline: Pipeline
    work: CtaWork
    cost: Estimate
    geometry: Geometry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCandidates:
    """Everything that one schedule has to offer: candidates, and what was turned down."""

    schedule: ScheduleName
    legal: tuple[Candidate, ...]
    rejected: tuple[Rejection, ...]

    @property
    def best(self) -> Candidate:
        """The candidate to take (see `convc.compiler.plan.cost.choose`)."""
        return self.legal[choose([candidate.cost for candidate in self.legal])]

    @property
    def summary(self) -> ScheduleSummary:
        """Its line in the table of schedules."""
        if not self.legal:
            reasons = dict.fromkeys(rejection.reason for rejection in self.rejected)
            late = [rejection for rejection in self.rejected if rejection.rule in LATE]
            return ScheduleSummary(
                schedule=self.schedule,
                reason=late[0].reason if late else "; ".join(list(reasons)[:2]),
                fell=late[0].rule if late else "",
            )
        best = self.best
        return ScheduleSummary(
            schedule=self.schedule,
            tiling=best.tiled.tiling,
            cycles=best.cost.cycles,
            mma_cycles=best.cost.mma_cycles,
            read_cycles=best.cost.read_cycles,
            traffic_bytes=best.cost.traffic_bytes,
            bottleneck=best.cost.bottleneck,
        )


def judge(
    tiled_problems: Iterable[TiledProblem],
    work_of: Callable[[Tiling, Pipeline], CtaWork],
    *,
    rules: Sequence[TilingRule] = TILING_RULES,
    geometry: Geometry | None = None,
) -> tuple[list[Candidate], list[Rejection]]:
    """Divide tilings into those that keep the rules, each with its work and its price, and those that do not."""
    legal: list[Candidate] = []
    refused: list[Rejection] = []
    for tiled in tiled_problems:
        rejection = check_tiling(tiled, rules)
        if rejection is not None:
            refused.append(rejection)
            continue
        pipeline = pipeline_of(tiled.layout, tiled.tiling, tiled.arch.limits.mma_atom_bytes)
        work = work_of(tiled.tiling, pipeline)
        legal.append(
            Candidate(tiled=tiled, pipeline=pipeline, work=work, cost=estimate(tiled, work), geometry=geometry)
        )
    return legal, refused
