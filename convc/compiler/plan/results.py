"""From proved index maps to what a kernel computes."""

from __future__ import annotations

from collections.abc import Iterable

from convc.compiler.index.conditions import conditions
from convc.compiler.index.formulas import Instance
from convc.compiler.index.maps import Counterexample, IndexMap, Outcome, Proof
from convc.compiler.index.row_walk import RowWalk
from convc.compiler.plan.coordinates import Coordinate, coordinate
from convc.errors import PlanError
from convc.ir.expr import Interval, bounds
from convc.ir.problem import ConvProblem

WORD: Interval = (-(2**31), 2**31 - 1)
"""What a signed 32-bit register holds: the width of the coordinates that a copy takes."""


def result_of(index_map: IndexMap, result: str, name: str, theorem: str = "") -> Coordinate:
    """Give a result of a map as a number of the kernel."""
    domain = ", ".join(axis.name for axis in index_map.domain)
    value = index_map[result]
    low, high = bounds(value, index_map.ranges)
    if (low < WORD[0] or high > WORD[1]) and isinstance(index_map.prove_in({result: WORD}), Proof):
        value = (value - WORD[0]) % 2**32 + WORD[0]  # the same number, and its terms may be wider than it is
    return coordinate(name, value, f"{result} of {index_map.name}({domain})", theorem)


def met_conditions(
    schedule: str, problem: ConvProblem, instance: Instance, walk: RowWalk | None = None
) -> tuple[Outcome, ...]:
    """Look at the conditions of a schedule's theorems; PlanError with the first that a problem breaks, and its numbers.

    Args:
        schedule: its name. problem: for the message.
        instance, walk: as of `convc.compiler.index.conditions.conditions`.
    """
    found = tuple(conditions(instance, walk))
    for outcome in found:
        if isinstance(outcome, Counterexample):
            at = "".join(f" for {name} {value}" for name, value in outcome.point)
            raise PlanError(
                f"{schedule} needs {outcome.claim}{at}: {outcome.value}", where=f"convolution {problem.name!r}"
            )
    return found


def demand_proof(problem: ConvProblem, outcomes: Iterable[Outcome]) -> None:
    """Raise PlanError with the first claim that is not proved."""
    for outcome in outcomes:
        if not isinstance(outcome, Proof):
            raise PlanError(
                f"the index maps do not carry this kernel: {outcome}", where=f"convolution {problem.name!r}"
            )
