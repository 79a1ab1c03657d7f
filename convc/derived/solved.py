"""The numbers that a schedule chooses, from the limits that `convc.derive.solve` has solved its nest for.

A number has to meet demands, each one of some bounds: the easiest of these counts. Of the demands, and of all buffers
that a form has, the hardest does. So the number is the smallest, or the largest, that is legal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from convc.derived.record import DemandRecord, MapRecord, Sizes, SolvedRecord, derived


class Limits(NamedTuple):
    """The smallest and the largest number that is legal; None: any."""

    low: int
    high: int | None


def solved(form: str, name: str) -> SolvedRecord:
    """A number of a form, by the name of its size."""
    found = derived()
    return found.numbers[found.forms[form].solved[name]]


def limits(record: SolvedRecord, *cases: Sizes) -> Limits:
    """The numbers that are legal in all cases, such as those of the buffers of a form."""
    low = 0
    high: int | None = None
    for demand in record.demands:
        for sizes in cases:
            limit = _easiest(demand, sizes)
            if limit is None:
                continue
            if demand.least:
                low = max(low, limit)
            else:
                high = limit if high is None else min(high, limit)
    return Limits(low, high)


def chosen(record: SolvedRecord, *cases: Sizes) -> int:
    """The number that is taken, where there is a legal one."""
    found = limits(record, *cases)
    if not record.greatest:
        return found.low
    assert found.high is not None
    return found.high


def reached(record: SolvedRecord, sizes: Sizes) -> int:
    """Count what a number of tiles has to reach: how much there is to cut."""
    return derived().expressions[record.demands[0].bounds[0].low].number(sizes)


def mapped(record: MapRecord, result: str, sizes: Sizes) -> int:
    """A result of a map, as a number, of axes as if they were sizes."""
    return derived().expressions[dict(record.results)[result]].number(sizes)


def all_hold(conditions: Iterable[int], sizes: Sizes) -> bool:
    """Whether conditions hold, by their numbers."""
    found = derived().conditions
    return all(any(bound.holds(sizes) for bound in found[number].either) for number in conditions)


def _easiest(demand: DemandRecord, sizes: Sizes) -> int | None:
    """What one of a demand's bounds asks for; None where one holds whatever the number is."""
    formulas = derived().expressions
    found: int | None = None
    for limit, bound in zip(demand.limits, demand.bounds, strict=True):
        if limit is None:
            if bound.holds(sizes):
                return None
            continue
        number = formulas[limit].number(sizes)
        if found is None:
            found = number
        else:
            found = min(found, number) if demand.least else max(found, number)
    assert found is not None
    return found
