"""Executors: where a sweep runs, behind the interface of `concurrent.futures`.

    processes           worker processes on this machine, one BLAS thread each (`ProcessPoolExecutor`)
    dask://HOST:PORT    a Dask cluster, through `distributed`'s own executor (extra ``convc[cluster]``)

Worker processes are started afresh ("spawn"), ignore Ctrl-C, which is their parent's business, and end when the
parent ends or lets go, in whatever way that happens. Python objects go both ways: name only a cluster that you trust.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from convc.errors import InputError, WorkerError

MAX_JOBS = 1024
"""Most worker processes that can be asked for."""

AUTO_JOBS = 8
"""Most processes that are started without being asked for: each takes about 100 MiB."""

CONNECT_S = 10
"""How long a Dask scheduler may take to answer."""

CHATTY = ("distributed.client", "distributed.core", "distributed.utils", "distributed.comm", "tornado.application")
"""Loggers that print tracebacks where a cluster goes away, which is said in a sentence here."""


@dataclass(frozen=True, slots=True)
class OpenExecutor:
    """An open executor.

    Attributes:
        executor: takes work.
        slots: pieces of work that it does at the same time.
        close: called at the end; with True the work that is under way is given up.
        takes_back: whether work that was not begun may be cancelled. A process pool of Python 3.11 that breaks with
            cancelled work in it prints a traceback.
    """

    executor: Executor
    slots: int
    close: Callable[[bool], None]
    takes_back: bool = True


def executor_opener(executor: str | Executor | None, jobs: int) -> Callable[[], OpenExecutor]:
    """A function that opens the executor asked for; called again where its workers are lost.

    Args:
        executor: ``processes`` (also None), ``dask://HOST:PORT``, or an executor of the caller, who closes it.
        jobs: worker processes; for a caller's executor how many pieces it does at the same time.

    Raises:
        InputError: there is no such kind, or the number is not possible.
    """
    if not 1 <= jobs <= MAX_JOBS:
        raise InputError(f"jobs must be in 1..{MAX_JOBS}, got {jobs}")
    if isinstance(executor, Executor):
        return lambda: OpenExecutor(executor, jobs, lambda give_up: None)
    if executor in (None, "processes"):
        return lambda: _processes(jobs)
    address = _dask_address(executor)
    return lambda: _dask(address)


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ---- processes on this machine ------------------------------------------------------------------------------


class _Receiver(Protocol):
    """The receiving end of a pipe; its class has another name on each operating system."""

    def recv(self) -> object: ...


def _processes(jobs: int) -> OpenExecutor:
    """Worker processes; each holds one end of a pipe that nothing is sent through, and leaves when it is closed."""
    # Imported when processes are wanted: a sweep that this process does alone needs neither.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    held, lifeline = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=end_with_parent, initargs=(held,))

    def close(give_up: bool) -> None:
        if give_up:
            lifeline.close()
        executor.shutdown(wait=True, cancel_futures=True)
        lifeline.close()
        held.close()

    return OpenExecutor(executor, jobs, close, takes_back=False)


def end_with_parent(lifeline: _Receiver) -> None:
    """Prepare a worker process: Ctrl-C is its parent's business, and it ends when the other end of a pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: _Receiver) -> None:
    """Leave when the parent closes its end, or is no more."""
    with suppress(EOFError, OSError):
        lifeline.recv()
    os._exit(1)


# ---- Dask ---------------------------------------------------------------------------------------------------


def _dask_address(name: str) -> str:
    try:
        parts = urlsplit(name)
        host = parts.hostname
        port = parts.port
        complete = not (parts.path.strip("/") or parts.query or parts.username)
    except ValueError:  # a port that is no number, or an address in half a pair of brackets
        host = None
        port = None
        complete = False
    if not name.startswith("dask://") or not host or port is None or not complete:
        raise InputError(
            f"expected an executor, processes or dask://HOST:PORT, got {name!r}",
            hint="a Dask scheduler prints its address when it starts: tcp://HOST:PORT becomes dask://HOST:PORT",
        )
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _dask(address: str) -> OpenExecutor:
    """A Dask cluster, whose loggers are silent as long as it is used."""
    try:
        import distributed
    except ImportError:
        raise InputError(
            "dask://HOST:PORT needs the package distributed, which is not installed",
            hint="pip install 'convc[cluster]'",
        ) from None
    levels = {name: logging.getLogger(name).level for name in CHATTY}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL)

    def speak() -> None:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)

    try:
        # Untyped: what a synchronous client gives is something to wait for where it is asynchronous.
        client: Any = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as problem:
        speak()
        raise WorkerError(
            f"no Dask scheduler answers: {problem or type(problem).__name__}",
            where=address.replace("tcp", "dask", 1),
            hint="start one with `dask scheduler`, and workers with `dask worker tcp://HOST:PORT --nthreads 1`",
        ) from None
    workers = len(client.nthreads())
    if workers == 0:
        client.close()
        speak()
        raise WorkerError(
            "the Dask scheduler has no workers",
            where=address.replace("tcp", "dask", 1),
            hint="start some with `dask worker tcp://HOST:PORT --nthreads 1`, on this or other machines",
        )
    executor = client.get_executor(pure=False)

    def close(give_up: bool) -> None:
        executor.shutdown(wait=not give_up)
        client.close()
        speak()

    return OpenExecutor(executor, workers, close)
