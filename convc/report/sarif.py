"""Findings as SARIF 2.1.0 (OASIS), which editors and code hosts show beside the lines they are about."""

from __future__ import annotations

from collections.abc import Iterable

import convc
from convc.findings import Finding, Verdict

LEVELS = {Verdict.clean: "none", Verdict.review: "note", Verdict.incomplete: "warning", Verdict.error: "error"}


def sarif(findings: Iterable[Finding]) -> dict:
    """One run of one tool, a result per finding."""
    results = [_result(finding) for finding in findings]
    rules = [{"id": rule} for rule in sorted({result["ruleId"] for result in results})]
    driver = {"name": "convc", "version": convc.__version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def plain(finding: Finding) -> dict:
    """A finding as JSON."""
    return {
        "verdict": finding.verdict.name, "rule": finding.rule, "message": finding.message, "file": finding.file,
        "line": finding.line, "step": finding.step, "cta": finding.cta, "warp": finding.warp, "lanes": finding.lanes,
        "place": finding.place,
    }  # fmt: skip


def _result(finding: Finding) -> dict:
    result: dict = {
        "ruleId": finding.rule,
        "level": LEVELS[finding.verdict],
        "message": {"text": finding.message},
        "properties": {
            k: v for k, v in plain(finding).items() if k in ("step", "cta", "warp", "lane", "place") and v is not None
        },
    }
    if finding.line:
        place = {"artifactLocation": {"uri": finding.file}, "region": {"startLine": finding.line}}
        result["locations"] = [{"physicalLocation": place}]
    return result
