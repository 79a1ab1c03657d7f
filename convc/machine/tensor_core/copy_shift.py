"""Copies into tensor memory (tcgen05.cp) and moves by one lane (tcgen05.shift, and the .ashift of an MMA).

A copy reads rows of shared memory by a matrix descriptor, as a K-major MMA operand, and writes each row to one or
more lanes, 16 bytes being 4 columns:

| shape | rows x bytes | lanes of row r, from the address on |
| --- | --- | --- |
| 128x256b, 128x128b | 128 x 32, 128 x 16 | r |
| 4x256b | 4 x 32 | 32 r |
| 64x128b.warpx2::02_13 | 64 x 16 | r, r + 64 |
| 64x128b.warpx2::01_23 | 64 x 16 | 64 (r / 32) + r % 32, and that + 32 |
| 32x128b.warpx4 | 32 x 16 | r, r + 32, r + 64, r + 96 |

On the way, 4- and 6-bit elements (16 to a 16-byte unit) may be unpacked to one per byte. With cta_group::2 both
CTAs copy, each from its own shared memory to its own tensor memory.

A move gives lane i the content of lane i + 1, 8 columns wide, inside each sub-partition of 32 lanes; the last lane
of a sub-partition keeps its content. Address 31 and shape 4x256b refresh just these lanes.

Sources: PTX manual, tcgen05.cp and tcgen05.shift; copies compared with SM100 by mlc-ai/TIRx-harness; the move after
an MMA: an NVIDIA CUTLASS example that runs on B200. How many sub-partitions a plain tcgen05.shift moves is not
settled: the switch ``shift_extent``. Nor is whether a copy that follows an .ashift may come before its move: the switch
``ashift_then_cp``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from convc.errors import MachineFault
from convc.ir.findings import Verdict
from convc.machine.base.findings import Who
from convc.machine.memory.global_memory import CHUNK
from convc.machine.tensor_core import fetch, formats
from convc.machine.tensor_core.datapath import Datapath
from convc.machine.tensor_core.mma import Mma
from convc.machine.tensor_core.smem_layout import chunk_offsets
from convc.machine.tensor_core.tensor_memory import LANES, TensorMemory
from convc.ptx import Instr
from convc.ptx.descriptors import decode_shared

SHIFT_COLUMNS = 8
UNPACKED = {"b8x16.b4x16_p64": "e2m1", "b8x16.b6x16_p32": "e2m3"}
"""An element type of the width that each decompression unpacks."""


def joined(queue: Iterable[Mma | Copy | Shift | RowShift]) -> Iterator[Mma | Copy | Shift | RowShift]:
    """Operations in order, where moves of columns side by side that follow each other become one."""
    last: Mma | Copy | Shift | RowShift | None = None
    count = 0
    for item in queue:
        if last is not None and not isinstance(last, Mma) and last.followed_by(item, count):
            count += 1
            continue
        if last is not None:
            yield _counted(last, count)
        last = item
        count = 1
    if last is not None:
        yield _counted(last, count)


def _counted(item: Mma | Copy | Shift | RowShift, count: int) -> Mma | Copy | Shift | RowShift:
    return item if count == 1 or isinstance(item, Mma) else replace(item, count=count)


def destination_lanes(shape: str, multicast: str | None) -> np.ndarray:
    """Lanes (copies, rows) of every source row, relative to the address."""
    rows = int(shape.split("x")[0])
    row = np.arange(rows)
    match multicast:
        case None:
            return (32 * row if rows == 4 else row)[None]
        case "warpx2::02_13":
            return np.stack([row, row + 64])
        case "warpx2::01_23":
            first = 64 * (row // 32) + row % 32
            return np.stack([first, first + 32])
        case _:
            return np.stack([row + 32 * copy for copy in range(4)])


def copy_places(copy: Copy, refresh_lane: str) -> tuple[np.ndarray, int]:
    """Lanes (copies, rows) that a copy writes, and how many columns."""
    lane = 0 if copy.shape == "4x256b" and refresh_lane == "zero" else copy.taddr >> 16
    lanes = destination_lanes(copy.shape, copy.multicast) + lane
    return lanes, copy_width(copy)


def copy_width(copy: Copy) -> int:
    """Columns that one tcgen05.cp of a shape writes."""
    return _columns(copy.shape)


@lru_cache(maxsize=8)
def _columns(shape: str) -> int:
    return int(shape.split("x")[1].removesuffix("b")) // 32


@lru_cache(maxsize=1024)
def unit_index(descriptor: int, count: int, rows: int, width: int) -> np.ndarray:
    """Numbers of the 16-byte units that ``count`` copies of ``width`` columns each read, row by row, flattened.

    Raises:
        ValueError: as of `chunk_offsets`.
    """
    descriptors = (decode_shared(descriptor + index * width // 4) for index in range(count))
    return np.concatenate([chunk_offsets(each, rows, 4 * width) for each in descriptors], axis=-1).reshape(-1)


def evenly(lanes: np.ndarray) -> slice | np.ndarray:
    """The lanes as a slice, which numpy copies faster, where they are evenly spaced."""
    first = int(lanes[0])
    step = int(lanes[1] - lanes[0])
    last = int(lanes[-1])
    even = step > 0 and np.array_equal(lanes, np.arange(first, last + 1, step))
    return slice(first, last + 1, step) if even else lanes


def shift_parts(taddr: int, extent: str) -> np.ndarray:
    """Sub-partitions that a tcgen05.shift moves."""
    return np.arange(4) if extent == "all" else np.array([taddr >> 21])


@dataclass(frozen=True, slots=True)
class Copy:
    """An issued tcgen05.cp, or ``count`` of columns side by side. ``rows``: all CTAs that copy (None = every one)."""

    shape: str
    multicast: str | None
    decompress: str | None
    taddr: int
    descriptor: int
    rows: tuple[int, ...] | None
    instr: Instr = field(compare=False)
    count: int = field(default=1, compare=False)

    def followed_by(self, item: object, count: int) -> bool:
        """Whether another copies the columns and the bytes of every row that are ``count`` copies further on."""
        if not isinstance(item, Copy) or self.multicast or self.decompress or item.multicast or item.decompress:
            return False
        step = count * copy_width(self)
        ahead = item.taddr == self.taddr + step and item.descriptor == self.descriptor + step // 4
        return ahead and item.shape == self.shape and item.rows == self.rows

    def execute(self, path: Datapath) -> None:
        """Copy now."""
        tensor = path.tensor
        lanes, width = copy_places(self, path.switches.refresh_lane)
        column = self.taddr & 0xFFFF
        rows = None if self.rows is None else np.asarray(self.rows)
        self._check(tensor, lanes, column, width * self.count, rows)
        try:
            index = unit_index(self.descriptor, self.count, lanes.shape[1], width)
        except ValueError as error:
            raise self._fault(f"descriptor {self.descriptor:#018x}: {error}") from None
        self._check_source(path, index, rows)
        width *= self.count
        if not self._deferred(path, lanes, column, width):
            self._fill(path, lanes, tensor.panel(column, width), rows, index)
        key = ("cp", self.shape, self.multicast, self.taddr, width)
        if key not in tensor.written.known:
            tensor.written.mark(tensor.places(lanes.reshape(-1), column, width), rows, key)

    def _deferred(self, path: Datapath, lanes: np.ndarray, column: int, width: int) -> bool:
        """Whether the copy may wait: one of all lanes of all CTAs, as it is, or one that fills up moved ones."""
        if path.deferral is None or self.rows is not None or self.decompress is not None:
            return False
        units = (self.descriptor, self.count, lanes.shape[1], copy_width(self))
        if self.shape == "4x256b":
            return path.deferral.refresh(column, width, lanes[0], units)
        return self.shape == "128x256b" and not self.taddr >> 16 and path.deferral.copy(column, width, units)

    def _fill(
        self, path: Datapath, lanes: np.ndarray, panel: np.ndarray, rows: np.ndarray | None, index: np.ndarray
    ) -> None:
        """Copy the units ``index`` to the lanes (copies, rows) of a panel."""
        memory = path.shared.part(16 * int(index.min()), 16 * int(index.max()) + 16)
        chunks = memory.view(CHUNK)[slice(None) if rows is None else rows]
        units = np.take(chunks, index, axis=1).view(np.uint8)
        if self.decompress is not None:
            units = _unpacked(units, UNPACKED[self.decompress], path.switches.six_bit)
        cells = units.reshape(len(units), lanes.shape[1], 4 * panel.shape[2]).view(np.uint32)
        for own in lanes:
            if rows is None:
                panel[:, evenly(own)] = cells
            else:
                panel[rows[:, None], own] = cells

    def _check_source(self, path: Datapath, index: np.ndarray, rows: np.ndarray | None) -> None:
        """The units must lie inside shared memory, and what is used of them must have been written."""
        shared = path.shared
        used = 16 if self.decompress is None else formats.unit_bytes(UNPACKED[self.decompress], "padded")
        key = ("cp", self.descriptor, self.shape, self.count, used)
        if key in shared.written.known:
            return
        places = fetch.places(index, used)
        if int(places.max()) >= shared.size:
            raise self._fault(
                f"descriptor {self.descriptor:#018x} reaches shared address {int(places.max()):#x}, "
                f"but the CTA has {shared.size:#x} bytes"
            )
        missing = shared.written.missing(key, places, rows)
        if missing:
            message = f"tcgen05.cp reads {missing} bytes of shared memory that were never written"
            who = Who(row=shared.written.lacking(places, rows))
            path.findings.report("shared-memory-unwritten", message, self.instr, who=who)

    def _check(self, tensor: TensorMemory, lanes: np.ndarray, column: int, width: int, rows: np.ndarray | None) -> None:
        """The cells must lie inside what is allocated, from a multiple of 128 bits on."""
        if int(lanes.max()) >= 128:
            raise self._fault(f"tcgen05.cp of shape {self.shape} from lane {self.taddr >> 16} on passes lane 127")
        if column % 4:
            raise self._fault(f"tcgen05.cp to column {column}: the column must be a multiple of 4 (128 bits)")
        if not tensor.holds(column, width, rows):
            raise self._fault(
                f"tcgen05.cp writes columns {column}..{column + width - 1}, which are not allocated",
                "compare with tcgen05.alloc",
            )

    def _fault(self, message: str, hint: str = "") -> MachineFault:
        return MachineFault(message, span=self.instr.span, hint=hint)


def _unpacked(units: np.ndarray, element: str, six_bit: str) -> np.ndarray:
    """One element per byte of 16-byte units: 4-bit ones in bits 5..2, 6-bit ones in bits 5..0 or 6..1."""
    flat = units.reshape(-1, 16)
    up = 2 if element == "e2m1" else int(six_bit == "high")
    return (formats.codes(flat, element, "padded", six_bit) << up).reshape(units.shape)


@dataclass(frozen=True, slots=True)
class Shift:
    """An issued tcgen05.shift, or several of columns side by side (``count``)."""

    taddr: int
    rows: tuple[int, ...] | None
    instr: Instr = field(compare=False)
    count: int = field(default=1, compare=False)

    def followed_by(self, item: object, count: int) -> bool:
        """Whether another shifts the columns that are ``count`` shifts further on."""
        ahead = self.taddr + SHIFT_COLUMNS * count
        return isinstance(item, Shift) and item.taddr == ahead and item.rows == self.rows

    def execute(self, path: Datapath) -> None:
        """Shift now."""
        lane = self.taddr >> 16
        column = self.taddr & 0xFFFF
        extent = path.switches.shift_extent
        rows = None if self.rows is None else np.asarray(self.rows)
        if lane % 32 or lane >= 128:
            raise MachineFault(
                f"tcgen05.shift at lane {lane}: the lane must be a multiple of 32 below 128", span=self.instr.span
            )
        width = SHIFT_COLUMNS * self.count
        if not path.tensor.holds(column, width, rows):
            raise MachineFault(
                f"tcgen05.shift of columns {column}..{column + width - 1}, which are not allocated",
                span=self.instr.span,
            )
        if extent == "all" and lane:
            path.findings.report(
                "shift-extent",
                f"tcgen05.shift at lane {lane}: no public source says whether one or all four sub-partitions "
                "move; here all do",
                self.instr,
                Verdict.review,
                Who(row=0 if self.rows is None else self.rows[0]),
            )
        move_lanes(path, column, width, shift_parts(self.taddr, extent), rows)


@dataclass(frozen=True, slots=True)
class RowShift:
    """The move that an .ashift makes when its MMA has multiplied, or several of columns side by side (``count``)."""

    column: int
    rows: tuple[int, ...] | None
    count: int = field(default=1, compare=False)

    def followed_by(self, item: object, count: int) -> bool:
        """Whether another moves the columns that are ``count`` moves further on."""
        ahead = self.column + SHIFT_COLUMNS * count
        return isinstance(item, RowShift) and item.column == ahead and item.rows == self.rows

    def execute(self, path: Datapath) -> None:
        """Shift now."""
        rows = None if self.rows is None else np.asarray(self.rows)
        move_lanes(path, self.column, SHIFT_COLUMNS * self.count, np.arange(4), rows)


def move_lanes(path: Datapath, column: int, width: int, parts: np.ndarray, rows: np.ndarray | None) -> None:
    """Lane i takes lane i + 1 in some columns of the sub-partitions ``parts``; their last lanes keep their content."""
    tensor = path.tensor
    everywhere = rows is None and len(parts) == 4
    if path.deferral is None or not everywhere or not path.deferral.move(column, width):
        cells = tensor.panel(column, width).reshape(tensor.ctas, 4, 32 * width)
        for part in parts:
            for select in (slice(None),) if rows is None else rows:
                own = cells[select, part]
                own[..., :-width] = own[..., width:].copy()
    key = ("lanes", column, width)
    if key in tensor.written.known or not tensor.written.missing(
        key, tensor.places(np.arange(LANES), column, width), rows
    ):
        return
    to = (32 * parts[:, None] + np.arange(31)).reshape(-1)
    tensor.written.move(tensor.places(to, column, width), tensor.places(to + 1, column, width), rows)
