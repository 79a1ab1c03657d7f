"""Errors that end a command, and the JSON that says them to a program.

Who asks for ``--json`` gets one object whatever comes of the call: the report of the command, or where it ends with an
error what the message on stderr says, as ``convc-error/1``. Only Ctrl-C, a reader that went away and words that are no
call (an unknown option, a value that an option does not take) leave nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from convc.cli.files import check_there
from convc.errors import ConvcError, InputError
from convc.support.memory import out_of_memory

Failure = click.ClickException | ConvcError


def explained(problem: Exception) -> Failure | None:
    """The error, with message and exit code, that an exception of a command stands for; None where there is none."""
    if isinstance(problem, MemoryError):
        return out_of_memory(problem, "this call")
    if isinstance(problem, OSError) and not isinstance(problem, BrokenPipeError):
        return InputError(problem.strerror or str(problem), where=str(problem.filename or ""))
    return problem if isinstance(problem, Failure) else None


def write_failure(file: Path | None, problem: Failure) -> None:
    """Write an error as JSON where a report was asked for; not being able to is no error more: it is said anyway."""
    if file is None:
        return
    # Imported here because reports load numpy, and most calls end well.
    from convc.report.output import write_report
    from convc.report.sarif import error_json, failure_json

    if isinstance(problem, ConvcError):
        content = failure_json(problem)
    else:
        content = error_json(problem.format_message(), exit_code=problem.exit_code)
    with contextlib.suppress(ConvcError, OSError):
        write_report(file, content)


def answering(command: Callable[..., Any]) -> Callable[..., Any]:
    """Have a command that takes ``json_file`` write there what error it ends with, a missing file too."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> Any:
        file = given["json_file"]
        try:
            check_there()
            return command(**given)
        except Exception as problem:
            failure = explained(problem)
            if failure is not None:
                write_failure(file, failure)
            raise

    return wrapped
