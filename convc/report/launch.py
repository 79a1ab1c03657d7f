"""Reports on launches: what one did and what the simulator noticed, in a few lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from rich.console import Console

from convc.gpu.compute_sanitizer import ToolRun
from convc.ir.findings import Finding, Verdict, grouped, worst
from convc.machine import Counters
from convc.report.output import json_text, write_report
from convc.report.sarif import FindingJson, GroupJson, finding_json, groups_json, sarif
from convc.runtime.layer import LayerRun, to_standard_dtype
from convc.support.counted import counted
from convc.support.memory import human_bytes
from convc.support.short_names import with_short_names

MOST_LINES = 8
"""Lines that are listed of findings alike."""


class ExecJson(TypedDict):
    """Counts and findings of ``convc exec``; no seconds and no counters where the kernel came to no end."""

    format: Literal["convc-exec/1"]
    seconds: float | None
    counters: Counters | None
    findings: list[FindingJson]
    groups: list[GroupJson]


def print_run(console: Console, name: str, counters: Counters, seconds: float) -> None:
    """One line with the counts of a launch."""
    of_warps = f"{counters.warp_mma} MMA instructions of warps, " if counters.warp_mma else ""
    of_threads = "" if of_warps and not counters.mma else f"{counters.mma} MMA instructions, "
    console.print(
        f"{with_short_names(name)}: {counters.ctas} CTAs, {counters.instructions} instructions, {of_threads}{of_warps}"
        f"{human_bytes(counters.bytes_moved)} copied, {seconds:.3f} s simulated"
    )


def print_layer_run(console: Console, run: LayerRun, file: Path) -> None:
    """Print what a run of a layer did and gave, and the file that has it."""
    print_run(console, run.name, run.counters, run.seconds)
    if run.special:
        console.print(f"{run.name}: {run.special}", soft_wrap=True)
    y = to_standard_dtype(run.y)
    console.print(f"wrote {file}: {y.dtype.name} {list(y.shape)}")


def print_verdict(console: Console, name: str, verdict: Verdict, count: int) -> None:
    """One line with the verdict on a kernel."""
    found = {0: "nothing found", 1: "1 finding"}.get(count, f"{count} findings")
    console.print(f"{with_short_names(name)}: {verdict.name}, {found}")


def print_scope(console: Console, seed: int, all_switches: bool) -> None:
    """Say what a good verdict is about, and what it says nothing of."""
    console.print(
        "checked: races, unwritten memory, missing waits and fences, hangs, faults, leaks, accesses outside its "
        f"CTA; random input of seed {seed}, asynchronous operations completed at once, late and in random order",
        soft_wrap=True,
    )
    others = "" if all_switches else ", open questions (--all-switches)"
    console.print(f"not checked: wrong results (convc verify){others}", soft_wrap=True)


def write_sarif(findings: Iterable[Finding], file: Path | None) -> None:
    """Write findings as SARIF, where that was asked for."""
    if file is not None:
        write_report(file, json_text(sarif(findings)))


def launch_json(counters: Counters | None, seconds: float | None, findings: Iterable[Finding]) -> bytes:
    """A launch as JSON: its findings, and what the simulator counted; None where the kernel did not come to an end."""
    told = tuple(findings)
    record: ExecJson = {
        "format": "convc-exec/1",
        "seconds": seconds,
        "counters": counters,
        "findings": [finding_json(finding) for finding in told],
        "groups": groups_json(told),
    }
    return json_text(record)


def layer_run_json(run: LayerRun, target: Path | None) -> bytes:
    """A run of a layer as JSON; ``target``: the file with the output, where it was written."""
    written = {"file": str(target), "dtype": to_standard_dtype(run.y).dtype.name, "shape": run.y.shape}
    record = {
        "format": "convc-run/1",
        "layer": run.name,
        "output": None if target is None else written,
        "seconds": run.seconds,
        "counters": run.counters,
        "findings": [finding_json(finding) for finding in run.findings],
        "groups": groups_json(run.findings),
    }
    return json_text(record)


def print_findings(console: Console, findings: Iterable[Finding]) -> None:
    """One line per cause, with how many more there are of it."""
    for line in finding_lines(findings):
        console.print(line, soft_wrap=True)


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """One line per cause, with how many more there are of it."""
    for group in grouped(findings):
        more = sorted(set(group.lines[1:]))
        lines = ", ".join(map(str, more[:MOST_LINES])) + (", ..." if len(more) > MOST_LINES else "")
        which = f"line{'s' if len(more) > 1 else ''} {lines}"
        behind = f"; and {group.count - 1} more of the same kind ({which})" if group.count > 1 else ""
        example = dataclasses.replace(group.example, message=with_short_names(group.example.message))
        yield f"{example}{behind}"


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
