"""Time of the fastest of a few runs: what slows the others down is the computer's other work."""

from __future__ import annotations

import time
from collections.abc import Callable

REPEATS = 3


def best(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of the fastest of `REPEATS` runs, by the processor's clock or another."""
    times = []
    for _ in range(REPEATS):
        started = clock()
        work()
        times.append(clock() - started)
    return min(times)
