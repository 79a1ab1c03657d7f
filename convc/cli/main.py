"""The command ``convc``: its list of commands, and how a command ends.

    exit code   meaning
    0           good
    1           checked and wrong: a result, a finding, or a kernel that faults or hangs
    2           the input or the call is bad
    130, 141    stopped with Ctrl-C; the reader of the output went away

Errors go to stderr, as sentences and without a traceback. A command's module is imported when the command is called,
a verb's when that is called (`convc.api`), and a command imports its reports in its functions: so the help of every
command is quick, and ``convc run`` of a build folder never loads the compiler.

Ctrl-C while a command runs.

Python raises `KeyboardInterrupt` wherever it is. Inside an import that goes wrong: what numpy imports from C prints a
traceback by itself, and makes an `ImportError` of it. So an import is first brought to its end. Libraries in C may make
another exception of it elsewhere too; so it is noted that there was a Ctrl-C: what is raised behind it comes of it.
"""

from __future__ import annotations

import _thread
import contextlib
import gc
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TextIO

import click

from convc._version import __version__
from convc.cli.failures import explained
from convc.cli.once import OnceGroup
from convc.errors import ConvcError
from convc.support.visible import visible

INTERRUPTED = 130
BROKEN_PIPE = 141

GARBAGE_THRESHOLD = 50_000
"""New objects between two searches for garbage. A command's imports make many objects, and all of them stay: at the
default of 700, a tenth of their time goes into searching."""

COMMANDS = {
    "audit": "Check kernels against the rules of the PTX manual.",
    "check": "Check the kernels of a build folder for races and hangs.",
    "compile": "Compile an ONNX model into a build folder.",
    "derive": "Derive the loops of a schedule, for all sizes.",
    "draw": "Draw layouts, descriptors, tiles, memory and time.",
    "exec": "Run any PTX kernel with a launch file.",
    "explain": "Explain the code of a message.",
    "explain-descriptor": "Decode the fields of a descriptor.",
    "inspect": "List the layers; show how one is compiled, and why.",
    "launch": "Launch a kernel on a GPU, beside the simulator.",
    "probe": "List hardware assumptions, and test them on a GPU.",
    "record": "Run a CUDA host program without a GPU.",
    "report": "Write an HTML report of layers.",
    "run": "Run a layer of a build folder, or a whole model.",
    "survey": "List, verify and run every model of a folder.",
    "time": "Estimate the time of kernels, and what bounds it.",
    "tune": "Measure candidates on a GPU, and keep the fastest.",
    "verify": "Check every convolution of a model.",
}
"""What each command does, as ``convc --help`` lists it; ``x-y`` is ``x_y_command`` of the module ``x_y`` here."""


class _ReaderGoneError(Exception):
    """The reader of the output went away."""


class _InterruptedError(Exception):
    """Ctrl-C came."""


@contextlib.contextmanager
def _kept_from_click() -> Generator[None]:
    """Raise as exceptions of our own what click would end in its own way: with exit code 1, or a line on stderr."""
    try:
        yield
    except BrokenPipeError:
        raise _ReaderGoneError from None
    except KeyboardInterrupt:
        raise _InterruptedError from None


class Commands(OnceGroup):
    """A group of commands that are imported when they are called, and whose failures end as the table above says."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, imported now; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        return getattr(importlib.import_module(f"convc.cli.{name}"), f"{name}_command")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """The context of a call; its help is printed here."""
        with _kept_from_click():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and see that all of its output has gone out."""
        with _kept_from_click():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command, its help included, and leave with its exit code; without ``standalone_mode`` as click does."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        with noted_interrupts() as interrupted:
            sys.exit(self._end(interrupted, *args, **extra))

    def _end(self, interrupted: threading.Event, *args: Any, **extra: Any) -> int:
        """Run a command; turn what it raises into a message and an exit code. Behind a Ctrl-C all comes of that."""
        try:
            code = super().main(*args, standalone_mode=False, **extra)
        except Exception as problem:
            if interrupted.is_set() or isinstance(problem, _InterruptedError):
                return _stopped("interrupted", INTERRUPTED)
            return _failed(problem)
        return code if isinstance(code, int) else 0


def _failed(problem: Exception) -> int:
    """The exit code of what a command raised, when that has been said; a mistake of convc's own is raised again."""
    if isinstance(problem, click.ClickException):
        return _stopped(_usage(problem), problem.exit_code)
    if isinstance(problem, _ReaderGoneError):
        _drop(sys.stdout)
        return BROKEN_PIPE
    if isinstance(problem, OSError) and problem.filename is None:
        _drop(sys.stdout)
    failure = explained(problem)
    if isinstance(failure, ConvcError):
        return _stopped(str(failure), failure.exit_code)
    raise problem


def _usage(problem: click.ClickException) -> str:
    """A message of click with all that it shows."""
    shown = io.StringIO()
    problem.show(file=shown)
    return shown.getvalue().rstrip("\n")


def _stopped(message: str, exit_code: int) -> int:
    """The exit code, when a message has gone to stderr, or nobody can read it there."""
    try:
        click.echo(visible(message), err=True)
    except OSError:
        _drop(sys.stderr)
    return exit_code


def _drop(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere: it would fail once more when the process ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit code 0: good. 1: checked and wrong. 2: the input or the call is bad.",
)
@click.version_option(__version__, prog_name="convc")
def main() -> None:
    """Compile ONNX convolutions to PTX for NVIDIA Blackwell (sm_100a), run that text, and check it."""


def entry() -> NoReturn:
    """Run the command line of this process, and leave; what the terminal's encoding lacks is written with escapes."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever called; files that are opened must not take its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    main(prog_name="convc")
    raise AssertionError("click leaves the process")


AGAIN = 0.02
"""Seconds until an import is looked at again."""

MOST = 250
"""So often an import is waited for: 5 seconds, of which one that hangs has all."""


@contextmanager
def noted_interrupts() -> Generator[threading.Event]:
    """Give an event that is set when Ctrl-C comes, which raises `KeyboardInterrupt` as soon as no import is under way.

    It is never set where the process ignores or handles Ctrl-C by itself, or outside of its main thread.
    """
    interrupted = threading.Event()
    waited = 0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal waited
        interrupted.set()
        waited += 1
        if _imports(frame) and waited <= MOST:
            again = threading.Timer(AGAIN, _interrupt_main)
            again.daemon = True
            again.start()
            return
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread()
    if not ours or before not in (signal.default_int_handler, signal.SIG_DFL):
        yield interrupted
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt_main() -> None:
    """Send the main thread the signal, so that it wakes where it sleeps; what `_thread.interrupt_main` does waits."""
    if hasattr(signal, "pthread_kill"):
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _imports(frame: FrameType | None) -> bool:
    """Whether a frame was called, through whatever lies between, by an import."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
