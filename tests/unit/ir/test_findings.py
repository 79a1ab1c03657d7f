"""Findings: the worst one is the verdict."""

from __future__ import annotations

import itertools

from convc.ir.findings import Finding, Verdict, worst


def test_the_worst_finding_is_the_verdict():
    for first, second in itertools.product(Verdict, repeat=2):
        findings = [Finding(verdict=verdict, rule="race", message="m", line=1) for verdict in (first, second)]
        assert worst(findings) is (first if first >= second else second)
    assert worst([]) is Verdict.clean
