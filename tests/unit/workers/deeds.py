"""What the tests of sweeps let workers do: these functions are sent to other processes by their names."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from threadpoolctl import threadpool_info

from convc.errors import LimitError


def square(number: int) -> int:
    return number * number


def identity() -> int:
    time.sleep(0.05)
    return os.getpid()


def die_once(flag: str, number: int) -> int:
    """Kill this process unless it was done before."""
    if not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(number: int) -> int:
    raise LimitError(f"no memory for {number}", where="node 'n'", hint="buy some")


def fail() -> None:
    raise ZeroDivisionError("a mistake of ours")


def blas_threads() -> list[int]:
    from convc.workers.jobs import one_thread

    with one_thread():
        return [entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"]


def wait_long(flag: str) -> None:
    Path(flag).write_text(str(os.getpid()))
    time.sleep(120)


def killed_by_dask() -> None:
    """What a Dask scheduler says of a piece whose workers died too often."""
    from distributed.scheduler import KilledWorker

    raise KilledWorker("check_job-1", None, 3)
