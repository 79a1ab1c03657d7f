"""Limits of time and memory for a piece of work in this process."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

ADDRESS_SPACE = 6 << 30
"""Bytes of address space of a worker."""


class Endless(BaseException):
    """The work took longer than it may; no `except Exception` on the way may swallow it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Leave the block by `Endless` after so many seconds of processor time."""

    def stop(_number: int, _frame: object) -> None:
        raise Endless(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def limit_memory(size: int = ADDRESS_SPACE) -> None:
    """From now on this process gets no more than so many bytes of address space."""
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
