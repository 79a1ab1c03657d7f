"""What a launch did and what the machine noticed, in a few lines."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from convc.findings import Finding
from convc.limits import human_bytes
from convc.machine import Stats


def print_run(console: Console, name: str, stats: Stats, seconds: float) -> None:
    """One line with the counts of a launch."""
    console.print(
        f"{name}: {stats.ctas} CTAs, {stats.instructions} instructions, {stats.mma} MMA instructions, "
        f"{human_bytes(stats.bytes_moved)} moved, {seconds:.3f} s simulated"
    )


def print_findings(console: Console, findings: Iterable[Finding]) -> None:
    """One line per finding."""
    for finding in findings:
        console.print(str(finding), soft_wrap=True)
