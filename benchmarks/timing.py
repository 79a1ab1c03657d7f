"""Time of the fastest of a few runs: what slows the others down is the computer's other work.

Budgets hold on any computer, so they are ratios of two times of one run. Where nothing else computes the same, the
other time is `yardstick`: what a fresh process takes to import sympy, which is pure Python and changes little.
"""

from __future__ import annotations

import functools
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

REPEATS = 3


def best(work: Callable[[], object], clock: Callable[[], float] = time.process_time, repeats: int = REPEATS) -> float:
    """Seconds of the fastest of a few runs, by the processor's clock or another."""
    times = []
    for _ in range(repeats):
        started = clock()
        work()
        times.append(clock() - started)
    return min(times)


def in_turns(works: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Processor seconds of the fastest of `REPEATS` runs of each, taken in turns: other work slows all of them."""
    times = dict.fromkeys(works, float("inf"))
    for _ in range(REPEATS):
        for name, work in works.items():
            times[name] = min(times[name], best(work, repeats=1))
    return times


def children_time() -> float:
    """Seconds that the processor worked for the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_kib() -> int:
    """Most KiB of memory that this program has had.

    Linux counts for ``ru_maxrss`` what the process had before it began with this program as well (getrusage(2)): the
    memory of whoever started it, other benchmarks included. ``VmHWM`` is of the program alone (proc_pid_status(5)).
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most >> 10 if sys.platform == "darwin" else most  # bytes there


@functools.cache
def yardstick() -> float:
    """Seconds of processor time of a fresh process that imports sympy."""
    return best(lambda: subprocess.run([sys.executable, "-c", "import sympy"], check=True), children_time)
