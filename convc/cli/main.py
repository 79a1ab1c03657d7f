"""The command ``convc``: its list of commands, and how a command ends.

    exit code   meaning
    0           good
    1           checked and wrong: a result, a finding, or a kernel that faults or hangs
    2           the input or the call is bad
    130, 141    stopped with Ctrl-C; the reader of the output went away

Errors go to stderr, as sentences and without a traceback. Commands import what they need when they run, so
that ``convc --help`` is quick and ``convc run`` never loads the compiler.
"""

from __future__ import annotations

import io
import os
import sys
from typing import IO, Any, NoReturn

import click

import convc
from convc.cli.check import check_command
from convc.cli.compile import compile_command
from convc.cli.exec import exec_command
from convc.cli.explain import explain_command
from convc.cli.inspect import inspect_command
from convc.cli.run import run_command
from convc.cli.verify import verify_command
from convc.errors import ConvcError, InputError, LimitError

INTERRUPTED = 130
BROKEN_PIPE = 141


class Stopped(click.ClickException):
    """The end of a command with a message on stderr and an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message as it is."""
        if self.message:
            click.echo(self.message, file=file or sys.stderr)


class Commands(click.Group):
    """A group of commands whose failures end as the table above says."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn what it raises into a message and an exit code."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except ConvcError as error:
            raise Stopped(str(error), error.exit_code) from None
        except KeyboardInterrupt:
            raise Stopped("interrupted", INTERRUPTED) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to flush at exit
            raise Stopped("", BROKEN_PIPE) from None
        except MemoryError:
            error = LimitError("there is not enough memory", hint="use a smaller batch or image")
            raise Stopped(str(error), error.exit_code) from None
        except OSError as problem:
            error = InputError(problem.strerror or str(problem), where=str(problem.filename or ""))
            raise Stopped(str(error), error.exit_code) from None


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit code 0: good. 1: checked and wrong. 2: the input or the call is bad.",
)
@click.version_option(convc.__version__, prog_name="convc")
def main() -> None:
    """Compile ONNX convolutions to PTX for NVIDIA Blackwell (sm_100a), run that text, and check it."""


for command in (
    compile_command,
    run_command,
    verify_command,
    inspect_command,
    exec_command,
    check_command,
    explain_command,
):
    main.add_command(command)


def entry() -> NoReturn:
    """Run the command line of this process, and leave; what the terminal's encoding lacks is written with escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    main(prog_name="convc")
    raise AssertionError("click leaves the process")
