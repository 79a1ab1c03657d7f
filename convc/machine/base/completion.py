"""When asynchronous work takes effect: the completion policy.

The hardware may perform asynchronous work at any time between its issue and the end of a wait for it. A
right kernel does not depend on when. The simulator can choose:

* ``eager``: at issue (for the tensor core: at the next commit at the latest);
* ``late``: only when a wait asks for it, or when no warp can go on without it: oldest first, and what signals a barrier
  before what signals no mbarrier;
* ``seeded``: in between, at random but repeatably.

| work | order | what waits for it |
| --- | --- | --- |
| copies that signal an mbarrier, st.async, red.async | none | a wait on the mbarrier |
| tcgen05.mma, cp, shift, up to a commit | as issued | a wait on the mbarrier of the commit |
| bulk stores and reductions of one thread | group by group, free inside | cp.async.bulk.wait_group |
| cp.async | none | cp.async.wait_group, or a wait on the mbarrier of cp.async.mbarrier.arrive |
| tcgen05.ld; tcgen05.st of one warp | as issued | tcgen05.wait::ld; ::st (see `pending_registers`) |
| wgmma of one warp, once committed | as issued | wgmma.wait_group (see `convc.machine.isa.wgmma.groups`) |

Source: PTX manual, "Asynchronous Operations", "Async-group mechanism", "tcgen05 memory consistency model".
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from convc.errors import MachineFault

if TYPE_CHECKING:
    from convc.ptx import Instr

POLICIES = ("eager", "late", "seeded")
CHANCE = 0.25
"""Probability that ``seeded`` performs something waiting before a warp has its turn."""

Action = Callable[[], None]
AsyncStream = deque[tuple[int, Action]]
"""Work with its ranks, ascending; what has the same rank may be performed in any order."""


@dataclass(frozen=True, slots=True)
class PartialWork:
    """Work that is part of a whole: parts of one that are performed after one another may be performed together.

    Attributes:
        whole: performs those of its parts that have these numbers, in this order.
        number: which part this is.
    """

    whole: Callable[[Sequence[int]], None]
    number: int

    def __call__(self) -> None:
        self.whole((self.number,))


def named(instr: Instr, action: Action) -> Action:
    """An action that names its instruction where it fails."""

    def run() -> None:
        try:
            action()
        except MachineFault as fault:
            fault.span = fault.span or instr.span
            raise

    return run


class Pending:
    """Work of one cohort that was issued and not yet performed."""

    def __init__(self, policy: str, seed: int) -> None:
        self.policy = policy
        self.eager = policy == "eager"
        self._random = random.Random(seed)
        self._signalling: dict[object, AsyncStream] = {}
        self._silent: dict[object, AsyncStream] = {}
        self._issued = 0

    def later(self) -> bool:
        """Whether a warp's own work, such as a tcgen05.ld, is deferred until the warp waits for it."""
        return self.policy == "late" or (self.policy == "seeded" and self._random.random() < 0.5)

    def copy(self, action: Action) -> None:
        """Work that signals a barrier, ordered with nothing else."""
        if self.eager:
            action()
        else:
            self._signalling[self._number()] = deque(((0, action),))

    def silent_copy(self, action: Action) -> int:
        """Work that signals no mbarrier, ordered with nothing else; returns the number to `drop` it by."""
        number = self._number()
        self._silent[number] = deque(((0, action),))
        return number

    def drop(self, number: int) -> None:
        """Forget a silent copy: the one who waited for it has performed it."""
        self._silent.pop(number, None)

    def tensor(self, action: Action) -> None:
        """Tensor-core work up to a commit, and the commit's arrival: ordered among themselves."""
        self._signalling.setdefault("tensor", deque()).append((self._number(), action))

    def store(self, thread: tuple[int, int], group: int, action: Action) -> None:
        """A bulk store or reduction: behind those of the earlier groups of its thread (warp, lane)."""
        self._silent.setdefault(thread, deque()).append((group, action))

    def finish_stores(self, waits: Iterable[tuple[tuple[int, int], int]]) -> None:
        """Perform stores of each thread, group by group, until at most so many of its own are left."""
        taken: list[Action] = []
        for thread, leave in waits:
            while len(self._silent.get(thread, ())) > leave:
                taken.append(self._take(self._silent, thread))
        for whole, actions in groupby(taken, lambda action: action.whole if isinstance(action, PartialWork) else None):
            if whole is not None:
                whole([action.number for action in actions if isinstance(action, PartialWork)])
                continue
            for action in actions:
                action()

    def between_turns(self) -> None:
        """``seeded``: perform some of what waits."""
        while self.policy == "seeded" and self._random.random() < CHANCE and self.perform_one():
            pass

    def perform_one(self) -> bool:
        """Perform what has waited longest (``seeded``: anything); False when nothing waits."""
        streams = self._signalling or self._silent
        if not streams:
            return False
        stream = next(iter(streams))
        if self.policy == "seeded":
            stream = self._random.choice([*self._signalling, *self._silent])
            streams = self._signalling if stream in self._signalling else self._silent
        self._take(streams, stream)()
        return True

    def _number(self) -> int:
        self._issued += 1
        return self._issued

    def _take(self, streams: dict[object, AsyncStream], stream: object) -> Action:
        queue = streams[stream]
        free = sum(rank == queue[0][0] for rank, _ in queue) if self.policy == "seeded" else 1
        at = self._random.randrange(free) if free > 1 else 0
        _, action = queue[at]
        del queue[at]
        if not queue:
            del streams[stream]
        return action
