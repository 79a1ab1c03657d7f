"""When asynchronous work takes effect: the completion policy.

The hardware may perform a tensor copy or a tcgen05.mma at any time between its issue and the moment somebody has waited
for it. A right kernel does not depend on when. The machine can choose:

* ``eager``: at issue (for the tensor core: at the next commit at the latest);
* ``late``: only when no warp can go on without it, oldest first;
* ``seeded``: in between, at random but repeatably. Copies may pass each other; the tensor core keeps its order.

Bulk stores of one thread keep their order, and wait_group performs what it waits for. Reductions (their order shows in
float sums), cp.async, st.async and tcgen05.ld and st are performed at issue under every policy.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

POLICIES = ("eager", "late", "seeded")
CHANCE = 0.25
"""Probability that ``seeded`` performs something waiting before a warp has its turn."""

Action = Callable[[], None]


class Pending:
    """Work of one cohort that was issued and not yet performed."""

    def __init__(self, policy: str, seed: int) -> None:
        self.policy = policy
        self.eager = policy == "eager"
        self._random = random.Random(seed)
        self._pipes: dict[object, deque[Action]] = {}
        self._copies = 0

    def copy(self, action: Action) -> None:
        """A copy: ordered with nothing else."""
        if self.eager:
            action()
            return
        self._copies += 1
        self._pipes[self._copies] = deque((action,))

    def tensor(self, action: Action) -> None:
        """Tensor-core work up to a commit, and the commit's arrival: ordered among themselves."""
        self._pipes.setdefault("tensor", deque()).append(action)

    def store(self, thread: tuple[int, int], action: Action) -> None:
        """A bulk store: ordered with the others of its thread (warp, lane)."""
        self._pipes.setdefault(thread, deque()).append(action)

    def finish_stores(self, thread: tuple[int, int], leave: int) -> None:
        """Perform the thread's oldest stores until at most ``leave`` wait."""
        while len(self._pipes.get(thread, ())) > leave:
            self._perform(thread)

    def between_turns(self) -> None:
        """``seeded``: perform some of what waits."""
        while self.policy == "seeded" and self._pipes and self._random.random() < CHANCE:
            self._perform(self._random.choice(list(self._pipes)))

    def perform_one(self) -> bool:
        """Perform what has waited longest (``seeded``: anything); False when nothing waits."""
        if not self._pipes:
            return False
        pipes = list(self._pipes)
        self._perform(self._random.choice(pipes) if self.policy == "seeded" else pipes[0])
        return True

    def _perform(self, pipe: object) -> None:
        queue = self._pipes[pipe]
        action = queue.popleft()
        if not queue:
            del self._pipes[pipe]
        action()
