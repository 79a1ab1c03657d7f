"""The choice among candidates by their prices: how close two prices are taken as equal, and what decides then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

SLACK = 1.05
"""Estimates closer than this are taken as equal: a launch is off by 3 to 9 percent of the engine's time on average, and
schedules of one layer mostly to the same side."""

ASSUMED_SLACK = 1.18
"""A schedule with assumed rules is taken where one that does not takes longer by more than this: twice the
average error of the worst of the four sets of `convc/docs/timing_measurements.md`, as one estimate may be too low and
the other too high. If the rule is wrong, so is the kernel; less is not worth that."""


def slack(assumed: int, fastest: int) -> float:
    """The factor up to which a schedule counts as about as fast as the fastest.

    Args:
        assumed, fastest: assumed rules of either.
    """
    return ASSUMED_SLACK if fastest and not assumed else SLACK


class Priced(Protocol):
    """A price, as far as candidates are compared by it."""

    @property
    def cycles(self) -> float:
        """Cycles of the launch."""
        ...

    @property
    def traffic_bytes(self) -> int:
        """Bytes that it asks L2 for."""
        ...

    @property
    def busy_sms(self) -> int:
        """SMs that have a CTA."""
        ...


def choose(costs: Sequence[Priced]) -> int:
    """Choose among candidates: of those about as fast as the fastest, the index of the one that has the least traffic.

    None that leaves clearly more SMs idle than the fastest: wider tiles would move fewer bytes, but L2 is not what a
    launch waits for while SMs are idle. On an H200 layers of ResNet-50 where that decides take 0.95 of the time.
    """
    fastest = min(costs, key=lambda cost: cost.cycles)
    near = (
        index
        for index, cost in enumerate(costs)
        if cost.cycles <= SLACK * fastest.cycles and fastest.busy_sms <= SLACK * cost.busy_sms
    )
    return min(near, key=lambda index: (costs[index].traffic_bytes, costs[index].cycles, index))
