"""The error that a command ends with, as JSON."""

from __future__ import annotations

from typing import Literal, TypedDict

from convc.errors import ConvcError, MachineError
from convc.machine.base.findings import failure
from convc.report.output import json_text
from convc.report.sarif import FindingJson, finding_json


class ErrorPlace(TypedDict):
    """A place in a text file, 1-based."""

    file: str
    line: int
    column: int


class ErrorJson(TypedDict):
    """An error in place of the report of any command; ``findings`` has the fault or hang of a kernel.

    ``code`` is as ``convc explain CODE`` takes it, null for a call that is wrong; ``where`` and ``hint`` may be empty.
    """

    format: Literal["convc-error/1"]
    code: str | None
    exit_code: int
    message: str
    where: str
    hint: str
    span: ErrorPlace | None
    findings: list[FindingJson]


def failure_json(error: ConvcError) -> bytes:
    """An error as JSON, with a finding where the simulator met it."""
    return error_json(error.message, exit_code=error.exit_code, error=error)


def error_json(message: str, *, exit_code: int, error: ConvcError | None = None) -> bytes:
    """A message as JSON, with all that is known of it where it is an error of convc."""
    found = [finding_json(failure(error, error.where))] if isinstance(error, MachineError) else []
    span = None if error is None else error.span
    record: ErrorJson = {
        "format": "convc-error/1",
        "code": None if error is None else error.code,
        "exit_code": exit_code,
        "message": message,
        "where": "" if error is None else error.where,
        "hint": "" if error is None else error.hint,
        "span": None if span is None else {"file": span.file, "line": span.line, "column": span.column},
        "findings": found,
    }
    return json_text(record)
