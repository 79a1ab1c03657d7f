"""What a schedule proposes for a problem: its legal candidates, each with its work and its price."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from convc.compiler.index.geometry import Geometry
from convc.compiler.plan.candidates import pipeline_of
from convc.compiler.plan.constraints import TILING_RULES, TiledProblem, TilingRule, check_tiling
from convc.compiler.plan.cost import choose, estimate
from convc.compiler.plan.records import Estimate, Pipeline, Rejection, ScheduleSummary, Tiling
from convc.compiler.plan.work import CtaWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One legal candidate.

    Attributes:
        schedule, variant: which algorithm.
        candidate, pipeline, work, cost: what it does, and what that takes.
        cut: how activations are shared; None where they are not.
    """

    schedule: str
    variant: str
    candidate: TiledProblem
    pipeline: Pipeline
    work: CtaWork
    cost: Estimate
    cut: Geometry | None = None


def propose(
    schedule: str,
    variant: str,
    candidates: Iterable[TiledProblem],
    work_of: Callable[[Tiling, Pipeline], CtaWork],
    *,
    rules: Sequence[TilingRule] = TILING_RULES,
    cut: Geometry | None = None,
) -> tuple[list[Candidate], list[Rejection]]:
    """The candidates that keep the rules, each with its work and its price, and why the others do not."""
    legal, refused = [], []
    for candidate in candidates:
        rejection = check_tiling(candidate, rules)
        if rejection is not None:
            refused.append(rejection)
            continue
        pipeline = pipeline_of(candidate.layout, candidate.tiling, candidate.arch.limits.mma_atom_bytes)
        work = work_of(candidate.tiling, pipeline)
        legal.append(
            Candidate(
                schedule=schedule,
                variant=variant,
                candidate=candidate,
                pipeline=pipeline,
                work=work,
                cost=estimate(candidate, work),
                cut=cut,
            )
        )
    return legal, refused


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCandidates:
    """Everything that one variant of a schedule has to offer: candidates, and what was turned down."""

    schedule: str
    variant: str
    legal: tuple[Candidate, ...]
    rejected: tuple[Rejection, ...]

    @property
    def choice(self) -> ScheduleSummary:
        """Its line in the table of schedules."""
        if not self.legal:
            reasons = dict.fromkeys(rejection.reason for rejection in self.rejected)
            return ScheduleSummary(schedule=self.schedule, variant=self.variant, reason="; ".join(list(reasons)[:2]))
        best = self.best
        return ScheduleSummary(
            schedule=self.schedule,
            variant=self.variant,
            tiling=best.candidate.tiling,
            cycles=best.cost.cycles,
            mma_cycles=best.cost.mma_cycles,
            read_cycles=best.cost.read_cycles,
            bound_by=best.cost.bound_by,
        )

    @property
    def best(self) -> Candidate:
        """The candidate to take (see `convc.compiler.plan.cost.choose`)."""
        return self.legal[choose([proposal.cost for proposal in self.legal])]
