"""Pools and caches for the work of a verb, as `WorkOptions` ask for them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from convc.api.arguments import given_options
from convc.api.options import ChipOptions, ScheduleOptions, WorkOptions
from convc.compiler.kernels import Kernels, KernelTimer, shared_problem
from convc.compiler.tunings import Tunings
from convc.ir.problem import ConvProblem
from convc.ir.tuned import Tuned
from convc.support.cache import kept_kernels
from convc.workers.pool import Pool


@contextmanager
def open_kernels(
    schedule: ScheduleOptions | None, work: WorkOptions, chip: ChipOptions | None = None
) -> Generator[Kernels]:
    """Give what compiles kernels and keeps them; the cache is closed at the end of the block.

    Where candidates are timed, ``chip`` says on what.
    """
    options = given_options(schedule, ScheduleOptions, "schedule")
    with kept_kernels(work.cache) as cache:
        tunings = None if cache is None else Tunings(cache)
        yield Kernels(options, cache, timer_of(options, chip), tunings)


def tuned_of(problem: ConvProblem, options: ScheduleOptions) -> Tuned | None:
    """The tuning record of a problem of any name in the user's cache; None where there is none."""
    with kept_kernels() as cache:
        return None if cache is None else Tunings(cache).find(shared_problem(problem), options)


def timer_of(options: ScheduleOptions, chip: ChipOptions | None = None) -> KernelTimer | None:
    """The timing engine where options ask for it: on ``chip``, by default on the one that kernels are for."""
    if not options.timed:
        return None
    # Imported where it is asked for: who compiles by estimates needs no engine.
    from convc.api.timer import EngineTimer

    return EngineTimer(chip or ChipOptions())


@contextmanager
def open_pool(work: WorkOptions) -> Generator[Pool | None]:
    """The pool asked for, which is closed at the end unless it is the caller's; None: work in this process."""
    if isinstance(work.executor, Pool):
        yield None if work.executor.here else work.executor
        return
    alone = work.executor is None and work.jobs is None
    with Pool(work.executor, 1 if alone else work.jobs) as pool:
        yield None if pool.here else pool
