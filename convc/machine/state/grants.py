"""Clusters of a launch that have not begun, which running ones may ask for (clusterlaunchcontrol).

The hardware starts clusters as there is room, and gives a cluster that has not started to one that asks; which one, and
whether any, it does not promise (PTX manual, clusterlaunchcontrol.try_cancel). A right kernel does not depend on it, so
the simulator can choose:

* ``ordered``: the one with the lowest number;
* ``reversed``: the one with the highest;
* ``seeded``: any, and one request in eight is declined, at random but repeatably;
* ``none``: every request is declined, so that each cluster has its own work alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from convc.errors import InputError

GRANTS = ("ordered", "reversed", "seeded", "none")
DECLINED = 1 / 8
"""Probability that ``seeded`` declines although clusters wait."""

BEGIN_WITH = 5
"""One cluster in so many begins where the number is not given: the others are asked for."""


class Grants:
    """The clusters that wait.

    Attributes:
        waiting: their numbers, ascending. size: CTAs of each.
    """

    def __init__(self, policy: str = "none", seed: int = 0, clusters: range = range(0), size: int = 1) -> None:
        self.waiting = list(clusters)
        self.size = size
        self._policy = policy
        self._random = random.Random(seed)

    def take(self) -> int | None:
        """The cluster that who asks gets, which does not begin any more; None: the request is declined."""
        if not self.waiting or self._policy == "none":
            return None
        if self._policy == "seeded":
            if self._random.random() < DECLINED:
                return None
            return self.waiting.pop(self._random.randrange(len(self.waiting)))
        return self.waiting.pop(0 if self._policy == "ordered" else -1)

    def begin(self, resident: int | None, most: int) -> Iterator[tuple[int, int]]:
        """First CTA and number of CTAs of clusters that begin together, and wait no more, until none is left.

        Args:
            resident: how many clusters begin at a time; None: some, so that there is something to ask for.
            most: how many CTAs there is room for.
        """
        if resident is None:
            resident = most if self._policy == "none" else max(1, len(self.waiting) // BEGIN_WITH)
        while self.waiting:
            first = self.waiting[0]
            count = 1
            room = min(resident, most // self.size, len(self.waiting))
            while count < room and self.waiting[count] == first + count:
                count += 1
            del self.waiting[:count]
            yield first * self.size, count * self.size


def check_grants(policy: str, resident: int | None) -> None:
    """InputError where there is no such policy, or no cluster would ever begin."""
    if policy not in GRANTS:
        raise InputError(f"grants must be one of {', '.join(GRANTS)}, got {policy!r}")
    if resident is not None and resident < 1:
        raise InputError(f"at least 1 cluster must be resident, got {resident}")
