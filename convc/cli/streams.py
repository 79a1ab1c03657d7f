"""``-`` on the command line: a model or arrays from stdin, an array to stdout.

Each stream is one thing: a call that names one twice is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc.errors import InputError
from convc.support.memory import require_memory

if TYPE_CHECKING:
    from convc.api.loading import Source

DASH = "-"
MAX_BYTES = (1 << 31) - 1
_PIECE = 16 << 20


def read_stdin(what: str) -> bytes:
    """Read all of stdin.

    Raises:
        InputError: it is empty, a terminal, or longer than 2 GiB.
        LimitError: it does not fit into memory.
    """
    if sys.stdin is None:
        raise InputError(f"expected {what} on stdin (-), which is closed", hint="redirect a file into it")
    if sys.stdin.isatty():
        raise InputError(f"expected {what} on stdin (-), which is a terminal", hint="redirect a file into it")
    pieces: list[bytes] = []
    size = 0
    while piece := sys.stdin.buffer.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise InputError(f"{what} on stdin (-) is longer than 2 GiB", hint="name a file")
        require_memory(2 * size, f"reading {what} from stdin")
    if not size:
        raise InputError(f"expected {what} on stdin (-), which is empty")
    return b"".join(pieces)


def model_source(path: Path) -> Source:
    """The model of an argument: its file, or for ``-`` what stdin holds."""
    if str(path) != DASH:
        return path
    # Imported when a model comes this way: it brings onnx, which no run of a build folder needs.
    from convc.api.loading import model_of

    return model_of(read_stdin("a model"), "stdin")


def check_once(*values: object) -> None:
    """`click.UsageError` where more than one of the values is ``-``."""
    if sum(str(value) == DASH for value in values) > 1:
        raise click.UsageError("stdin (-) can be read once: name a file for the others.")


def named_files(values: Sequence[str], option: str) -> dict[str, Path]:
    """``NAME=FILE`` by name, ``FILE`` alone under ""; `InputError` for a name that comes twice."""
    files: dict[str, Path] = {}
    for value in values:
        name, equals, file = value.partition("=")
        if not equals or Path(value).exists():
            name = ""
            file = value
        if name in files:
            raise InputError(f"{option} is given twice for {name!r}" if name else f"{option} needs names: NAME=FILE")
        files[name] = Path(file)
    return files


def sources_of(files: dict[str, Path], what: str) -> dict[str, Path | bytes]:
    """Files by name, with what stdin holds in place of ``-``."""
    check_once(*files.values())
    return {name: read_stdin(what) if str(file) == DASH else file for name, file in files.items()}


def write_stdout(data: bytes) -> None:
    """Write a result to stdout, as it is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
