"""The report of ``convc launch --sanitize``: the words of compute-sanitizer, and below them those of convc."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from convc.gpu.compute_sanitizer import ToolRun
from convc.ir.findings import Finding, worst
from convc.report.launch import print_findings
from convc.support.counted import counted
from convc.support.short_names import with_short_names


def print_sanitized(console: Console, entry: str, tools: Sequence[ToolRun], findings: Sequence[Finding] | None) -> None:
    """Print what each tool found, what it said of that, and what convc's checkers found."""
    console.print(
        f"{with_short_names(entry)} under compute-sanitizer, on the GPU, and under convc's checkers:", soft_wrap=True
    )
    for one in tools:
        found = "came to no summary" if one.count is None else f"{one.count} found"
        end = f", the launch ended with {one.code}" if one.code else ""
        console.print(f"  {one.tool}: {found}{end}", soft_wrap=True)
        if not one.ok:
            for line in one.lines:
                console.print(f"    {line}", soft_wrap=True, markup=False)
    if findings is None:
        console.print("  convc check: machine code is not read")
        return
    console.print(f"  convc check: {worst(findings).name}, {counted(len(findings), 'finding')}", soft_wrap=True)
    print_findings(console, findings)
