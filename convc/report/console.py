"""Consoles for reports: results to stdout, progress to stderr, and progress only when a person is looking."""

from __future__ import annotations

import io
import os
import sys
import textwrap
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console as Console

from convc.support.progress import Tell
from convc.support.visible import visible

if TYPE_CHECKING:
    from rich.progress import Progress

FULL_WIDTH = 1 << 20
"""Columns of a page that goes to a file or a pipe: lines as long as they are."""

PROSE = 120
"""Columns of a sentence in a file or a pipe."""

PATIENCE_S = 1.0
"""Seconds of silence before a progress bar appears."""


class _Console(Console):
    """A console that leaves a broken pipe to its caller, and obeys no control characters of the texts it prints."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does, with texts made visible."""
        super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **options)

    def on_broken_pipe(self) -> None:
        """Let the BrokenPipeError that is being handled go on (rich would leave the process)."""
        raise


def console(stderr: bool = False) -> Console:
    """A console that prints texts as they are: no markup, no highlighting.

    It is as wide as its terminal; in a file or a pipe lines are not broken (for tables see `table_width`).
    """
    # Python has no stream where the file was closed before it began.
    stream: TextIO = (sys.stderr if stderr else sys.stdout) or io.StringIO()
    width = None if stream.isatty() else FULL_WIDTH
    return _Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def table_width(console: Console) -> int:
    """Columns that a table has: those of the terminal, or in a file or a pipe as many as ``COLUMNS`` says, if it does.

    The environment variable comes first on a terminal as well, which rich sees to.
    """
    setting = os.environ.get("COLUMNS", "")
    if console.width == FULL_WIDTH and setting.isdecimal() and int(setting) > 0:
        return int(setting)
    return console.width


def prose_width(console: Console) -> int:
    """Columns of a sentence: those of the terminal, or in a file or a pipe what ``COLUMNS`` says, else `PROSE`."""
    width = table_width(console)
    return PROSE if width == FULL_WIDTH else width


def print_prose(console: Console, lines: Iterable[str], hang: int = 2) -> None:
    """Print sentences, each in as many lines as it needs, which are set in by ``hang`` behind its first.

    A line that begins with spaces is set in by as many more. Words are never broken.
    """
    width = max(prose_width(console), hang + 20)
    for line in lines:
        for piece in wrapped(line, width, hang):
            console.print(piece, soft_wrap=True)


def wrapped(line: str, width: int, hang: int = 2) -> list[str]:
    """A sentence in lines of at most so many characters, words whole; spaces inside of it stay as they are."""
    if len(line) <= width:
        return [line]
    first = len(line) - len(line.lstrip())
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * (first if first >= hang > 2 else first + hang),
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )


def page_text(page: Callable[[Console], None]) -> str:
    """The text of a page, as wide as in a pipe."""
    paper = io.StringIO()
    page(_Console(file=paper, width=FULL_WIDTH, markup=False, highlight=False, emoji=False, color_system=None))
    return paper.getvalue()


def print_heading(console: Console, heading: str) -> None:
    """The heading of a part of a report."""
    console.print(f"\n== {heading} ==", style="bold")


def print_part(console: Console, heading: str, lines: Iterable[str]) -> None:
    """A part of a report: its heading and its lines, unbroken, as those of a program are."""
    print_heading(console, heading)
    for line in lines:
        console.print(line, soft_wrap=True)


@contextmanager
def progress_bar() -> Generator[Tell | None]:
    """Give a function to call with (what is being done, share done 0 to 1), or None when no terminal looks on.

    The bar is drawn on stderr once the work takes more than a second, and is gone at the end.
    """
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.stop()


class _Bar:
    """A progress bar that waits before it appears."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._progress: Progress | None = None

    def __call__(self, what: str, part: float) -> None:
        if self._progress is None:
            if time.monotonic() - self._started < PATIENCE_S:
                return
            # Imported where a bar appears: most work is done before.
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                BarColumn(bar_width=24),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task(what, total=1.0)
            self._progress.start()
        self._progress.update(self._task, description=what, completed=part)

    def stop(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
