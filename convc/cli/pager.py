"""Long pages through a pager, where a person reads at a terminal; a file or a pipe gets them as they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from convc.report.console import Console

LESS = "-FRX"
"""Options of less where the user has none: end at once where all fits on the screen, keep colours, leave the page."""


def terminal_stdin() -> bool:
    """Whether a person can turn pages: stdin is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def paged(console: Console, wanted: bool) -> Iterator[None]:
    """Show what is printed in the block with the user's pager (``PAGER``), if stdin and stdout are a terminal.

    Where the block ends with an error, what it has printed so far is shown first.
    """
    if not (wanted and console.is_terminal and terminal_stdin()):
        yield
        return
    captured = console.capture()
    captured.__enter__()
    try:
        yield
    finally:
        captured.__exit__(None, None, None)
        os.environ.setdefault("LESS", LESS)
        click.echo_via_pager(captured.get())
