"""Kernels of convc, timed from their PTX, beside what an H200 measured of their roles.

The parameters come from other recordings (chains and loops of instructions, copies, barriers, launches); the rules
(which loops are unrolled, which values are kept) were chosen with all of these rows in sight. Multiply roles were
measured without their MMAs, which are taken out here too. What was measured was an older text; the ones that are timed
here (`roles_h200.json.xz`) have its stores and filter tiles, but descriptors of halves.
"""

from __future__ import annotations

import csv
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.recorded_kernels import read_kernels

import convc
from convc.machine import RunOptions, run
from convc.ptx.parser import parse
from convc.timing.engine import Replay
from convc.timing.loops import unrolled_loops
from convc.timing.parameters import read_chip
from convc.timing.recorder import Recorder
from convc.timing.shares import sm_share
from convc.timing.trace import Trace

ROWS = Path(__file__).resolve().parents[2] / "recordings" / "timing" / "roles_h200.csv"
KERNELS = read_kernels(ROWS.with_suffix(".json.xz"))
"""The kernels, by the names of the rows."""
H200 = read_chip("h200")
PAGE = (Path(convc.__file__).parent / "docs" / "timing_measurements.md").read_text("utf-8")
LINES = {
    "load_role": "H200, load role of kernels of convc",
    "multiply_role_without_mma": "H200, multiply role without its MMAs",
    "store_role_after_wait": "H200, store role",
    "cta_total": "H200, one CTA from entry to exit",
}
QUICK = ("layer1.0.conv1_reload_b1", "layer1.0.conv2_slide_b1", "layer1.0.conv3_reload_b1", "layer3.1.conv2_slide_b1")


@cache
def measured() -> Mapping[str, Mapping[str, float]]:
    """Cycles of one CTA alone, by kernel and quantity."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in csv.DictReader(ROWS.read_text(encoding="utf-8").splitlines()):
        name, grid, *_ = row["config"].split(";")
        if grid == "grid=1x1":
            found[name][row["quantity"]] = float(row["median"])
    return found


def roles(name: str) -> dict[str, float]:
    """The same quantities of the replay of a kernel."""
    artifact = KERNELS[name]
    recorder = Recorder(unrolled_loops(parse(artifact.ptx).kernels[0].body))
    run(artifact.ptx, artifact.launch, {}, observer=recorder, options=RunOptions(ctas=(0, 1)))
    replay = Replay(without_mma(recorder.trace), H200, sm_share(H200, 1), 1)
    total = replay.run()
    spans: dict[str, tuple[float, float]] = {}
    for event in replay.events:
        role = event.step.partition(".")[0]
        if event.track.startswith("warp") and role:
            start, end = spans.get(role, (event.start, event.end))
            spans[role] = (min(start, event.start), max(end, event.end))
    complete = max(event.end for event in replay.events if event.step == "epilogue.wait" and "wait" in event.name)
    return {
        "entry_to_load_role": spans["load"][0],
        "load_role": spans["load"][1] - spans["load"][0],
        "multiply_role_without_mma": spans["mma"][1] - spans["mma"][0],
        "store_role_after_wait": spans["epilogue"][1] - complete,
        "cta_total": total,
    }


def without_mma(trace: Trace) -> Trace:
    """The trace without tensor memory and its MMAs, and without what was computed for them alone."""
    for items in trace.items.values():
        for item in items:
            if item.name.startswith(("tcgen05.mma", "tcgen05.ld", "tcgen05.st", "tcgen05.alloc")):
                item.works = []
                item.cells = 0
                item.repeats = True
            if item.step in ("mma.multiply", "mma.mask", "mma.row"):
                item.repeats = True
                item.needs = ()
            if item.name == "tcgen05.commit":
                item.name = "mbarrier.arrive"
    for phase, contributions in trace.phases.items():
        trace.phases[phase] = [one if one.warp is None else dataclasses.replace(one, works=()) for one in contributions]
    return trace


def errors(names: Iterable[str], timed: Callable[[str], Mapping[str, float]] = roles) -> Mapping[str, list[float]]:
    """Relative errors by quantity, of what ``timed`` says of each kernel."""
    found: dict[str, list[float]] = defaultdict(list)
    for name in names:
        for quantity, cycles in timed(name).items():
            found[quantity].append(abs(cycles / measured()[name][quantity] - 1))
    return found


def test_a_few_kernels_are_near_what_was_measured():
    found = errors(QUICK)
    assert np.mean(found["cta_total"]) <= 0.15
    assert np.mean(found["multiply_role_without_mma"]) <= 0.15
    assert np.mean(found["store_role_after_wait"]) <= 0.20


@pytest.mark.slow
def test_all_kernels_are_near_what_was_measured():
    names = tuple(measured())
    assert len(names) == 16
    found = errors(names)
    for quantity in ("load_role", "multiply_role_without_mma", "store_role_after_wait", "cta_total"):
        assert np.mean(found[quantity]) <= 0.15, quantity
    for quantity, line in LINES.items():
        errors_of = found[quantity]
        said = f"| {line} | 16 | {100 * np.mean(errors_of):.1f} % | {100 * max(errors_of):.1f} % |"
        assert said in PAGE, said
    assert np.mean(found["cta_total"]) <= 0.085
    assert max(found["cta_total"]) <= 0.29
