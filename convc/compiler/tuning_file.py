"""Files of tuning records, which carry them to other machines: format ``convc-tuning/1``.

A file may come from a stranger. Only what `check` takes is kept, and a record is but options: the kernel is the
planner's own in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from convc._version import __version__
from convc.compiler.compile import chosen_by
from convc.compiler.kernels import shared_problem
from convc.compiler.tunings import TuningRecord
from convc.errors import ConvcError, InputError, ProblemError
from convc.ir.tuned import Name
from convc.support.missing import is_missing, no_file

FORMAT = "convc-tuning/1"

MOST_BYTES = 64 << 20
"""A file that is larger has no records."""


class TuningFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tuning records, as ``convc tune --export`` writes them: the version of convc, and the records."""

    format: Literal["convc-tuning/1"]
    convc: Name
    records: Annotated[tuple[TuningRecord, ...], msgspec.Meta(max_length=100_000)]


def read_tunings(file: Path) -> tuple[TuningRecord, ...]:
    """Read a file of records.

    Raises:
        InputError: it is missing, too large, of another format, or a record is about options that there are not.
    """
    where = str(file)
    if is_missing(file):
        raise no_file(file)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(
                f"a file of tuning records has at most {MOST_BYTES >> 20} MiB, got {file.stat().st_size} bytes",
                where=where,
            )
        data = file.read_bytes()
    except OSError as problem:
        raise InputError(f"cannot read it: {problem.strerror}", where=where) from None
    try:
        found = msgspec.json.decode(data, type=TuningFile)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, ProblemError) as problem:
        hint = "`convc tune MODEL --export FILE.json` writes one"
        raise InputError(f"it is no file of tuning records: {problem}", where=where, hint=hint) from None
    for number, record in enumerate(found.records):
        check(record, f"{where}, $.records[{number}]")
    return found.records


def check(record: TuningRecord, where: str) -> None:
    """Raise `InputError` for options that there are not, or a choice of what was not left open."""
    # Imported where a file is read: who asks for its schema needs no schedules.
    from convc.compiler.planner.conflicts import schedules_for

    if record.problem != shared_problem(record.problem):
        raise InputError(f"a problem has the name of its kernel, got {record.problem.name[:40]!r}", where=where)
    try:
        schedules_for(record.options)
        schedules_for(chosen_by(record.tuned, record.options))
    except ConvcError as error:
        raise InputError(error.message, where=where) from None


def dump_tunings(records: Sequence[TuningRecord]) -> bytes:
    """Write a file of records."""
    made = TuningFile(format=FORMAT, convc=__version__, records=tuple(records))
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"
