"""Barriers of CTAs and of clusters, in every CTA of a cohort (mbarriers are in `convc.machine.memory.mbarrier`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

import numpy as np

ELSEWHERE = -1
"""In place of a generation: the warp does not wait at this barrier."""


class Ballot:
    """Votes of one generation of a CTA barrier, int64 (3, ctas): warps and threads that voted, and true votes."""

    __slots__ = ("__weakref__", "counts")

    def __init__(self, ctas: int) -> None:
        self.counts = np.zeros((3, ctas), np.int64)


class NamedBarrier:
    """One of the 16 barriers of a CTA.

    Attributes:
        expected: int64 (ctas,): warps that the latest arrival wants there; 0 for all that have not exited.
        ballots: votes of bar.red by generation, as long as a warp waits for their result.
        alike: (arrived, generation) as long as all CTAs have the same, and the arrays were not asked for.
    """

    __slots__ = ("_arrived", "_generation", "alike", "ballots", "expected")

    def __init__(self, ctas: int) -> None:
        self._arrived = np.zeros(ctas, np.int64)
        self._generation = np.zeros(ctas, np.int64)
        self.alike: tuple[int, int] | None = (0, 0)
        self.expected = np.zeros(ctas, np.int64)
        self.ballots: WeakValueDictionary[int, Ballot] = WeakValueDictionary()

    @property
    def arrived(self) -> np.ndarray:
        """int64 (ctas,): warps that have arrived in the current generation."""
        self._part()
        return self._arrived

    @property
    def generation(self) -> np.ndarray:
        """int64 (ctas,): how often the barrier has completed."""
        self._part()
        return self._generation

    def _part(self) -> None:
        if self.alike is not None:
            self._arrived[:], self._generation[:] = self.alike
            self.alike = None

    def pass_together(self, counted: int) -> bool:
        """All warps of all CTAs arrive where no other is, and a generation is complete; False: some other is there.

        ``counted``: how many they wait for, 0 for all.
        """
        if self.alike is None or self.alike[0]:
            return False
        self.expected.fill(counted)
        self.alike = (0, self.alike[1] + 1)
        return True

    def arrive_alike(self, warps: int, living: int, counted: int) -> int | None:
        """As many warps of every CTA arrive; ``counted`` make a generation, or all that are ``living`` where it is 0.

        Returns:
            The generation that they all have arrived in; None, and nothing has happened, where that is not one, or
            where those who are there wait for another number.
        """
        if self.alike is None:
            return None
        arrived, generation = self.alike
        expected = counted or living
        there = arrived + warps
        if there > expected or (arrived and counted and ((self.expected > 0) & (self.expected != counted)).any()):
            return None
        self.expected.fill(counted)
        self.alike = (0, generation + 1) if there == expected else (there, generation)
        return generation

    def arrive(self, rows: np.ndarray, joining: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """Warps arrive one after the other; each time that ``expected`` are there, a generation is complete.

        Args:
            rows: the CTAs.
            joining: bool (rows, warps), the warps that arrive.
            expected: int64 (rows,), how many warps make a generation, at least 1.

        Returns:
            int64 (rows, warps), the generation that each warp has arrived in, or `ELSEWHERE`.
        """
        order = joining.cumsum(axis=1) - 1
        before = self.arrived[rows]
        first = self.generation[rows]
        generation = first[:, None] + (before[:, None] + order) // expected[:, None]
        total = before + joining.sum(axis=1)
        self.generation[rows] = first + total // expected
        self.arrived[rows] = total % expected
        return np.where(joining, generation, ELSEWHERE)

    def settle(self, rows: np.ndarray, expected: np.ndarray) -> None:
        """Complete the generation in those of the CTAs ``rows`` where the ``expected`` warps, int64 (rows,), are there.

        Only the exit of a warp makes this necessary: every arrival completes what it can.
        """
        arrived = self.arrived[rows]
        full = rows[(arrived >= expected) & (arrived > 0)]
        self.generation[full] += 1
        self.arrived[full] = 0


@dataclass(slots=True)
class Meeting:
    """A CTA barrier that warps of a strand have arrived at.

    Attributes:
        index: number of the barrier.
        barrier: its state.
        generation: int64 (rows, warps): the generation that each warp of the strand arrived in, or `ELSEWHERE`.
        expected: int64 (rows,), the warps that make a generation; None for all that have not exited.
    """

    index: int
    barrier: NamedBarrier
    generation: np.ndarray
    expected: np.ndarray | None

    def over(self, rows: np.ndarray) -> np.ndarray:
        """bool (rows, warps): whose generation is complete; warps that wait elsewhere count as such."""
        alike = self.barrier.alike
        if alike is not None:
            return np.asarray(self.generation < alike[1])
        return self.barrier.generation[rows][:, None] > self.generation

    def part(self, axis: int, index: np.ndarray) -> Meeting:
        """The meeting for some CTAs (axis 0) or warps (axis 1) of the strand."""
        expected = self.expected[index] if self.expected is not None and axis == 0 else self.expected
        return replace(self, generation=self.generation.take(index, axis), expected=expected)


@dataclass(slots=True)
class Ticket:
    """What warps that wait at CTA barriers hold.

    Attributes:
        meetings: one for each barrier that a warp of the strand has arrived at.
        votes: of bar.red: the warps that voted, bool (rows, warps), and the ballot that they voted in.
    """

    meetings: list[Meeting]
    votes: list[tuple[np.ndarray, Ballot]] = field(default_factory=list)

    def part(self, axis: int, index: np.ndarray) -> Ticket:
        """The ticket of some CTAs (axis 0) or warps (axis 1) of the strand."""
        votes = [(who.take(index, axis), ballot) for who, ballot in self.votes]
        return Ticket([meeting.part(axis, index) for meeting in self.meetings], votes)


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
