"""From proved index maps to what a kernel computes."""

from __future__ import annotations

from collections.abc import Iterable

from convc.compiler.index.lower import lower
from convc.compiler.index.maps import IndexMap, Outcome, Proof
from convc.compiler.plan.coordinates import Coordinate, coordinate
from convc.errors import PlanError
from convc.ir.problem import ConvProblem


def result_of(index_map: IndexMap, result: str, name: str) -> Coordinate:
    """Give a result of a map as a number of the kernel."""
    domain = ", ".join(axis.name for axis in index_map.domain)
    value = lower(index_map[result], index_map.ranges)
    return coordinate(name, value, f"{result} of {index_map.name}({domain})")


def demand_proof(problem: ConvProblem, outcomes: Iterable[Outcome]) -> None:
    """Raise PlanError with the first claim that is not proved."""
    for outcome in outcomes:
        if not isinstance(outcome, Proof):
            raise PlanError(
                f"the index maps do not carry this kernel: {outcome}", where=f"convolution {problem.name!r}"
            )
