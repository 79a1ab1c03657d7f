"""Reports on a host program whose launches ran on the simulator."""

from __future__ import annotations

from typing import Literal, TypedDict

from rich.console import Console

from convc.machine import Counters
from convc.recorder.program import Recording
from convc.recorder.session import RecordedLaunch
from convc.report.launch import print_findings, print_verdict
from convc.report.output import json_text
from convc.report.sarif import FindingJson, GroupJson, VerdictName, finding_json, groups_json, verdict_name
from convc.support.counted import counted
from convc.support.short_names import with_short_names


class RecordedJson(TypedDict):
    """A launch that a host program made; no seconds and no counters where the kernel came to no end."""

    entry: str
    file: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    verdict: VerdictName
    seconds: float | None
    counters: Counters | None


class RecordJson(TypedDict):
    """A host program of ``convc record``: its exit status, its launches, and what was found in all of them.

    ``notes`` are calls that were answered with an error of the driver, and why.
    """

    format: Literal["convc-record/1"]
    program: str
    target: str
    status: int
    verdict: VerdictName
    launches: list[RecordedJson]
    notes: list[str]
    findings: list[FindingJson]
    groups: list[GroupJson]


def print_recording(console: Console, recording: Recording, *, checked: bool) -> None:
    """Print a line for each kernel, the findings of all launches by their cause, and how the program ended."""
    kernels: dict[tuple[str, str], list[RecordedLaunch]] = {}
    for launch in recording.launches:
        kernels.setdefault((launch.file, launch.entry), []).append(launch)
    for (_, entry), launches in kernels.items():
        ended = [(launch.counters, launch.seconds) for launch in launches]
        instructions = sum(counters.instructions for counters, _ in ended if counters is not None)
        seconds = sum(seconds for _, seconds in ended if seconds is not None)
        ctas = sum(counters.ctas for counters, _ in ended if counters is not None)
        console.print(
            f"{with_short_names(entry)}: {counted(len(launches), 'launch', 'launches')}, {ctas} CTAs, "
            f"{instructions} instructions, {seconds:.3f} s simulated",
            soft_wrap=True,
        )
    for note in recording.notes:
        console.print(f"note: {with_short_names(note)}", soft_wrap=True)
    print_findings(console, recording.findings)
    if checked:
        what = counted(len(recording.launches), "launch", "launches")
        print_verdict(console, what, recording.verdict, len(recording.findings))
    if recording.status:
        end = f"exit status {recording.status}" if recording.status > 0 else f"signal {-recording.status}"
        console.print(f"{recording.program} ended with {end}", soft_wrap=True)


def recording_json(recording: Recording) -> bytes:
    """Write a recording as JSON (`convc.report.schemas.RecordJson`)."""
    record: RecordJson = {
        "format": "convc-record/1",
        "program": recording.program,
        "target": recording.target,
        "status": recording.status,
        "verdict": verdict_name(recording.verdict),
        "launches": [
            {
                "entry": launch.entry,
                "file": launch.file,
                "grid": launch.grid,
                "block": launch.block,
                "cluster": launch.cluster,
                "shared_bytes": launch.shared_bytes,
                "verdict": verdict_name(launch.verdict),
                "seconds": launch.seconds,
                "counters": launch.counters,
            }
            for launch in recording.launches
        ],
        "notes": list(recording.notes),
        "findings": [finding_json(finding) for finding in recording.findings],
        "groups": groups_json(recording.findings),
    }
    return json_text(record)
