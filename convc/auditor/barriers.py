"""Barriers as an audit keeps them: counts, phases, and what those who arrived knew.

Source: PTX manual 9.7.13.15 (mbarrier), 9.7.13.1 (CTA barriers), 9.7.13.3 (cluster barriers).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from convc.auditor.clocks import Clock, join
from convc.auditor.ledger import Doer


@dataclass(frozen=True, slots=True)
class Signal:
    """Something that a CTA does to a barrier of another: in which phase, by whom, and whether it comes later."""

    phase: int
    who: Doer
    warp: int
    time: int
    asynchronous: bool


@dataclass(slots=True)
class Mbarrier:
    """One mbarrier object.

    Attributes:
        cta, offset: whose memory it is in, and where.
        count: arrivals of a phase. pending: those that are missing. transactions: bytes that are missing, below 0
            where they came before they were expected.
        exact: whether the bytes of all copies were known; from where they were not, phases end by their arrivals.
        maker, made: who initialised it, and when.
        expected, arrived: bytes of the phase so far. announced, brought: who said so, and who brings them.
        clock: what those who arrived knew. phases: the same at the end of each phase.
        signals: what other CTAs did to it.
    """

    cta: int
    offset: int
    count: int
    maker: Doer
    warp: int
    made: int
    pending: int = 0
    transactions: int = 0
    exact: bool = True
    expected: int = 0
    arrived: int = 0
    announced: Doer | None = None
    brought: Doer | None = None
    clock: Clock = field(default_factory=dict)
    phases: list[Clock] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    arrivals: int = 0

    def __post_init__(self) -> None:
        self.pending = self.count

    @property
    def key(self) -> tuple[int, int]:
        """Its name in clocks."""
        return self.cta, self.offset

    @property
    def phase(self) -> int:
        """The number of phases that are over."""
        return len(self.phases)

    def arrive(self, clock: Clock | None, count: int = 1) -> None:
        """So many arrivals of a warp with this clock."""
        if clock is not None:
            join(self.clock, clock)
        self.arrivals += count
        self.pending -= count
        self.settle()

    def settle(self) -> None:
        """End the phase, where nothing is missing."""
        if self.pending > 0 or (self.exact and self.transactions):
            return
        self.clock["phase", self.key] = self.phase + 1
        self.phases.append(dict(self.clock))
        self.pending = self.count
        self.transactions = self.expected = self.arrived = 0
        self.announced = self.brought = None

    def passing(self, known: int, parity: int) -> int:
        """For a warp that knows of so many phases: the least number of them at which a wait for a parity goes on."""
        return known if known & 1 != parity else known + 1


@dataclass(slots=True)
class CtaBarrier:
    """A barrier of a CTA: threads that came, how often it was complete, and what those who came knew.

    ``everybody``: it waits for all threads of the CTA, and was given no count.
    """

    arrived: int = 0
    everybody: bool = False
    rounds: int = 0
    clock: Clock = field(default_factory=dict)
    done: list[Clock] = field(default_factory=list)

    def complete(self) -> None:
        """All are here."""
        self.done.append(dict(self.clock))
        self.rounds += 1
        self.arrived = 0


@dataclass(slots=True)
class ClusterBarrier:
    """The barrier of a cluster: threads that came, and what they knew, with a release or without."""

    arrived: int = 0
    clock: Clock = field(default_factory=dict)
    done: list[Clock] = field(default_factory=list)

    def complete(self) -> None:
        """All threads of the cluster that have not exited are here."""
        self.done.append(dict(self.clock))
        self.arrived = 0
