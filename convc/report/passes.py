"""The steps of the tensor core for the MMAs of a kernel: as text, as CSV, and as a strip chart in SVG."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from html import escape

from rich.console import Console

from convc.report.console import print_heading
from convc.timing.kernel import KernelTime
from convc.timing.passes import SUB_CORES, Step, steps
from convc.timing.tensor_core import MmaShape

COUNT = 2
"""MMAs of a shape that are opened up: the second one shows what is done ahead of it."""

CSV_COLUMNS: tuple[str, ...] = (
    "shape", "mma", "cycle", "cycles", "unit", "sub_core", "first_lane", "last_lane", "first_column", "last_column",
    "first_k_byte", "last_k_byte", "port_bytes", "accumulator_bytes",
)  # fmt: skip
"""``shape`` is M x N with ``pair`` and ``A in tensor memory`` behind it; cells are empty where nothing is to be said.
The lanes of a read of A are rows of it."""

SCALE = 6
"""Pixels of a cycle."""

LANE = 22
"""Pixels of a row."""

LEFT = 90
COLOURS = {"read A": "#c0504d", "read B": "#e0a040"}
STRIPS = ("#4f81bd", "#7ba6d9")
"""Colours of the strips of a multiplication, in turns."""


def print_passes(console: Console, kernel: KernelTime) -> None:
    """The first steps of the tensor core for each shape of MMA in a kernel."""
    for shape in kernel.shapes:
        print_heading(console, f"{COUNT} tcgen05.mma of {shape.m} x {shape.n}, step by step")
        _print_steps(console, shape, kernel)


def _print_steps(console: Console, shape: MmaShape, kernel: KernelTime) -> None:
    """The steps of a chain, each in a line."""
    console.print("mma cycle cycles unit      sub-core lanes    columns  port bytes  accumulator bytes")
    for step in steps(shape, kernel.chip, COUNT):
        core = "" if step.sub_core is None else str(step.sub_core)
        lanes = "" if step.lanes is None else f"{step.lanes[0]}-{step.lanes[1]}"
        columns = "" if step.columns is None else f"{step.columns[0]}-{step.columns[1]}"
        console.print(
            f"{step.mma:3} {step.cycle:5g} {step.cycles:6g} {step.unit:9} {core:8} {lanes:8} {columns:8} "
            f"{step.port_bytes:10}  {step.accumulator_bytes}"
        )


def passes_csv(kernel: KernelTime) -> bytes:
    """The steps of each shape as CSV (RFC 4180, UTF-8, lines end with LF), a row each."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for shape in kernel.shapes:
        for step in steps(shape, kernel.chip, COUNT):
            core = "" if step.sub_core is None else step.sub_core
            lanes = step.lanes or ("", "")
            columns = step.columns or ("", "")
            first = (called(shape), step.mma, f"{step.cycle:g}", f"{step.cycles:g}", step.unit, core)
            writer.writerow((*first, *lanes, *columns, *step.k_bytes, step.port_bytes, step.accumulator_bytes))
    return out.getvalue().encode()


def called(shape: MmaShape) -> str:
    """A shape in words: ``128 x 256 pair, A in tensor memory``."""
    more = (" pair" if shape.pair else "") + (", A in tensor memory" if shape.a_in_tensor else "")
    return f"{shape.m} x {shape.n}{more}"


def passes_svg(kernel: KernelTime) -> bytes:
    """A strip chart: for each shape a row of the port and one of each sub-core, cycles from left to right."""
    charts = [(shape, list(steps(shape, kernel.chip, COUNT))) for shape in kernel.shapes]
    end = max((step.cycle + step.cycles for _, chain in charts for step in chain), default=0.0)
    rows = (SUB_CORES + 3) * LANE
    width = LEFT + end * SCALE + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{rows * len(charts) + LANE:g}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>{_text(kernel.name)}: MMAs on {_text(kernel.chip.name)}, cycle by cycle</title>",
    ]
    for index, (shape, chain) in enumerate(charts):
        parts += _chart(shape, chain, index * rows, end)
    return ("\n".join([*parts, "</svg>"]) + "\n").encode()


def _text(name: str) -> str:
    """A name of a stranger's as text of XML, which takes no control characters."""
    return escape("".join(letter if letter.isprintable() else "?" for letter in name))


def _chart(shape: MmaShape, chain: list[Step], top: float, end: float) -> Iterator[str]:
    """The rows of one shape."""
    said = f"{COUNT} tcgen05.mma of {escape(called(shape))}; cycles from left to right"
    yield f'<text x="4" y="{top + LANE - 7:g}">{said}</text>'
    for row, name in enumerate(("port", *(f"sub-core {core}" for core in range(SUB_CORES))), 1):
        yield f'<text x="4" y="{top + (row + 1) * LANE - 7:g}">{name}</text>'
    for tick in range(0, int(end) + 1, 16):
        x = LEFT + tick * SCALE
        low = top + (SUB_CORES + 2) * LANE
        yield f'<path d="M{x:g} {top + LANE:g}V{low:g}" stroke="#ddd"/><text x="{x:g}" y="{low + 12:g}">{tick}</text>'
    for step in chain:
        yield _box(step, top)


def _box(step: Step, top: float) -> str:
    """A step with a sentence behind it."""
    row = 1 if step.sub_core is None else 2 + step.sub_core
    columns = "" if step.columns is None else f", columns {step.columns[0]} to {step.columns[1]}"
    lanes = (
        ""
        if step.lanes is None
        else f", {'lanes' if step.sub_core is not None else 'rows'} {step.lanes[0]} to {step.lanes[1]}"
    )
    strip = 0 if step.columns is None else step.columns[0] // 8
    colour = COLOURS.get(step.unit, STRIPS[strip % 2])
    moved = (
        f"{step.port_bytes} bytes of shared memory"
        if step.port_bytes
        else f"{step.accumulator_bytes} bytes of D in and out"
    )
    said = f"MMA {step.mma}, cycle {step.cycle:g}: {step.unit}{lanes}{columns}, {moved}"
    return (
        f'<rect x="{LEFT + step.cycle * SCALE:g}" y="{top + row * LANE + 2:g}" width="{step.cycles * SCALE:g}" '
        f'height="{LANE - 4}" fill="{colour}" opacity="{1 if step.mma == 0 else 0.6:g}"><title>{said}</title></rect>'
    )
