"""Targets of reports: a file, which is written whole or not at all, or stdout for the name ``-``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import msgspec

from convc._version import __version__
from convc.errors import InputError
from convc.support.files import check_target, write_bytes

STDOUT = Path("-")


def check_reports(*files: Path | None) -> bool:
    """Whether a report goes to stdout, where nothing else may then go; None is no report.

    Raises:
        InputError: a file cannot be written there, or two reports go to stdout. Files that are one are refused
            where the call is read (`convc.api.kept.check_apart`).
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
        sys.stdout.flush()
        sys.stdout.buffer.write(content)  # UTF-8, whatever the terminal's encoding is
        sys.stdout.buffer.flush()
    elif file is not None:
        write_bytes(file, content)


def json_text(record: Any) -> bytes:
    """Indented JSON with a newline at the end; a report, which has a format, also says which convc wrote it."""
    if isinstance(record, dict) and "format" in record:
        known = cast("dict[str, Any]", record)
        record = {"format": known["format"], "convc": __version__, **known}
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
