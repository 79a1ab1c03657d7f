"""The steps of the tensor core for the MMAs of a kernel as a strip chart, cycles from left to right.

For each shape of MMA there is a row for the port of shared memory and one for each sub-core.
"""

from __future__ import annotations

from collections.abc import Iterator

from convc.draw.svg import MARGIN, TITLE, Picture, legend_lines, line, rect, text, titled
from convc.report.passes import COUNT, called, opened
from convc.timing.kernel import KernelTime
from convc.timing.passes import SUB_CORES, UnitStep, steps
from convc.timing.tensor_core import MmaShape

SCALE = 6
"""Pixels of a cycle."""

LANE = 22
"""Pixels of a row."""

LEFT = 110
KINDS = {"read A": "s3", "read B": "s1"}
STRIPS = ("s0", "s6")
"""Colours of the strips of a multiplication, in turns."""

LEGEND = (
    ("port: reads A", KINDS["read A"]),
    ("port: reads B", KINDS["read B"]),
    ("sub-cores: a strip of 8 columns", STRIPS[0]),
    ("the next strip", STRIPS[1]),
    ("paler: the next MMA", f"{STRIPS[0]} faint"),
)
"""What a box stands for by its colour."""


def passes_picture(kernel: KernelTime) -> Picture:
    """Draw the first MMAs of each shape of a kernel, step by step."""
    charts = [(shape, list(steps(shape, kernel.chip, COUNT))) for shape in opened(kernel)]
    end = max((step.cycle + step.cycles for _, chain in charts for step in chain), default=0.0)
    rows = (SUB_CORES + 3) * LANE
    width = max(end * SCALE + LEFT, 520)
    parts, top = legend_lines(MARGIN, TITLE - 4, LEGEND, width)
    for index, (shape, chain) in enumerate(charts):
        parts += _chart(shape, chain, top + index * rows, end)
    title = f"{kernel.name}: MMAs on {kernel.chip.name}, cycle by cycle"
    return titled(title, width + MARGIN, top + rows * len(charts) + LANE, parts)


def _chart(shape: MmaShape, chain: list[UnitStep], top: float, end: float) -> Iterator[str]:
    yield text(MARGIN, top + LANE - 7, f"{COUNT} tcgen05.mma of {called(shape)}; cycles from left to right")
    for row, name in enumerate(("port", *(f"sub-core {core}" for core in range(SUB_CORES))), 1):
        yield text(MARGIN, top + (row + 1) * LANE - 7, name)
    for tick in range(0, int(end) + 1, 16):
        x = LEFT + tick * SCALE
        low = top + (SUB_CORES + 2) * LANE
        yield line(x, top + LANE, x, low)
        yield text(x, low + 12, str(tick), "soft")
    for step in chain:
        yield _box(step, top)


def _box(step: UnitStep, top: float) -> str:
    """A step with a sentence behind it."""
    row = 1 if step.sub_core is None else 2 + step.sub_core
    columns = "" if step.columns is None else f", columns {step.columns[0]} to {step.columns[1]}"
    lanes = ""
    if step.lanes is not None:
        lanes = f", {'lanes' if step.sub_core is not None else 'rows'} {step.lanes[0]} to {step.lanes[1]}"
    strip = 0 if step.columns is None else step.columns[0] // 8
    kind = KINDS.get(step.unit, STRIPS[strip % 2])
    moved = f"{step.accumulator_bytes} bytes of D in and out"
    if step.port_bytes:
        moved = f"{step.port_bytes} bytes of shared memory"
    return rect(
        LEFT + step.cycle * SCALE,
        top + row * LANE + 2,
        step.cycles * SCALE,
        LANE - 4,
        kind if step.mma == 0 else f"{kind} faint",
        f"MMA {step.mma}, cycle {step.cycle:g}: {step.unit}{lanes}{columns}, {moved}",
        mma=step.mma,
        unit=step.unit,
        cycle=f"{step.cycle:g}",
        cycles=f"{step.cycles:g}",
        core=step.sub_core,
    )
