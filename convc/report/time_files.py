"""Times as files: a row for each layer or for each event as CSV (RFC 4180, UTF-8, lines end with LF), and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from convc.report.timing import Row
from convc.report.what_if import what_ifs_json
from convc.timing.assembler import Assembly
from convc.timing.attribution import by_step
from convc.timing.kernel import KernelTime, gaps, waits_of_all
from convc.timing.timeline import wait_cause
from convc.timing.what_if import WhatIf

if TYPE_CHECKING:
    from convc.report.schemas import AssemblyJson, TimedLayer, TimeJson

USES = ("tensor core", "fill", "read port", "L2", "sectors", "tensor memory", "bulk stores")
"""Resources whose use has a column."""

LAYER_COLUMNS: tuple[str, ...] = (
    "layer", "schedule", "chip", "clock_ghz", "cycles", "microseconds", "share", "cumulated_share", "tflops", "ctas",
    "ctas_per_sm", "waves", *(f"use_{name.lower().replace(' ', '_')}" for name in USES),
    "wait_1", "wait_1_share", "wait_2", "wait_2_share", "wait_3", "wait_3_share",
)  # fmt: skip
"""Shares are of 1: ``share`` of the time of all layers, ``cumulated_share`` with the layers above; ``use_`` of the
first wave in which a resource works; ``wait_1_share`` of the layer's critical path. Cells are empty where nothing is
known."""

EVENT_COLUMNS: tuple[str, ...] = (
    "event", "track", "cta", "warp", "step", "line", "name", "start_cycle", "end_cycle", "cycles", "waits_for",
    "after_event", "bytes",
)  # fmt: skip
"""Of the first wave. ``track``: a warp, or the unit that performs what the warp has issued; ``cta``: its row among
those on the cluster's SMs; ``after_event``: the event that let it begin or end when it did; ``bytes``: of a copy."""


def layers_csv(rows: Sequence[Row]) -> bytes:
    """A row for each layer."""
    total = sum(kernel.microseconds for _, _, _, kernel in rows)
    so_far = 0.0
    lines: list[dict[str, object]] = []
    for name, schedule, rate, kernel in rows:
        so_far += kernel.microseconds
        launch = kernel.launch
        line: dict[str, object] = {
            "layer": name,
            "schedule": schedule,
            "chip": kernel.chip.name,
            "clock_ghz": kernel.chip["chip.clock"],
            "cycles": kernel.cycles,
            "microseconds": kernel.microseconds,
            "share": kernel.microseconds / total,
            "cumulated_share": so_far / total,
            "tflops": "" if rate is None else rate,
            "ctas": kernel.ctas,
            "ctas_per_sm": launch.beside,
            "waves": launch.rounds,
        }
        line |= {f"use_{unit.lower().replace(' ', '_')}": launch.use[unit] for unit in USES}
        for number, (cause, share) in enumerate(list(kernel.waits.items())[:3], 1):
            line |= {f"wait_{number}": cause, f"wait_{number}_share": share}
        lines.append(line)
    return _csv(LAYER_COLUMNS, lines)


def events_csv(kernel: KernelTime) -> bytes:
    """A row for each event of the first wave, in the order of their beginning."""
    events = kernel.launch.events
    works = kernel.launch.replay.trace.works
    lines: list[dict[str, object]] = []
    for number in sorted(range(len(events)), key=lambda number: (events[number].start, number)):
        event = events[number]
        lines.append(
            {
                "event": number,
                "track": event.track,
                "cta": event.row,
                "warp": event.warp,
                "step": event.step,
                "line": event.line,
                "name": event.name,
                "start_cycle": event.start,
                "end_cycle": event.end,
                "cycles": event.end - event.start,
                "waits_for": wait_cause(event, events) if event.work is None else "",
                "after_event": "" if event.cause is None else event.cause,
                "bytes": works[event.work].bytes if event.work is not None and event.track == "tma" else "",
            }
        )
    return _csv(EVENT_COLUMNS, lines)


def _csv(columns: Sequence[str], lines: Sequence[dict[str, object]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue().encode()


def times_json(source: str, chip: str, rows: Sequence[Row], answers: Sequence[WhatIf] = ()) -> TimeJson:
    """The times of a report as plain data."""
    total = sum(kernel.microseconds for _, _, _, kernel in rows)
    layers: list[TimedLayer] = []
    for name, schedule, rate, kernel in rows:
        launch = kernel.launch
        layers.append(
            {
                "layer": name,
                "schedule": schedule or None,
                "cycles": kernel.cycles,
                "microseconds": kernel.microseconds,
                "share": kernel.microseconds / total,
                "tflops": rate,
                "ctas": kernel.ctas,
                "ctas_per_sm": launch.beside,
                "waves": launch.rounds,
                "wave_cycles": list(launch.lengths),
                "l2_bytes_per_clk": launch.l2,
                "use": launch.use,
                "assembly": None if kernel.assembly is None else _assembly_json(kernel.assembly),
                "steps": [
                    {"step": one.step, "cycles": one.cycles, "waits_for": dict(one.waits)}
                    for one in by_step(kernel.parts)
                ],
                "critical_path": [
                    {"step": part.step, "waits_for": part.cause, "cycles": part.cycles} for part in kernel.parts
                ],
            }
        )
    return {
        "format": "convc-time/2",
        "source": source,
        "chip": chip,
        "microseconds": total,
        "gaps_microseconds": gaps([kernel for _, _, _, kernel in rows]),
        "waits_for": dict(waits_of_all(kernel for _, _, _, kernel in rows)),
        "layers": layers,
        "what_ifs": what_ifs_json(answers),
    }


def _assembly_json(assembly: Assembly) -> AssemblyJson:
    """What ptxas made of a kernel, as plain data."""
    return {
        "instructions": len(assembly.code),
        "registers": assembly.registers,
        "spill_bytes": assembly.spill_bytes,
        "stack_bytes": assembly.stack_bytes,
        "lane_loops": [
            {"line": loop.line, "opcode": loop.opcode, "cycles": loop.cycles} for loop in assembly.lane_loops
        ],
    }
