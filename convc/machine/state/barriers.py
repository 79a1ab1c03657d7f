"""Barriers of CTAs and of clusters, in every CTA of a cohort (mbarriers are in `convc.machine.memory.mbarrier`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np


class Ballot:
    """Votes of one generation of a CTA barrier, int64 (3, ctas): warps and threads that voted, and true votes."""

    __slots__ = ("__weakref__", "counts")

    def __init__(self, ctas: int) -> None:
        self.counts = np.zeros((3, ctas), np.int64)


class NamedBarrier:
    """One of the 16 barriers of a CTA.

    Attributes:
        arrived: int64 (ctas,): warps that have arrived in the current generation.
        generation: int64 (ctas,): how often the barrier has completed.
        ballots: votes of bar.red by generation, as long as a warp waits for their result.
    """

    __slots__ = ("arrived", "ballots", "generation")

    def __init__(self, ctas: int) -> None:
        self.arrived = np.zeros(ctas, np.int64)
        self.generation = np.zeros(ctas, np.int64)
        self.ballots: WeakValueDictionary[int, Ballot] = WeakValueDictionary()


@dataclass(slots=True)
class Ticket:
    """What warps that wait at a CTA barrier hold.

    Attributes:
        generation: int64, one per CTA of the strand: the generation that they arrived in.
        votes: of bar.red: positions of CTAs in the strand, and the ballot that these voted in.
    """

    generation: np.ndarray
    votes: list[tuple[np.ndarray, Ballot]] = field(default_factory=list)


class ClusterBarrier:
    """The barrier of every cluster of a cohort.

    Attributes:
        arrived: int64 (ctas,): warps that have arrived in the running phase.
        phase: int64 (ctas,): phases completed.
        ticket: int64 (ctas, warps): the phase that a warp has arrived in and not waited for, or -1.
    """

    __slots__ = ("arrived", "phase", "ticket")

    def __init__(self, ctas: int, warps: int) -> None:
        self.arrived = np.zeros(ctas, np.int64)
        self.phase = np.zeros(ctas, np.int64)
        self.ticket = np.full((ctas, warps), -1, np.int64)
