"""The tensor core: tcgen05.mma on operands in shared memory, accumulators in tensor memory.

Instructions are asynchronous. Issued ones wait in a queue that is *sealed* (executed) before anything could tell the
difference: when the issuing thread commits, when it stops running, and before anybody writes shared memory or touches
tensor memory. Instructions that continue one accumulation are executed as one product over their joint K, which is
what makes the machine fast; the sum is float32 (see FIDELITY for how that relates to the hardware's sum).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from convc.errors import MachineFault
from convc.machine import operands
from convc.ptx.descriptors import InstructionDescriptor, decode_instruction

if TYPE_CHECKING:
    from convc.machine.cohort import Cohort
    from convc.ptx.syntax import Instr

WORKING_SET = 1 << 20
"""Bytes of operands and accumulators processed at a time, to stay inside a level-2 cache."""


@dataclass(frozen=True, slots=True)
class Mma:
    """One issued instruction, operands already read from registers.

    ``d`` is the tensor-memory address of the accumulator; ``a`` and ``b`` are shared-memory descriptors;
    ``accumulate`` is enable-input-d; ``rows`` are the CTAs (None = all).
    """

    kind: str
    d: int
    a: int
    b: int
    idesc: int
    accumulate: bool
    rows: tuple[int, ...] | None
    instr: Instr

    @property
    def target(self) -> tuple:
        """What two instructions must share to continue one accumulation."""
        return self.d, self.idesc, self.kind, self.rows


@lru_cache(maxsize=256)
def shape_of(idesc: int, kind: str) -> InstructionDescriptor:
    """Decode and check an instruction descriptor (PTX manual, tcgen05 instruction descriptor and shapes)."""
    try:
        desc = decode_instruction(idesc, kind)
    except ValueError as error:
        raise MachineFault(f"instruction descriptor {idesc:#010x} of kind::{kind}: {error}") from None
    if desc.m not in (64, 128) or not 8 <= desc.n <= 256 or desc.n % 8:
        raise MachineFault(
            f"instruction descriptor {idesc:#010x}: M={desc.m}, N={desc.n} is not a shape of cta_group::1",
            hint="M is 64 or 128; N is a multiple of 8 up to 256",
        )
    if desc.sparse:
        raise MachineFault(
            f"instruction descriptor {idesc:#010x} asks for sparse A, which a dense tcgen05.mma cannot have"
        )
    return desc


@lru_cache(maxsize=64)
def accumulator_lanes(m: int, base: int) -> np.ndarray:
    """Lane of each row of D: layouts D (M=128) and F (M=64, 16 of every 32 lanes) of the PTX manual."""
    row = np.arange(m)
    return row if m == 128 else base + 32 * (row // 16) + row % 16


class TensorCore:
    """Queue and execution of one cohort's tcgen05.mma instructions."""

    def __init__(self, cohort: Cohort) -> None:
        self.cohort = cohort
        self.queue: list[Mma] = []

    def issue(self, mma: Mma, rows: int) -> None:
        """Queue an instruction issued by ``rows`` CTAs."""
        desc = shape_of(mma.idesc, mma.kind)
        stats = self.cohort.stats
        stats.mma += rows
        stats.mma_flops += rows * 2 * desc.m * desc.n * (operands.SPAN // (4 if mma.kind == "tf32" else 2))
        self.queue.append(mma)

    def seal(self) -> None:
        """Execute everything queued."""
        if not self.queue:
            return
        queue, self.queue = self.queue, []
        runs: list[list[Mma]] = []
        for mma in queue:
            last = runs[-1][-1] if runs else None
            if last is not None and mma.accumulate and mma.target == last.target:
                runs[-1].append(mma)
            else:
                runs.append([mma])
        for run in runs:
            self._execute(run)

    def _execute(self, run: list[Mma]) -> None:
        """One product over the joint K of a run of instructions with the same accumulator."""
        first = run[0]
        cohort = self.cohort
        desc = shape_of(first.idesc, first.kind)
        a_fetch = self._operand(run, "a", desc.m, desc.a_type, desc.transpose_a)
        b_fetch = self._operand(run, "b", desc.n, desc.b_type, desc.transpose_b)
        cells, lanes, column = self._accumulator(first, desc)
        negative = desc.negate_a != desc.negate_b
        depth = len(run) * operands.SPAN // operands.WIDEN[desc.a_type][0].itemsize
        per_cta = 4 * (2 * (desc.m + desc.n) * depth + 2 * desc.m * desc.n)
        step = max(1, WORKING_SET // per_cta)
        rows = np.arange(cohort.ctas) if first.rows is None else np.asarray(first.rows)
        for low in range(0, len(rows), step):
            part = rows[low : low + step]
            select = slice(int(part[0]), int(part[-1]) + 1) if first.rows is None else part
            a, b = a_fetch(select), b_fetch(select)
            if negative:
                a = -a
            self._accumulate(cells, select, lanes, column, desc, a, b, first.accumulate)
        cohort.tensor.written.mark(cohort.tensor.places(lanes, column, desc.n), None if first.rows is None else rows)

    @staticmethod
    def _accumulate(cells, select, lanes, column, desc: InstructionDescriptor, a, b, accumulate: bool) -> None:
        """D = A B^T (+ D) for the selected CTAs; D is float32, or float16 in the low half of a cell."""
        columns = slice(column, column + desc.n)
        if desc.d_type == "f32" and desc.m == 128 and isinstance(select, slice):
            target = cells[select, :, columns].view(np.float32)
            if accumulate:
                target += np.matmul(a, b.transpose(0, 2, 1))
            else:
                np.matmul(a, b.transpose(0, 2, 1), out=target)
            return
        product = np.matmul(a, b.transpose(0, 2, 1))
        block = cells[select][:, lanes, columns]
        if desc.d_type == "f32":
            result = (block.view(np.float32) + product if accumulate else product).view(np.uint32)
        else:
            if accumulate:
                product = product + (block & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)
            result = product.astype(np.float16).view(np.uint16).astype(np.uint32)
        index = np.arange(cells.shape[0])[select]
        cells[index[:, None, None], lanes[None, :, None], np.arange(column, column + desc.n)[None, None, :]] = result

    def _accumulator(self, mma: Mma, desc: InstructionDescriptor) -> tuple[np.ndarray, np.ndarray, int]:
        lane, column = mma.d >> 16, mma.d & 0xFFFF
        tensor = self.cohort.tensor
        if lane not in ((0,) if desc.m == 128 else (0, 16)):
            raise self._fault(mma, f"accumulator address {mma.d:#010x}: lane {lane} is not allowed for M={desc.m}")
        if desc.d_type not in ("f32", "f16"):
            raise self._fault(
                mma,
                f"instruction descriptor {mma.idesc:#010x}: D of type {desc.d_type} does not go with kind::{mma.kind}",
            )
        if not tensor.holds(column, desc.n):
            raise self._fault(
                mma,
                f"accumulator columns {column}..{column + desc.n - 1} are not allocated",
                hint="compare with tcgen05.alloc",
            )
        lanes = accumulator_lanes(desc.m, lane)
        if mma.accumulate:
            rows = None if mma.rows is None else np.asarray(mma.rows)
            key = ("d", mma.d, mma.idesc)
            missing = tensor.written.missing(key, tensor.places(lanes, column, desc.n), rows)
            if missing:
                self.cohort.report(
                    "tensor-memory-unwritten",
                    f"the accumulator at column {column} is added to, but {missing} of its cells were never written",
                    mma.instr,
                )
        return tensor.cells, lanes, column

    def _operand(self, run: list[Mma], name: str, rows: int, kind: str, transposed: bool):
        """A function (select) -> float32 (ctas, rows, k) that fetches operand ``name`` of the whole run."""
        shared = self.cohort.shared
        descriptors = tuple(getattr(mma, name) for mma in run)
        try:
            if transposed:
                size = operands.WIDEN[kind][0].itemsize
                index = operands.element_index(descriptors, rows, operands.SPAN // size, size)
                places = (index[:, :, None] + np.arange(size)).reshape(-1)
            else:
                index = operands.chunk_index(descriptors, rows)
                places = None
        except ValueError as error:
            raise self._fault(run[0], f"descriptor of {name.upper()} {descriptors[0]:#018x}: {error}") from None
        self._check_reach(run[0], name, descriptors, index, places)
        if transposed:
            return lambda select: operands.fetch_elements(shared.bytes[select], index, kind)
        return lambda select: operands.fetch_k_major(shared.chunks[select], index, rows, kind)

    def _check_reach(
        self, mma: Mma, name: str, descriptors: tuple[int, ...], index: np.ndarray, places: np.ndarray | None
    ) -> None:
        """The operand must lie inside shared memory, and every byte of it must have been written."""
        shared = self.cohort.shared
        rows = None if mma.rows is None else np.asarray(mma.rows)
        key = (name, descriptors, mma.idesc)
        if key in shared.written.known:
            return
        if places is None:
            places = (index[:, None] * 16 + np.arange(16)).reshape(-1)
        if int(places.max()) >= shared.size:
            raise self._fault(
                mma,
                f"descriptor of {name.upper()} {descriptors[0]:#018x} reaches shared address {int(places.max()):#x}, "
                f"but the CTA has {shared.size:#x} bytes",
            )
        missing = shared.written.missing(key, places, rows)
        if missing:
            self.cohort.report(
                "shared-memory-unwritten",
                f"operand {name.upper()} (descriptor {descriptors[0]:#018x}) reads {missing} bytes of shared memory "
                "never written",
                mma.instr,
            )

    @staticmethod
    def _fault(mma: Mma, message: str, hint: str = "") -> MachineFault:
        return MachineFault(message, span=mma.instr.span, hint=hint)
