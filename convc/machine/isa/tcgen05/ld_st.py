"""tcgen05.ld and st: registers of whole warps from and to tensor memory (PTX manual, "Data movement shapes").

A warp reaches the 32 lanes of its own sub-partition, warp % 4; all its lanes give the same address. When a move takes
effect is up to the completion policy, see `completion` and `pending_registers`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.values import Value, fixed, plain
from convc.machine.isa.observe import LANES
from convc.machine.isa.operands import address_of, modifier, number
from convc.machine.isa.registry import ORDINARY, Run, Traits, op
from convc.machine.isa.tcgen05.collective import WarpGroups, warp_groups
from convc.machine.isa.threads import first_active_warp, warps_active
from convc.machine.state.observer import LaneAccess, Observer
from convc.machine.state.pending_registers import RegisterMove
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.tensor_core.tensor_memory import COLUMNS, columns_first
from convc.ptx import Instr


@lru_cache(maxsize=64)
def register_map(shape: str, count: int, split: int, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lane and column (relative to the address) of every (thread lane, register) of tcgen05.ld and st.

    With .pack::16b and .unpack::16b a register stands for two columns, the one given and the next. Tables of the PTX
    manual, "Data movement shapes", compared with a GPU by mlc-ai/TIRx-harness.
    """
    t = np.arange(32)[:, None]
    r = np.arange(count)[None, :]
    step = 2 if packed else 1
    match shape:
        case "32x32b":
            lane = t
            column = step * r
        case "16x64b":
            lane = (t >> 2) + 8 * (t & 1)
            column = step * (((t >> 1) & 1) + 2 * r)
        case "16x128b":
            lane = (t >> 2) + 8 * (r & 1)
            column = step * ((t & 3) + 4 * (r >> 1))
        case "16x256b":
            lane = (t >> 2) + 8 * ((r >> 1) & 1)
            column = step * ((r & 1) + 2 * (t & 3) + 8 * (r >> 2))
        case _:  # 16x32bx2: the lower and the upper half of the lanes, ``split`` columns apart
            lane = t % 16
            column = step * r + split * (t // 16)
    return lane + 0 * r, column + 0 * t


@lru_cache(maxsize=256)
def _places_of_warps(
    shape: str, count: int, split: int, packed: bool, lanes: tuple[int, ...], columns: tuple[int, ...]
) -> list[np.ndarray]:
    """Flat cell numbers, (32, cells of a lane), of each warp from these lanes and columns on; not to be written."""
    lane, column = register_map(shape, count, split, packed)
    steps = np.arange(2 if packed else 1)
    own = ((lane * COLUMNS + column)[:, :, None] + steps).reshape(32, -1)
    return [fixed(own + (lane * COLUMNS + column)) for lane, column in zip(lanes, columns, strict=True)]


class Window:
    """The cells that one ld or st touches, checked."""

    def __init__(self, strand: Strand, instr: Instr, group: WarpGroups, packed: bool, count: int) -> None:
        self.cohort = strand.cohort
        self.group = group
        shape = modifier(instr, "shape")
        split = 0 if instr.args.get("split") is None else number(instr.args["split"])
        self.name = f"{instr.form.name}.{shape}"
        lanes, columns = register_map(shape, count, split, packed)
        self.span = int(columns.max()) + (2 if packed else 1)
        warps = strand.warps[group.warps]
        lane = group.values >> 16
        column = group.values & 0xFFFF
        part = 32 * (warps % 4)
        inside = np.where(lane < 32, lane, lane - part)
        wrong = (inside < 0) | (inside + int(lanes.max()) > 31)
        if wrong.any():
            i = int(wrong.argmax())
            raise MachineFault(
                f"{self.name} at tensor-memory lane {int(lane[i])}: warp {int(warps[i])} can access lanes "
                f"{int(part[i])}..{int(part[i]) + 31} only"
            )
        if (inside % 16).any():
            raise MachineFault(f"{self.name} at tensor-memory lane {int(lane[0])}: it starts at a multiple of 16 lanes")
        tensor = self.cohort.tensor
        for first in set(column.tolist()):
            if not tensor.holds(first, self.span, group.rows):
                verb = "reads" if instr.form.name == "tcgen05.ld" else "writes"
                raise MachineFault(
                    f"{instr.form.name} {verb} columns {first}..{first + self.span - 1}, which are not allocated"
                )
        self.rows = slice(None) if group.rows is None else group.rows
        self.lanes = (part + inside)[:, None, None] + lanes[None]
        self.columns = column[:, None, None] + columns[None]
        self.whole = (
            shape == "32x32b"
            and not packed
            and len(warps) == 4
            and bool((warps % 4 == np.arange(4)).all() and (inside == 0).all() and (column == column[0]).all())
        )
        self.start = int(column[0])
        self.cells = (shape, count, split, packed, tuple((part + inside).tolist()), tuple(column.tolist()))
        self.key = (self.name, packed, split, tuple(group.values.tolist()), tuple(warps.tolist()), count)
        self.packed = packed

    def places(self) -> np.ndarray:
        """Flat cell numbers (warps, lanes, registers), with the second column of packed registers on a last axis."""
        first = self.lanes * COLUMNS + self.columns
        return np.stack([first, first + 1], axis=-1) if self.packed else first

    def read(self) -> np.ndarray:
        """Registers (registers, rows, warps, 32), contiguous per register."""
        low = int(self.columns.min())
        width = int(self.columns.max()) + (2 if self.packed else 1) - low
        block = self.block()
        if block is None:
            cells = self.cohort.tensor.peek(low, width)[self.rows]
            columns = self.columns - low
            block = cells[:, self.lanes, columns]
            if self.packed:
                upper = cells[:, self.lanes, columns + 1]
                block = (block & np.uint32(0xFFFF)) | (upper << np.uint32(16))
        return columns_first(block)

    def block(self) -> np.ndarray | None:
        """The registers (rows, warps, 32, registers), a view where that can be; None where cells are scattered."""
        if not self.whole:
            return None
        cells = self.cohort.tensor.peek(self.start, self.span)[self.rows]
        return cells.reshape(len(cells), 4, 32, self.span)

    def unwritten(self) -> int:
        """How many of the cells were never written."""
        return self.cohort.tensor.written.missing(self.key, self.places().reshape(-1), self.group.rows)

    def write(self, values: np.ndarray, keep_upper: bool) -> None:
        """Put registers (rows, warps, 32, registers) into their cells."""
        tensor = self.cohort.tensor
        rows = self.group.rows
        if not self.packed:
            self._put(self.columns, values)
        else:
            for column, half in (
                (self.columns, values & np.uint32(0xFFFF)),
                (self.columns + 1, values >> np.uint32(16)),
            ):
                if keep_upper:
                    half = half | (tensor.cells[self.rows][:, self.lanes, column] & np.uint32(0xFFFF0000))
                self._put(column, half)
        tensor.written.mark(self.places().reshape(-1), rows)

    def _put(self, columns: np.ndarray, values: np.ndarray) -> None:
        cells = self.cohort.tensor.cells
        if self.whole and isinstance(self.rows, slice):
            own = cells[:, :, self.start : self.start + self.span]
            own[...] = values.reshape(own.shape) if any(values.strides) else values[0, 0, 0, 0]
        elif isinstance(self.rows, slice):
            cells[:, self.lanes, columns] = values
        else:
            cells[self.rows[:, None, None, None], self.lanes[None], columns[None]] = values


@op("tcgen05.ld", traits=Traits.LOADS)
def load(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.ld.sync.aligned.shape.xN{.pack::16b} registers, [taddr] {, split}."""
    slots = table.targets(instr.args["r"])
    fills = frozenset(slot for slot in slots if slot is not None)
    address = address_of(instr.args["taddr"], table)
    packed = bool(instr.slots.get("pack"))

    def fill(strand: Strand, found: list[Window]) -> None:
        cohort = strand.cohort
        values: np.ndarray | None = None
        for window in found:
            group = window.group
            missing = window.unwritten()
            if missing:
                message = f"tcgen05.ld reads {missing} cells of tensor memory that were never written"
                cohort.findings.report(
                    "tensor-memory-unwritten", message, instr, who=first_active_warp(strand, _lacking(strand, window))
                )
            block = window.read()
            if isinstance(group.part, slice) and len(group.warps) == len(strand.warps):
                values = block
                break
            if values is None:
                values = np.zeros((len(slots), strand.row_count, len(strand.warps), 32), np.uint32)
            part = np.arange(strand.row_count)[group.part]
            values[:, part[:, None], group.warps[None, :]] = block
        for i, slot in enumerate(slots):
            if slot is not None and values is not None:
                strand.write(slot, values[i])

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        at = address(strand.regs)
        cohort.core.seal()
        cohort.counters.tensor_loads += warps_active(strand)
        found = _windows(strand, instr, at, packed, len(slots), write=False)
        if cohort.pending.later():
            strand.loads.append(RegisterMove(instr=instr, act=again, operands=[at], mask=strand.mask, fills=fills))
        else:
            fill(strand, found)

    def again(strand: Strand, operands: list[Value]) -> None:
        fill(strand, _windows(strand, instr, operands[0], packed, len(slots)))

    return run


def loaded(strand: Strand, instr: Instr, address: Value, count: int) -> np.ndarray | None:
    """Read what tcgen05.ld puts into ``count`` registers: uint32 (rows, warps, 32, count), not to be changed.

    None where this is not plain: cells scattered or never written, warps that read apart, operations still queued.
    """
    if strand.cohort.core.queue:
        return None
    found = _windows(strand, instr, address, packed=False, count=count)
    if len(found) != 1 or found[0].unwritten():
        return None
    group = found[0].group
    whole = isinstance(group.part, slice) and len(group.warps) == len(strand.warps)
    return found[0].block() if whole else None


@op("tcgen05.st", traits=ORDINARY, result=False)
def store(instr: Instr, table: SlotTable) -> Run:
    """tcgen05.st.sync.aligned.shape.xN{.unpack::16b} [taddr] {, split}, registers."""
    slots = table.slots(instr.args["r"], 32)
    address = address_of(instr.args["taddr"], table)
    packed = bool(instr.slots.get("unpack"))

    def put(strand: Strand, found: list[Window], registers: list[Value]) -> None:
        keep_upper = strand.cohort.launch.switches.unpack_upper == "keep"
        same = plain(registers) and registers.count(registers[0]) == len(registers)  # an accumulator is set to zero
        values = np.empty((1 if same else strand.row_count, len(strand.warps), 32, len(slots)), np.uint32)
        for i, value in enumerate(registers):
            values[..., i] = value
        for window in found:
            group = window.group
            if same:
                rows = strand.row_count if group.rows is None else len(group.rows)
                own = np.broadcast_to(values[0, 0, 0, 0], (rows, len(group.warps), 32, len(slots)))
            else:
                own = values[group.part][:, group.warps]
            window.write(own, keep_upper)

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        at = address(strand.regs)
        registers = [strand.regs[slot] for slot in slots]
        cohort.core.seal()
        cohort.counters.tensor_stores += warps_active(strand)
        found = _windows(strand, instr, at, packed, len(slots), write=True)
        if cohort.pending.later():
            operands = [at, *registers]
            strand.stores.append(RegisterMove(instr=instr, act=again, operands=operands, mask=strand.mask))
        else:
            put(strand, found, registers)

    def again(strand: Strand, operands: list[Value]) -> None:
        put(strand, _windows(strand, instr, operands[0], packed, len(slots)), operands[1:])

    return run


def _lacking(strand: Strand, window: Window) -> np.ndarray:
    """bool (rows, warps, lanes): threads that read cells never written."""
    group = window.group
    written = strand.cohort.tensor.written
    part = np.arange(strand.row_count)[group.part]
    rows = part if strand.rows is None else strand.rows[part]
    places = window.places().reshape(len(group.warps), 32, -1)
    lacking = np.zeros((strand.row_count, len(strand.warps), 32), bool)
    lacking[np.ix_(part, group.warps)] = ~written.map[written.line[rows][:, None, None, None], places[None]].all(
        axis=-1
    )
    return lacking


def _windows(
    strand: Strand, instr: Instr, at: Value, packed: bool, count: int, write: bool | None = None
) -> list[Window]:
    """What the active warps access; the observer is told where it is a read or a ``write``."""
    groups = warp_groups(strand, at, instr.form.name)
    found = [Window(strand, instr, group, packed, count) for group in groups]
    observer = strand.cohort.observer
    if observer is not None and write is not None:
        for window in found:
            _notify(strand, instr, observer, "st" if write else "ld", window)
    return found


def _notify(strand: Strand, instr: Instr, observer: Observer, kind: str, window: Window) -> None:
    cohort = strand.cohort
    group = window.group
    rows = range(cohort.watched) if group.rows is None else group.rows[group.rows < cohort.watched].tolist()
    places = _places_of_warps(*window.cells)
    warps = strand.warps[group.warps].tolist()
    accesses = [LaneAccess(r, warp, r, LANES, own) for r in rows for warp, own in zip(warps, places, strict=True)]
    observer.tensor(strand, instr, kind, accesses)
