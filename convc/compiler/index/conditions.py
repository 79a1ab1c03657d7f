"""The conditions of the theorems that a kernel assumes, on the numbers of a problem.

A theorem holds for all sizes that meet its conditions (`convc.derive`). Here they are looked at with numbers: a `Proof`
where they hold, and a `Counterexample` with the numbers where one does not. Some are about a buffer of pixels, by its
number and its halo, and are asked of each.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from convc.compiler.index.changes import Change, Fact
from convc.compiler.index.formulas import Instance
from convc.compiler.index.maps import Counterexample, Outcome, Proof
from convc.compiler.index.row_walk import RowWalk
from convc.derived.record import Bound, Condition, derived

BUFFER = "buffer"
HALO = "HALO"


def conditions(instance: Instance | Change | Fact, walk: RowWalk | None = None) -> Iterator[Outcome]:
    """Every condition of a form, or of a change, on the numbers of an instance.

    Args:
        instance: the form and the numbers.
        walk: of a form whose pixels are shared: its buffers.
    """
    alone: list[dict[str, int]] = [{}]
    each = alone if walk is None else [{BUFFER: n, HALO: b.halo} for n, b in enumerate(walk.buffers)]
    for number in instance.conditions:
        for about in each if of_buffers(number) else alone:
            yield _outcome(derived().conditions[number], instance, about)


def met(fact: Fact) -> Outcome:
    """Whether a fact holds: a proof of what it says, or the first of its conditions that the numbers break."""
    reasons: list[str] = []
    for outcome in conditions(fact):
        if isinstance(outcome, Counterexample):
            return Counterexample(fact.record.says, outcome.point, f"{outcome.claim}: {outcome.value}", outcome.theorem)
        reasons.append(str(getattr(outcome, "how", "")))
    return Proof(fact.record.says, "; ".join(reasons) or "for all sizes", fact.record.theorem)


def _outcome(condition: Condition, instance: Instance | Change | Fact, about: Mapping[str, int]) -> Outcome:
    sizes = {**instance.sizes, **about}
    formulas = derived().expressions
    tried: list[str] = []
    for bound in condition.either:
        low, high = (formulas[side].number(sizes) for side in (bound.low, bound.high))
        if _holds(bound, low, high):
            return Proof(condition.words, f"{condition.text}: {low} {bound.sign} {high}", condition.theorem)
        tried.append(f"{high} {'<=' if bound.sign == '<' else '<'} {low}")
    point = ((BUFFER, about[BUFFER]),) if BUFFER in about else ()
    return Counterexample(condition.words, point, " and ".join(tried), condition.theorem)


def _holds(bound: Bound, low: int, high: int) -> bool:
    return low < high if bound.sign == "<" else low <= high


@functools.cache
def of_buffers(number: int) -> bool:
    """Whether a condition is about a buffer."""
    condition = derived().conditions[number]
    sides = [side for bound in condition.either for side in (bound.low, bound.high)]
    return any(name in (BUFFER, HALO) for side in sides for name in derived().expressions[side].names())
