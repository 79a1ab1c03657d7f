"""Findings as SARIF 2.1.0 (OASIS), which editors and code hosts show beside their lines, and errors as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Literal, TypedDict

from convc._version import __version__
from convc.errors import ConvcError, MachineError
from convc.ir.findings import Finding, Group, Place, Region, Site, Verdict, grouped
from convc.machine.base.findings import failure
from convc.report.output import json_text

LEVELS = {
    Verdict.clean: "none", Verdict.review: "note", Verdict.rule: "warning", Verdict.incomplete: "warning",
    Verdict.error: "error",
}  # fmt: skip


def sarif(findings: Iterable[Finding]) -> dict[str, Any]:
    """One run of one tool; findings of one cause are one result, with its number of occurrences."""
    results = [_result(group) for group in grouped(findings)]
    rules = [{"id": rule} for rule in sorted({result["ruleId"] for result in results})]
    driver = {"name": "convc", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


VerdictName = Literal["clean", "review", "rule", "incomplete", "error"]
"""The name of a verdict."""


class SiteJson(TypedDict):
    """The site of a finding: thread, line, how often before, and part of a convolution; null and 0: not known.

    ``memory`` has those fields of `convc.ir.findings.Region` that are known, ``coordinates`` those of `Place`, which
    ``place`` says in words.
    """

    file: str
    line: int
    step: str | None
    cta: int | None
    warp: int | None
    lanes: list[int]
    execution: int | None
    memory: dict[str, Any] | None
    place: str | None
    coordinates: dict[str, Any] | None


class FindingJson(SiteJson):
    """A finding: how bad, which rule (``convc explain RULE``), a sentence, where, and the other access of a race."""

    verdict: VerdictName
    rule: str
    message: str
    other: SiteJson | None


class GroupJson(TypedDict):
    """Findings of one cause: how many there are, the lines of all, and one of them.

    Findings have one cause where file, verdict and rule are the same, and the messages but for numbers and registers.
    """

    verdict: VerdictName
    rule: str
    count: int
    lines: list[int]
    example: FindingJson


def groups_json(findings: Iterable[Finding]) -> list[GroupJson]:
    """Findings by cause, as the text and SARIF have them."""
    return [
        {
            "verdict": verdict_name(group.example.verdict),
            "rule": group.example.rule,
            "count": group.count,
            "lines": list(group.lines),
            "example": finding_json(group.example),
        }
        for group in grouped(findings)
    ]


def finding_json(finding: Finding) -> FindingJson:
    """A finding as JSON: the site of what was found, and of the other access where there are two."""
    return {
        "verdict": verdict_name(finding.verdict),
        "rule": finding.rule,
        "message": finding.message,
        **_site(finding),
        "other": None if finding.other is None else _site(finding.other),
    }


def verdict_name(verdict: Verdict) -> VerdictName:
    """The name of a verdict, as JSON has it."""
    match verdict:
        case Verdict.clean:
            return "clean"
        case Verdict.review:
            return "review"
        case Verdict.rule:
            return "rule"
        case Verdict.incomplete:
            return "incomplete"
        case Verdict.error:
            return "error"


def _site(site: Site) -> SiteJson:
    """Who, where, how often before, and which part of a convolution: as text and in numbers."""
    return {
        "file": site.file,
        "line": site.line,
        "step": site.step,
        "cta": site.cta,
        "warp": site.warp,
        "lanes": list(site.lanes),
        "execution": site.nth,
        "memory": _known(site.region),
        "place": None if site.place is None else str(site.place),
        "coordinates": _known(site.place),
    }


def _known(record: Region | Place | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {field.name: value for field in fields(record) if (value := getattr(record, field.name)) not in (None, ())}


def _result(group: Group) -> dict[str, Any]:
    """Findings of one cause as a SARIF result."""
    finding = group.example
    known = finding_json(finding)
    names = ("step", "cta", "warp", "lanes", "execution", "memory", "place", "coordinates")
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": LEVELS[finding.verdict],
        "message": {"text": finding.message},
        "properties": {name: known[name] for name in names if known[name] not in (None, [])},
        "occurrenceCount": group.count,
    }
    if group.count > 1:
        result["properties"]["lines"] = list(group.lines)
    if finding.line:
        result["locations"] = [_location(finding)]
    if finding.other is not None and finding.other.line:
        said = {"message": {"text": ", ".join(filter(None, ("the other access", finding.other.who)))}}
        result["relatedLocations"] = [_location(finding.other) | said]
    return result


def _location(site: Site) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": site.file}, "region": {"startLine": site.line}}
    return {"physicalLocation": place}


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
    findings = [finding_json(failure(error, error.where))] if isinstance(error, MachineError) else []
    span = None if error is None else error.span
    record: ErrorJson = {
        "format": "convc-error/1",
        "code": None if error is None else error.code,
        "exit_code": exit_code,
        "message": message,
        "where": "" if error is None else error.where,
        "hint": "" if error is None else error.hint,
        "span": None if span is None else {"file": span.file, "line": span.line, "column": span.column},
        "findings": findings,
    }
    return json_text(record)
