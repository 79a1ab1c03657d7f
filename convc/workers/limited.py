"""One piece of work in a process of its own, which may be ended: where it takes too long, or dies, the caller goes on.

A pool (`convc.workers.pool`) cannot do this: its processes are shared, and ending one loses the work of the others.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from convc.errors import ConvcError, WorkerError
from convc.workers.executors import end_with_parent


def limited(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a fresh process, and return what it returns; all of that must be picklable.

    Args:
        seconds: wall time that the process may take, its start included.

    Raises:
        WorkerError: the time is over, or the process died (a crash of a library, no memory).
        ConvcError: the function raised it.
    """
    context = multiprocessing.get_context("spawn")
    held, lifeline = context.Pipe(duplex=False)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(held, sender, function, arguments), daemon=True)
    process.start()
    sender.close()  # the child's end alone is left: where the child dies, `poll` wakes and `recv` says so
    try:
        if not receiver.poll(seconds):
            raise WorkerError(f"not finished within {seconds:g} s")
        result = receiver.recv()
    except EOFError:
        process.join()
        raise WorkerError(_death(process.exitcode)) from None
    finally:
        process.kill()
        process.join()
        for end in (held, lifeline, receiver):
            end.close()
    if isinstance(result, ConvcError):
        raise result
    return result


def _work(lifeline: Any, sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """The life of the process."""
    end_with_parent(lifeline)
    try:
        result = function(*arguments)
    except ConvcError as error:
        result = error
    sender.send(result)


def _death(code: int | None) -> str:
    """Say how a process ended that sent nothing."""
    if code is not None and code < 0:
        return f"its process was ended by signal {-code}; the system does that where memory runs out"
    return f"its process ended with exit code {code} and no result"
