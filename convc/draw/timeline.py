"""The first wave of a kernel on a chip: a row for each warp, unit, copy in flight and stage of a ring, cycles across.

Slices that are narrower than a pixel join the one before them; the rest is drawn as the timing engine has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from convc.draw.svg import MARGIN, TITLE, Picture, group, legend_lines, line, rect, text, titled, width_of
from convc.report.timeline import WAITS
from convc.timing.kernel import KernelTime
from convc.timing.timeline import Slice, Track, timeline

WIDTH = 1200
"""Pixels of the round."""

ROW = 16
"""Pixels of a track."""

CLICK = 50
"""Fewest pixels between two numbers of cycles."""

WORKS = "works"
CAUSES = {
    "TMA copy": "s3", "tensor core": "s1", "tensor-core queue": "s4", "warp arrival": "s8",
    "barrier": "s7", "bulk store": "s0", "global-memory sectors": "s5", "global-memory loads": "s6",
    "SMEM read port": "u0", "tensor-memory loads": "u1", "loads of SMEM and parameters": "u2",
    "data dependency": "s9",
}  # fmt: skip
"""Colours of what warps wait for: every cause has its own."""

KINDS = {WORKS: "s2", "busy": "u3", "in flight": "u4", "filling": "t1", "full": "u5", **CAUSES}
"""Colours of states: of warps, the cause that they wait for. No two are alike."""


@dataclass(slots=True)
class _Run:
    """A state that a track is in from cycle to cycle; ``names`` of what does it, ``line`` of the text."""

    state: str
    name: str
    start: float
    end: float
    line: int


def timeline_picture(kernel: KernelTime) -> Picture:
    """Draw the first wave of a kernel."""
    found = timeline(kernel.launch)
    end = kernel.launch.lengths[0]
    label = max(width_of(track.name) for track in found.tracks) + 8
    groups = dict.fromkeys(track.group for track in found.tracks)
    left = MARGIN + label
    rows = {id(track): list(_runs(track, end / WIDTH)) for track in found.tracks}
    used = {run.state for runs in rows.values() for run in runs}
    keys, top = legend_lines(
        MARGIN, TITLE - 6, [(_said(state), kind) for state, kind in KINDS.items() if state in used], left + WIDTH
    )
    parts: list[str] = []
    y = top + 20
    for name in groups:
        if len(groups) > 1:
            parts.append(text(MARGIN, y + 12, name, "strong"))
            y += ROW
        for track in found.tracks:
            if track.group == name:
                parts.append(text(MARGIN, y + 12, track.name))
                parts.append(group(_boxes(rows[id(track)], left, y, WIDTH / end), track=track.name, group=name))
                y += ROW
    title = f"{kernel.name}: first wave on {kernel.chip.name}, {end:.0f} cycles"
    return titled(title, left + WIDTH + 2 * MARGIN, y + MARGIN, [*keys, *ticks(end, left, top + 16, y), *parts])


def _said(state: str) -> str:
    return f"waits for {state}" if state in WAITS else state


def ticks(end: float, x: float, top: float, low: float) -> Iterator[str]:
    """Lines with numbers of cycles from ``x`` on, at steps of 1, 2 or 5 and zeros; ``end`` is `WIDTH` further."""
    step = next(step for step in _steps() if step * WIDTH / end >= CLICK)
    for tick in range(0, int(end) + 1, step):
        at = x + tick * WIDTH / end
        yield line(at, top, at, low)
        yield text(at, top - 2, str(tick), "soft mid")


def _steps() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _boxes(runs: Iterable[_Run], x: float, y: float, scale: float) -> Iterator[str]:
    for run in runs:
        tip = f"{run.name}: {run.start:.0f} to {run.end:.0f}"
        yield rect(
            x + run.start * scale,
            y + 2,
            max(0.5, (run.end - run.start) * scale),
            ROW - 4,
            KINDS[run.state],
            f"{tip}, line {run.line}" if run.line else tip,
            state=run.state,
            start=f"{run.start:.1f}",
            end=f"{run.end:.1f}",
            line=run.line or None,
        )


def _runs(track: Track, pixel: float) -> Iterator[_Run]:
    """States of a track one after the other, those in a row that are alike or narrower than a pixel as one."""
    run: _Run | None = None
    for one in _states(track):
        joins = run is not None and (one.state == run.state or one.end - one.start < pixel / 2)
        if run is not None and joins and one.start - run.end < pixel:
            run.end = max(run.end, one.end)
            continue
        if run is not None:
            yield run
        run = one
    if run is not None:
        yield run


def _states(track: Track) -> Iterator[_Run]:
    """What a track does, slice by slice; empty stages are left out."""
    for one in _flat(track.slices) if track.kind == "role" else track.slices:
        if track.kind == "role":
            cause = one.name.removeprefix("wait: ")
            state = cause if cause in WAITS else WORKS
        elif track.kind == "stage":
            state = one.name
        else:
            state = "busy" if track.kind == "unit" else "in flight"
        if state != "empty":
            yield _Run(state, one.name, one.start, one.end, one.line)


def _flat(slices: Iterable[Slice]) -> Iterator[Slice]:
    """The instructions in the steps of a warp, and what stands outside of steps."""
    for one in slices:
        if one.kind == "step":
            yield from _flat(one.inner)
        else:
            yield one
