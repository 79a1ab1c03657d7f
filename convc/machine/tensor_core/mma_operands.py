"""Operands and accumulator of a run of MMAs: where they lie, whether they may lie there, whether they were written.

Faults where a descriptor or an address leaves its memory; findings where an operand was never written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.findings import Who
from convc.machine.memory.global_memory import CHUNK
from convc.machine.tensor_core import fetch, formats, scale_factors
from convc.machine.tensor_core.datapath import Datapath
from convc.machine.tensor_core.mma import Mma
from convc.machine.tensor_core.zero_columns import zero_columns

Select = slice | np.ndarray
"""Some CTAs of a cohort: a slice, or an array of their rows."""

Fetch = Callable[[Select], np.ndarray]
"""Reads the operand of the selected CTAs as float32; the first axis is 1 where all of them hold the same."""


class Operands:
    """The operands of a run of instructions that share a target.

    Attributes:
        reported: whether there was anything to report.
    """

    def __init__(self, path: Datapath, run: list[Mma]) -> None:
        self.path = path
        self.switches = path.switches
        self.run = run
        self.first = run[0]
        self.shape = self.first.shape
        self.rows = None if self.first.rows is None else np.asarray(self.first.rows)
        self.reported = False

    def a(self) -> Fetch:
        """Operand A: (ctas or 1, banks or 1, rows, k)."""
        shape = self.shape
        desc = self.shape.desc
        if self.first.a_in_tensor:
            return self._tensor_operand()
        found = self._shared_operand("a", shape.rows, desc.a_type, desc.transpose_a, 0)
        return lambda select: found(select)[:, None]

    def b(self) -> Fetch:
        """Operand B: (ctas or 1, b_rows, k), shifted and zeroed."""
        shape = self.shape
        desc = self.shape.desc
        zero = self.first.zero
        columns, shift = (None, 0) if zero is None else zero_columns(zero, shape, self.switches.zero_mask)
        found = self._shared_operand("b", shape.b_rows, desc.b_type, desc.transpose_b, shift)
        if columns is None or not columns.size:
            return found

        def run(select: Select) -> np.ndarray:
            b = found(select)
            b[:, columns] = 0
            return b

        return run

    def _tensor_operand(self) -> Fetch:
        """A from tensor memory: (ctas, banks or 1, rows, k)."""
        shape = self.shape
        first = self.first
        tensor = self.path.tensor
        lane = first.a >> 16
        if lane not in ((0, 16) if shape.spread_lanes else (0,)):
            raise self._fault(f"operand A at tensor-memory lane {lane}: not allowed for M={shape.m}")
        columns = tuple(mma.a & 0xFFFF for mma in self.run)
        lanes = shape.lanes(lane)
        for column in columns:
            if not tensor.holds(column, fetch.A_COLUMNS, self.rows):
                raise self._fault(
                    f"operand A: columns {column}..{column + fetch.A_COLUMNS - 1} are not allocated",
                    "compare with tcgen05.alloc",
                )
            key = ("a", shape.word, lane, column)
            if key in tensor.written.known:
                continue
            places = tensor.places(lanes, column, fetch.A_COLUMNS)
            missing = tensor.written.missing(key, places, self.rows)
            if missing:
                message = f"operand A reads {missing} cells of tensor memory that were never written"
                self._report("tensor-memory-unwritten", message, tensor.written.lacking(places, self.rows))
        element = shape.desc.a_type
        packed_as = formats.packing(shape.kind, shape.desc.a_type, True)
        six_bit = self.switches.six_bit

        def run(select: Select) -> np.ndarray:
            cells = fetch.operand_cells(tensor, columns)[select]
            if shape.spread_lanes:
                cells = cells[:, lanes]
            found = formats.widen(cells, element, packed_as, six_bit)
            found = found.reshape(found.shape[0], shape.banks, shape.rows, -1)
            return found if self.switches.bank_copies == "own" else found[:, :1]

        return run

    def _shared_operand(self, name: str, rows: int, element: str, transposed: bool, skip: int) -> Fetch:
        """A function (select) -> float32 (ctas or 1, rows, k) that fetches operand ``name`` of the whole run."""
        shape = self.shape
        shared = self.path.shared
        descriptors = tuple(getattr(mma, name) for mma in self.run)
        packed_as = formats.packing(shape.kind, element, False)
        size = formats.storage(element).itemsize
        try:
            if transposed:
                index = fetch.element_index(descriptors, rows, shape.k, size, skip)
            else:
                index = fetch.chunk_index(descriptors, rows, skip)
        except ValueError as error:
            raise self._fault(f"descriptor of {name.upper()} {descriptors[0]:#018x}: {error}") from None
        key = (name, descriptors, rows, element, transposed, skip)
        if key not in shared.written.known:
            if transposed:
                places = (index[:, :, None] + np.arange(size)).reshape(-1)
            else:
                places = fetch.places(index, formats.unit_bytes(element, packed_as))
            self._check_reach(name, descriptors[0], key, places)
        if transposed:
            low = int(index.min())
            high = int(index.max()) + size
            return lambda select: fetch.fetch_elements(shared.part(low, high)[select], index, element)
        low = 16 * int(index.min())
        high = 16 * int(index.max()) + 16
        return lambda select: fetch.fetch_k_major(
            shared.part(low, high).view(CHUNK)[select], index, rows, element, packed_as
        )

    def _check_reach(self, name: str, descriptor: int, key: tuple[object, ...], places: np.ndarray) -> None:
        """The operand must lie inside shared memory, and every byte of it must have been written."""
        shared = self.path.shared
        if int(places.max()) >= shared.size:
            raise self._fault(
                f"descriptor of {name.upper()} {descriptor:#018x} reaches shared address {int(places.max()):#x}, "
                f"but the CTA has {shared.size:#x} bytes"
            )
        missing = shared.written.missing(key, places, self.rows)
        if missing:
            self._report(
                "shared-memory-unwritten",
                f"operand {name.upper()} (descriptor {descriptor:#018x}) reads {missing} bytes of shared memory "
                "that were never written",
                shared.written.lacking(places, self.rows),
            )

    def scales(self) -> list[Fetch]:
        """Scale factors of A (ctas, rows, factors) and of B (ctas, n, factors)."""
        shape = self.shape
        desc = shape.block_scaled
        split = shape.pair and shape.m == 128
        return [
            self._scale_factors("A", self.first.sfa, shape.rows, desc.sfa_id, False),
            self._scale_factors("B", self.first.sfb, shape.n, desc.sfb_id, split),
        ]

    def _scale_factors(self, name: str, address: int, rows: int, byte: int, split: bool) -> Fetch:
        """Scale factors (ctas, rows, factors) of one operand, checked.

        Args:
            name: of the operand.
            address: of the factors in tensor memory.
            rows: of the operand.
            byte: which byte of a cell the first factor is.
            split: halves of the rows lie in the two halves of the lanes.
        """
        count = self.shape.factors
        scale_type = self.shape.block_scaled.scale_type
        tensor = self.path.tensor
        if self.switches.scale_id == "address":
            byte = scale_factors.address_id(address, count)
        column = address & 0xFFFF
        lane = (address & scale_factors.ADDRESS) >> 16
        width = scale_factors.columns(rows // 2 if split else rows)
        if lane:
            raise self._fault(f"scale factors of {name} at tensor-memory lane {lane}: they start at lane 0")
        if not tensor.holds(column, width, self.rows):
            raise self._fault(f"scale factors of {name}: columns {column}..{column + width - 1} are not allocated")
        used = np.arange(128)[np.arange(128) % 32 < rows]
        missing = tensor.written.missing(None, tensor.places(used, column, width), self.rows)
        if missing:
            self._report("tensor-memory-unwritten", f"scale factors of {name}: {missing} cells were never written")

        def run(select: Select) -> np.ndarray:
            values, same = scale_factors.read(tensor.cells[select], column, rows, byte, count, scale_type, split)
            if not same:
                self._report(
                    "scale-factors-not-replicated",
                    f"scale factors of {name} differ between the sub-partitions of tensor memory",
                )
            return values

        return run

    def accumulator(self) -> tuple[np.ndarray, int]:
        """Lanes and first column of D, checked."""
        first = self.first
        shape = self.shape
        tensor = self.path.tensor
        lane = first.d >> 16
        column = first.d & 0xFFFF
        if lane not in ((0, 16) if shape.spread_lanes else (0,)):
            raise self._fault(f"accumulator address {first.d:#010x}: lane {lane} is not allowed for M={shape.m}")
        if not tensor.holds(column, shape.columns, self.rows):
            raise self._fault(
                f"accumulator columns {column}..{column + shape.columns - 1} are not allocated",
                "compare with tcgen05.alloc",
            )
        lanes = shape.lanes(lane)
        if first.accumulate:
            missing = sum(
                tensor.written.missing(key, tensor.places(own, column, shape.columns), rows)
                for key, own, rows in self._written_lanes(lanes)
                if key not in tensor.written.known
            )
            if missing:
                self._report(
                    "tensor-memory-unwritten",
                    f"the accumulator at column {column} is added to, but {missing} of its cells were never written",
                )
        return lanes, column

    def _written_lanes(
        self, lanes: np.ndarray
    ) -> Iterator[tuple[tuple[object, ...] | None, np.ndarray, np.ndarray | None]]:
        """(key, lanes, CTAs) groups of lanes of D that the instruction writes; all lanes once all are written."""
        first = self.first
        rows = self.rows
        tensor = self.path.tensor
        key = ("d", first.d, self.shape.word, self.shape.ws, self.shape.pair)
        if (
            first.mask is None
            or key in tensor.written.known
            or not tensor.written.missing(key, tensor.places(lanes, first.d & 0xFFFF, self.shape.columns), rows)
        ):
            yield key, lanes, rows
            return
        enabled = first.mask.enabled[:, lanes]
        everyone = np.arange(self.path.ctas) if rows is None else rows
        if len(enabled) == 1:
            yield (*key, enabled.tobytes()), lanes[enabled[0]], rows
            return
        patterns, member = np.unique(enabled, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            yield None, lanes[pattern], everyone[member.reshape(-1) == number]

    def mark(self, lanes: np.ndarray, column: int) -> None:
        """Note that D is written."""
        tensor = self.path.tensor
        for key, own, rows in self._written_lanes(lanes):
            if key not in tensor.written.known:  # else every cell is marked already
                tensor.written.mark(tensor.places(own, column, self.shape.columns), rows)

    def _report(self, rule: str, message: str, row: int | None = None) -> None:
        """Record a finding, of the CTA ``row`` or of the first that takes part."""
        self.reported = True
        if row is None:
            row = 0 if self.first.rows is None else self.first.rows[0]
        self.path.findings.report(rule, message, self.first.instr, who=Who(row=row))

    def _fault(self, message: str, hint: str = "") -> MachineFault:
        return MachineFault(message, span=self.first.instr.span, hint=hint)
