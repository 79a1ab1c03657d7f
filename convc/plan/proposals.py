"""What a schedule proposes for a problem: its legal candidates, each with its work and its price."""

from __future__ import annotations

from dataclasses import dataclass

from convc.index.geometry import Geometry
from convc.plan.constraints import Candidate
from convc.plan.rank import choose
from convc.plan.records import Choice, Estimate, Pipeline, Rejection
from convc.plan.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One legal candidate.

    Attributes:
        schedule, variant: which algorithm.
        candidate, pipeline, work, cost: what it does, and what that takes.
        cut: how activations are shared; None where they are not.
    """

    schedule: str
    variant: str
    candidate: Candidate
    pipeline: Pipeline
    work: Work
    cost: Estimate
    cut: Geometry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Everything that one variant of a schedule has to offer: candidates, and what was turned down."""

    schedule: str
    variant: str
    legal: tuple[Proposal, ...]
    rejected: tuple[Rejection, ...]

    @property
    def choice(self) -> Choice:
        """Its line in the table of schedules."""
        if not self.legal:
            reasons = dict.fromkeys(rejection.reason for rejection in self.rejected)
            return Choice(schedule=self.schedule, variant=self.variant, reason="; ".join(list(reasons)[:2]))
        best = self.best
        return Choice(
            schedule=self.schedule, variant=self.variant, tiling=best.candidate.tiling, cycles=best.cost.cycles,
            mma_cycles=best.cost.mma_cycles, read_cycles=best.cost.read_cycles, bound_by=best.cost.bound_by,
        )  # fmt: skip

    @property
    def best(self) -> Proposal:
        """The candidate to take (see `convc.plan.rank.choose`)."""
        return self.legal[choose([proposal.cost for proposal in self.legal])]
