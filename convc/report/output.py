"""Where a report goes: to a file, whole or not at all, or to stdout for the name ``-``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from convc.errors import InputError
from convc.files import check_target, write_bytes

STDOUT = Path("-")


def check_reports(*files: Path | None) -> bool:
    """Whether a report goes to stdout, where nothing else may then go; None is no report.

    Raises:
        InputError: a file cannot be written there, or two reports go to stdout.
    """
    wanted = [file for file in files if file is not None]
    if wanted.count(STDOUT) > 1:
        raise InputError("only one report can go to stdout (-)", hint="name a file for the others")
    for file in wanted:
        if file != STDOUT:
            check_target(file)
    return STDOUT in wanted


def write_report(file: Path | None, content: bytes) -> None:
    """Write a report (UTF-8) where it was asked for."""
    if file == STDOUT:
        sys.stdout.write(content.decode())
        sys.stdout.flush()
    elif file is not None:
        write_bytes(file, content)


def json_text(record: Any) -> bytes:
    """Indented JSON with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
