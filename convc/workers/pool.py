"""Many pieces of work on an executor, none of them lost.

Results come as they are ready. Only a few pieces are with the executor at a time, so that memory stays small. Where a
worker process dies, all that was under way is suspect: a new pool is opened and the suspects are done one at a time,
so that a piece that kills its worker a second time is known by name, and is given up; the others lose nothing. A Dask
scheduler does the same by itself (setting ``distributed.scheduler.allowed-failures``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from typing import Any

from convc.errors import ConvcError, InputError, WorkerError
from convc.workers.executors import AUTO_JOBS, OpenExecutor, cores, executor_opener

AHEAD = 2
"""Pieces with the executor for each that it can do at the same time: one is done, one waits."""

MOST_LOSSES = 20
"""Pools of a sweep that may break."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A piece of work: what it is called, and the call; function and arguments must be fit to be sent."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Pool:
    """An executor that is opened when there is work, and opened anew when its workers are lost.

    Used as a context; leaving it by an exception (Ctrl-C too) gives up what is under way.

    Attributes:
        here: it is not wanted at all: one job, which this process does.
        optional: it was not asked for: work that is done sooner in this process need not use it.
    """

    def __init__(self, executor: str | Executor | None = None, jobs: int | None = None) -> None:
        """``executor`` and ``jobs`` as `executor_opener` has them; by default a process per core.

        Raises:
            InputError: there is no such executor, or both a cluster and a number of processes are given.
        """
        self.optional = executor is None and jobs is None
        if jobs is not None and isinstance(executor, str) and executor.startswith("dask:"):
            raise InputError("jobs are processes of this machine; a Dask cluster has the workers that it has")
        if jobs is None:
            jobs = min(cores(), AUTO_JOBS) if self.optional else cores()
        self.here = executor is None and jobs == 1
        self._jobs = jobs
        self._open = executor_opener(executor, jobs)
        self._own = not isinstance(executor, Executor)
        self._crew: OpenExecutor | None = None
        self._probe: Future[Any] | None = None
        self._losses = 0
        self._failed_starts = 0  # pools in a row in which no worker said a word

    def settle(self, worth: Callable[[int], int]) -> bool:
        """Settle how many processes there are, where they were not asked for; False: none, work is done here.

        Args:
            worth: of a number of processes how many are worth it, 1 for none.
        """
        if not self.optional:
            return True
        jobs = worth(self._jobs)
        if self._crew is None and jobs != self._jobs:
            self._jobs = jobs
            self._open = executor_opener(None, jobs)
        return jobs > 1

    @property
    def slots(self) -> int:
        """Pieces of work that it does at the same time; asking opens the executor."""
        return self._ready().slots

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(give_up=kind is not None)

    def run(self, pieces: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Do all pieces; gives each one's index and result as it is ready.

        The result of a piece that lost its worker twice is a `WorkerError`, as a value. An error that a piece raises
        is raised here.

        Raises:
            WorkerError: workers do not start, or are lost again and again; or the cluster went away.
        """
        waiting = deque(range(len(pieces)))
        suspects: deque[int] = deque()  # to be done again, one at a time
        suspected: set[int] = set()  # all that were ever suspects: they are not tried a third time
        flying: dict[Future[Any], int] = {}
        try:
            while waiting or suspects or flying:
                alone = bool(suspects) or any(index in suspected for index in flying.values())
                crew = self._ready()
                while (waiting or suspects) and len(flying) < (1 if alone else AHEAD * crew.slots):
                    index = (suspects or waiting).popleft()
                    piece = pieces[index]
                    try:
                        flying[crew.executor.submit(piece.function, *piece.arguments)] = index
                    except BrokenExecutor:  # it broke unseen: what flies will say so
                        (suspects if index in suspected else waiting).appendleft(index)
                        break
                done = wait(flying, return_when=FIRST_COMPLETED).done
                if not flying or any(_lost(future) for future in done):
                    wait(flying)
                    fallen = sorted(index for future, index in flying.items() if _lost(future))
                    for future, index in flying.items():
                        if not _lost(future):
                            yield index, _result(future, pieces[index].name)
                    flying.clear()
                    self._break([pieces[index].name for index in fallen])
                    for index in fallen:
                        if index in suspected:
                            yield index, _given_up(pieces[index].name)
                        else:
                            suspected.add(index)
                            suspects.append(index)
                    continue
                for future in done:
                    index = flying.pop(future)
                    yield index, _result(future, pieces[index].name)
        finally:
            if self._crew is not None and self._crew.takes_back:
                for future in flying:
                    future.cancel()

    def _ready(self) -> OpenExecutor:
        """The executor, opened where it is not; the first thing that it does is to answer."""
        if self._crew is None:
            self._crew = self._open()
            self._probe = self._crew.executor.submit(_answer)
        return self._crew

    def _break(self, names: list[str]) -> None:
        """Put a broken pool away; `WorkerError` where there is no sense in another one."""
        started = self._probe is not None and self._probe.done() and not _lost(self._probe)
        self._close(give_up=True)
        self._losses += 1
        self._failed_starts = 0 if started else self._failed_starts + 1
        under_way = f"under way: {', '.join(names[:5])}" if names else ""
        if not self._own:
            raise WorkerError("the executor broke: a worker was lost", where=under_way)
        if self._failed_starts > 1:
            raise WorkerError(
                "worker processes do not start",
                hint="a script that calls convc with jobs above 1 must do so under `if __name__ == '__main__':`",
            )
        if self._losses > MOST_LOSSES:
            raise WorkerError(f"worker processes were lost {self._losses} times", where=under_way)

    def _close(self, give_up: bool) -> None:
        crew = self._crew
        self._crew = None
        if crew is not None:
            crew.close(give_up)


def _answer() -> None:
    """What a worker does first: it is alive."""


def _lost(future: Future[Any]) -> bool:
    """Whether a piece is without a result because a worker process died."""
    return not future.cancelled() and isinstance(future.exception(), BrokenExecutor)


def _given_up(name: str) -> WorkerError:
    """The result of a piece that killed its worker twice."""
    return WorkerError(
        "the worker process died on every attempt",
        where=name,
        hint="memory may be short: use fewer jobs, or a smaller batch; with --jobs 1 it runs in this process",
    )


def _result(future: Future[Any], name: str) -> Any:
    """What a piece gave; the words of other libraries for lost workers become ours."""
    try:
        return future.result()
    except ConvcError:
        raise
    except CancelledError:
        raise WorkerError("the cluster went away", where=f"under way: {name}") from None
    except Exception as problem:
        if type(problem).__name__ == "KilledWorker":  # of distributed, which need not be installed here
            return _given_up(name)
        raise
