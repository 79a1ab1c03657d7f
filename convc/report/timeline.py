"""A timeline for the terminal: a line for each track, a character for each span of cycles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

from convc.report.console import FULL_WIDTH, print_heading, table_width
from convc.timing.kernel import KernelTime
from convc.timing.timeline import Slice, Track, timeline

WIDTH = 120
"""Columns by default."""

LEAST = 20
"""Characters of a line behind its name, at least."""

WORKS = "="
WAITS = {
    "TMA copy": "T", "tensor core": "M", "tensor-core queue": "Q", "warp arrival": "A",
    "barrier": "B", "bulk store": "S", "global-memory sectors": "G", "global-memory loads": "g",
    "SMEM read port": "P", "tensor-memory loads": "t", "loads of SMEM and parameters": "s",
    "data dependency": "r",
}  # fmt: skip
"""The character of each cause that a warp waits for; `WORKS` where it does not wait."""

SHADES = " .:+#"
"""Share of the span in which a unit is busy: not at all, up to a quarter, a half, three quarters, more."""

STAGES = {"filling": "-", "full": "#"}


def print_timeline(console: Console, kernel: KernelTime) -> None:
    """The first wave of a kernel, as wide as the terminal."""
    tracks = timeline(kernel.launch).tracks
    end = kernel.launch.lengths[0]
    label = max(len(track.name) for track in tracks)
    width = table_width(console)
    count = max(LEAST, (WIDTH if width == FULL_WIDTH else width) - label - 2)
    span = end / count
    print_heading(console, f"first wave: {end:.0f} cycles, {span:.0f} a character")
    used: set[str] = set()
    groups = dict.fromkeys(track.group for track in tracks)
    for group in groups:
        if len(groups) > 1:
            console.print(group)
        for name, text in _lines([track for track in tracks if track.group == group], span, count):
            used.update(text)
            console.print(f"{name:{label}} |{text}", soft_wrap=True)
    said = [f"{letter} waits for {cause}" for cause, letter in WAITS.items() if letter in used]
    warps = ", ".join([f"{WORKS} works", *said])
    legend = f"warps: {warps}; units: busy {SHADES[1:]}; copies: how many; stages: - filling, # full"
    console.print(legend, soft_wrap=True)


def _lines(tracks: Iterable[Track], span: float, count: int) -> Iterator[tuple[str, str]]:
    """Name and characters of each line; all copies in flight share one."""
    copies: list[Slice] = []
    for track in tracks:
        if track.kind == "role":
            yield track.name, "".join(map(_most, _spans(_states(track.slices), span, count)))
        elif track.kind == "unit":
            yield track.name, "".join(_shade(sum(cell.values()) / span) for cell in _spans(_busy(track), span, count))
        elif track.kind == "copies":
            copies += track.slices
        else:
            if copies:
                yield "copies in flight", _counted(copies, span, count)
                copies = []
            yield track.name, "".join(map(_most, _spans(_stages(track.slices), span, count)))
    if copies:
        yield "copies in flight", _counted(copies, span, count)


State = tuple[float, float, str]
"""Begin, end and character."""


def _states(slices: Iterable[Slice]) -> Iterator[State]:
    """What a warp does: the instructions in its steps."""
    for one in slices:
        if one.kind == "step":
            yield from _states(one.inner)
        else:
            yield one.start, one.end, WAITS.get(one.name.removeprefix("wait: "), WORKS)


def _busy(track: Track) -> Iterator[State]:
    return ((one.start, one.end, "#") for one in track.slices)


def _stages(slices: Iterable[Slice]) -> Iterator[State]:
    return ((one.start, one.end, STAGES.get(one.name, " ")) for one in slices)


def _spans(states: Iterable[State], span: float, count: int) -> Sequence[dict[str, float]]:
    cells: list[dict[str, float]] = [defaultdict(float) for _ in range(count)]
    for start, end, letter in states:
        for cell in range(int(start / span), min(count, int(end / span) + 1)):
            cells[cell][letter] += max(0.0, min(end, (cell + 1) * span) - max(start, cell * span))
    return cells


def _most(cell: dict[str, float]) -> str:
    """The state of most of a span; the same where two have as much, in the order of the alphabet."""
    return max(sorted(cell), key=cell.__getitem__) if any(cell.values()) else " "


def _shade(share: float) -> str:
    return SHADES[min(len(SHADES) - 1, -int(-share * 4 // 1))] if share > 0 else SHADES[0]


def _counted(copies: Iterable[Slice], span: float, count: int) -> str:
    """How many copies are in flight, rounded."""
    cells = _spans(((one.start, one.end, "#") for one in copies), span, count)
    levels = [round(cell.get("#", 0.0) / span) for cell in cells]
    return "".join(" " if level == 0 else str(min(level, 9)) for level in levels)
