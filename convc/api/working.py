"""Pools and caches for the work of a verb, as `WorkOptions` ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from convc.api.arguments import given_options
from convc.api.options import ScheduleOptions, WorkOptions
from convc.compiler.cache import kept_kernels
from convc.compiler.kernels import Kernels
from convc.workers.pool import Pool


@contextmanager
def open_kernels(schedule: ScheduleOptions | None, work: WorkOptions) -> Iterator[Kernels]:
    """Give what compiles kernels and keeps them; the cache is closed at the end of the block."""
    with kept_kernels(work.cache) as cache:
        yield Kernels(given_options(schedule, ScheduleOptions, "schedule"), cache)


@contextmanager
def open_pool(work: WorkOptions) -> Iterator[Pool | None]:
    """The pool asked for, which is closed at the end unless it is the caller's; None: work in this process."""
    if isinstance(work.executor, Pool):
        yield None if work.executor.here else work.executor
        return
    alone = work.executor is None and work.jobs is None
    with Pool(work.executor, 1 if alone else work.jobs) as pool:
        yield None if pool.here else pool
