"""The lanes of a tile as tables: what each holds at every filter column, where the rows lie, and which are masked.

A pixel is (n, h, w). Beside it stands

    0           padding: the copy wrote a zero
    X           masked: the lane adds nothing at this filter column
    < row 16    fetched anew: no lane held this row of shared memory before
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table

from convc.compiler.index.maps import Outcome
from convc.compiler.index.row_stream import WINDOW
from convc.explain.lanes import BufferLanes, Cell, Lane, LaneTable, Pixel, SharedRow
from convc.report.output import json_text
from convc.report.schemas import record_type

PURPLE = "magenta"
"""Masked lanes, lanes with a row of the halo, and its rows: purple in the note that the algorithms are from."""

LEGEND = (
    "pixels are (n, h, w); 0: padding, a zero; X: masked; < row: fetched anew, from that row of shared memory; "
    "purple: both of these"
)
MANY = 32
"""Lanes of a tile that are all shown."""

SHORT = 3
"""Lanes of a kind that are always shown; of more, the first and the last."""

FEW = 4
"""Lanes that a sentence names."""


def print_lanes(console: Console, table: LaneTable, every: bool = False) -> None:
    """Print what lanes hold at the filter columns, by buffer; long runs of lanes of a kind are cut unless `every`."""
    console.print(heading(table))
    console.print(LEGEND)
    for buffer in table.buffers:
        console.print()
        console.print(_lanes(table, buffer, every))
        for sentence in sentences(table, buffer):
            console.print(f"  {sentence}", soft_wrap=True)


def print_rows(console: Console, table: LaneTable) -> None:
    """Print the pixel of each row of shared memory: one line for the rows that follow each other in an image."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("filter columns", "rows", "pixels (n, h, w)", "what"):
        shown.add_column(name)
    for buffer in table.buffers:
        taps = ", ".join(map(str, buffer.taps))
        own = buffer.rows[: len(buffer.lanes)]
        for rows in (*_runs(own, table.problem.stride[1]), *_runs(buffer.halo, table.problem.stride[1])):
            first = rows[0]
            last = rows[-1]
            numbers = str(first.row)
            pixels = str(first.pixel)
            if len(rows) > 1:
                numbers = f"{first.row}..{last.row}"
                pixels = f"{first.pixel} .. {last.pixel}"
            what = _what(first, buffer)
            shown.add_row(taps, numbers, pixels, what, style=PURPLE if first in buffer.halo else None)
    console.print(shown)


def print_masks(console: Console, table: LaneTable) -> None:
    """The masks of a tile, a word for 32 lanes, the lowest lane in bit 0."""
    by_column: dict[int, set[tuple[int, ...]]] = {}
    for _, s, words in table.masks:
        by_column.setdefault(s, set()).add(words)
    if not table.masks:
        console.print("no lane is masked: every filter tap loads its own pixels")
    for r, s, words in table.masks:
        rows = "every r" if len(by_column[s]) == 1 else f"r = {r}"
        if rows != "every r" or r == 0:
            console.print(f"{rows}, s = {s}: {' '.join(f'0x{word:08x}' for word in words)}")


def print_claims(console: Console, proofs: Iterable[Outcome], cases: Iterable[Outcome]) -> None:
    """Print what was proved; then why lanes are masked: what would go wrong at each filter column without."""
    for outcome in proofs:
        console.print(str(outcome), soft_wrap=True)
    reasons = list(cases)
    if reasons:
        console.print("\nwhy lanes are masked: without masks these claims fail")
    for outcome in reasons:
        console.print(str(outcome), soft_wrap=True)


def lanes_json(table: LaneTable, proofs: Iterable[Outcome], cases: Iterable[Outcome]) -> bytes:
    """Every lane, row, mask and claim as JSON."""
    plain = {"format": "convc-lanes/1", **msgspec.to_builtins(table)}
    plain["claims"] = [str(each) for each in proofs]
    plain["why_masked"] = [str(each) for each in cases]
    return json_text(plain)


def lanes_record() -> type:
    """The lanes of a tile: every lane, row, mask and claim, as `lanes_json` writes them."""
    more = {"format": Literal["convc-lanes/1"], "claims": list[str], "why_masked": list[str]}
    return record_type("Lanes", LaneTable, f"{lanes_record.__doc__}", **more)


def heading(table: LaneTable) -> str:
    """One line that names the tile: schedule, number, filter row and lanes."""
    lanes = len(table.buffers[0].lanes)
    shape = f"{table.windows} windows of {lanes // table.windows}" if table.windows > 1 else str(lanes)
    return f"schedule {table.schedule}, tile {table.tile_m}, filter row {table.r}: {shape} {table.unit}s"


def marks(cell: Cell) -> str:
    """The signs of a lane at a filter column, as the table of the module has them."""
    words: list[str] = []
    if cell.masked:
        words.append("X")
    elif not cell.held.real:
        words.append("0")
    if cell.fresh:
        words.append(f"< row {cell.row}")
    return " ".join(words)


def sentences(table: LaneTable, buffer: BufferLanes) -> Iterator[str]:
    """A sentence per filter column: pixels needed, padding, masked lanes with what they hold, rows fetched anew."""
    for place, s in enumerate(buffer.taps):
        needed: list[Pixel] = []
        zeros: list[str] = []
        masked: list[str] = []
        fresh: list[str] = []
        for lane in buffer.lanes:
            cell = lane.cells[place]
            if cell.fresh:
                fresh.append(f"{cell.held} from row {cell.row}")
            if cell.needed is None:
                continue
            needed.append(cell.needed)
            if cell.masked:
                masked.append(f"{lane.lane} with {cell.held} in place of {cell.needed}")
            elif not cell.held.real:
                zeros.append(str(lane.lane))
        parts = [f"needs {_listed(_spans(needed)) or 'nothing'}"]
        if zeros:
            parts.append(f"{table.unit} {_listed(zeros)}: padding, loaded as zero")
        parts.append(f"masked: {table.unit} {_listed(masked)}" if masked else "nothing is masked")
        if fresh:
            parts.append(f"fetched anew: {_listed(fresh)}")
        yield f"s = {s}: {'; '.join(parts)}"


def _lanes(table: LaneTable, buffer: BufferLanes, every: bool) -> Table:
    """A row for each lane, a column for each filter column; of many lanes of a kind the first and the last."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column(table.unit, justify="right")
    shown.add_column("output (n, p, q)")
    for s in buffer.taps:
        shown.add_column(f"s = {s}")
    for lanes in _grouped(buffer.lanes):
        if not every and len(buffer.lanes) > MANY and len(lanes) > SHORT:
            dots = ["..." for _ in range(2 + len(buffer.taps))]
            rows = [_words(lanes[0]), dots, _words(lanes[-1])]
        else:
            rows = [_words(lane) for lane in lanes]
        purple = any(cell.purple for cell in lanes[0].cells)
        for row in rows:
            shown.add_row(*row, style=PURPLE if purple else None)
    return shown


def _words(lane: Lane) -> list[str]:
    """The row of a lane: its number, its output, and what it holds at each filter column."""
    output = "none" if lane.output is None else f"({', '.join(map(str, lane.output))})"
    return [str(lane.lane), output, *(f"{cell.held} {marks(cell)}".rstrip() for cell in lane.cells)]


def _grouped(lanes: tuple[Lane, ...]) -> Iterator[list[Lane]]:
    """Neighbours that differ in nothing but their place in a row."""
    for _, group in groupby(lanes, _kind):
        yield list(group)


def _kind(lane: Lane) -> tuple[object, ...]:
    """What neighbours in a row of one image have in common, if nothing happens between them."""
    row = None if lane.output is None else lane.output[:2]
    return row, *((cell.masked, cell.fresh, cell.held.real) for cell in lane.cells)


def _runs(rows: tuple[SharedRow, ...], stride: int) -> Iterator[list[SharedRow]]:
    """Rows whose pixels follow each other in one image row, padding apart."""
    run: list[SharedRow] = []
    for row in rows:
        if run and not _follows(run[-1], row, stride):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _follows(one: SharedRow, two: SharedRow, stride: int) -> bool:
    """Whether two rows can stand in one line: neighbours of an image row of one kind, or zeros of one place."""
    a = one.pixel
    b = two.pixel
    if not a.image and not b.image:
        return one.halo == two.halo
    return one.halo == two.halo is None and (a.n, a.h, a.w + stride, a.real) == (b.n, b.h, b.w, b.real)


def _what(row: SharedRow, buffer: BufferLanes) -> str:
    """What a row is besides a pixel of the tile: the halo of all lanes or of a group, padding, or no image at all."""
    words: list[str] = []
    if row.halo is not None:
        group, halo = row.halo
        size = min(WINDOW, len(buffer.lanes))
        words.append(f"halo {halo} of lanes {size * group}..{size * (group + 1) - 1}")
    elif row in buffer.halo:
        words.append("halo")
    if not row.pixel.real:
        words.append("padding" if row.pixel.image else "no image")
    return ", ".join(words)


def _listed(words: Iterable[str]) -> str:
    """Words with commas, the first few of many."""
    found = list(words)
    more = f" and {len(found) - FEW} more" if len(found) > FEW else ""
    return ", ".join(found[:FEW]) + more


def _spans(pixels: Iterable[Pixel]) -> Iterator[str]:
    for (n, h), row in groupby(pixels, lambda pixel: (pixel.n, pixel.h)):
        columns = [pixel.w for pixel in row]
        yield f"(n={n}, h={h}, w={columns[0]}..{columns[-1]})"
