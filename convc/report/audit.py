"""Reports on audits: accusations, how much every rule looked at, and what was not understood."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

from rich.console import Console

from convc.auditor.ledger import Looked, NotUnderstood
from convc.auditor.rules import RULES
from convc.ir.findings import Finding, Verdict
from convc.report.sarif import FindingJson, GroupJson, VerdictName, finding_json, groups_json, verdict_name
from convc.support.counted import counted


class LookedJson(TypedDict):
    """A rule, where it is written, and how much it looked at: places of the text or the launch, and how often."""

    rule: str
    source: str
    places: int
    times: int


class UnclearJson(TypedDict):
    """A place that was not understood; ``lost``: warps that came here were followed no further, so many."""

    line: int
    reason: str
    lost: bool
    warps: int


class AuditedKernelJson(TypedDict):
    """The audit of one kernel, with the layers of a build that run it."""

    name: str
    layers: list[str]
    file: str
    verdict: VerdictName
    findings: list[FindingJson]
    groups: list[GroupJson]
    looked: list[LookedJson]
    not_understood: list[UnclearJson]


class AuditJson(TypedDict):
    """The result of ``convc audit``, kernel by kernel."""

    format: Literal["convc-audit/1"]
    source: str
    ok: bool
    verdict: VerdictName
    kernels: list[AuditedKernelJson]


def kernel_json(
    name: str,
    layers: Iterable[str],
    file: str,
    verdict: Verdict,
    findings: Iterable[Finding],
    looked: Iterable[Looked],
    unclear: Iterable[NotUnderstood],
) -> AuditedKernelJson:
    """One kernel as JSON."""
    told = tuple(findings)
    return {
        "name": name,
        "layers": list(layers),
        "file": file,
        "verdict": verdict_name(verdict),
        "findings": [finding_json(finding) for finding in told],
        "groups": groups_json(told),
        "looked": [
            {"rule": each.rule, "source": RULES[each.rule].source, "places": each.places, "times": each.times}
            for each in looked
        ],
        "not_understood": [
            {"line": each.line, "reason": each.reason, "lost": each.lost, "warps": each.warps} for each in unclear
        ],
    }


def print_looked(console: Console, looked: Iterable[Looked]) -> None:
    """Print the places that each rule looked at, and in another line the rules that had none."""
    rules = list(looked)
    done = ", ".join(f"{each.rule} {each.places}" for each in rules if each.places)
    console.print(f"  places checked: {done or 'none'}", soft_wrap=True)
    never = ", ".join(each.rule for each in rules if not each.places)
    if never:
        console.print(f"  rules without a place: {never}", soft_wrap=True)


def print_unclear(console: Console, file: str, unclear: Iterable[NotUnderstood]) -> None:
    """Places that were not understood."""
    for each in unclear:
        at = f"{file}:{each.line}: " if each.line else f"{file}: "
        lost = f"; {counted(each.warps, 'warp')} followed no further" if each.lost else ""
        console.print(f"{at}not understood: {each.reason}{lost}", soft_wrap=True)
