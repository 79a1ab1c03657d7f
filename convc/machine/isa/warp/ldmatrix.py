"""ldmatrix, stmatrix and movmatrix (PTX manual, 9.7.14.5.15 to .17).

Matrices lie in shared memory as rows of 16 bytes; lane i supplies the address of row i. A warp holds an 8x8 matrix
of 16-bit elements as one 32-bit register per lane: lane l has elements 2 (l % 4) and the next of row l / 4. With
.trans the matrix in the registers is the transpose.

Matrices of bytes are always transposed. A register takes two neighbouring rows, and of each the bytes l / 4 and
l / 4 + 8: rows 2 (l % 4) and the next of 8 rows where stmatrix has shape m16n8; rows 4 (l % 4) and the next for the
first register, the two after these for the second, where ldmatrix has shape m16n16 (the maps of NVIDIA CUTLASS,
SM100_U8x4_STSM_T and SM100_U8x8_LDSM_T).

Rows of 16 elements of 4 or 6 bits (.b4x16_p64, .b6x16_p32) lie packed in the first 8 or 12 bytes of their 16; the
rest is padding. They are spread to a byte each, zeros above, and then loaded as bytes: transposed in shape m16n16, or
in shape m8n16 as words, where lane l has bytes 4 (l % 4) to 4 (l % 4) + 3 of row l / 4.
"""

from __future__ import annotations

import numpy as np

from convc.machine.base.values import Value, array, narrow
from convc.machine.isa import threads
from convc.machine.isa.memory import shared_space
from convc.machine.isa.observe import notify_shared
from convc.machine.isa.operands import shared_address_of
from convc.machine.isa.registry import CROSS_LANE, ORDINARY, Run, Traits, op
from convc.machine.memory.global_memory import CHUNK
from convc.machine.state.slots import SlotTable
from convc.machine.state.strand import Strand
from convc.machine.tensor_core import formats
from convc.ptx import Instr

LANES = np.arange(32)
ROW = LANES // 4
PAIR = LANES % 4
ROW_BYTES = 16
PACKED = {"b4x16_p64": "e2m1", "b6x16_p32": "e3m2"}
"""Formats of packed rows, as types of elements with that many bits."""


def _halves(trans: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """For the lower and the upper element of a register: (row in memory, byte in that row) by lane."""
    if trans:
        return [(2 * PAIR + half, 2 * ROW) for half in (0, 1)]
    return [(ROW, 4 * PAIR + 2 * half) for half in (0, 1)]


def _elements(instr: Instr, count: int) -> tuple[np.dtype, list[list[tuple[np.ndarray, np.ndarray]]]]:
    """Type of an element; for each of ``count`` registers (row, byte in it) by lane of its elements, lowest first."""
    trans = "trans" in instr.mods
    if "m8n8" in instr.mods:
        return np.dtype(np.uint16), [[(8 * i + row, byte) for row, byte in _halves(trans)] for i in range(count)]
    if "m8n16" in instr.mods:
        return np.dtype(np.uint8), [[(8 * i + ROW, 4 * PAIR + k) for k in range(4)] for i in range(count)]
    if "m16n8" in instr.mods:
        first = [8 * i + 2 * PAIR for i in range(count)]
    else:
        first = [16 * (i // 2) + 4 * PAIR + 2 * (i % 2) for i in range(count)]
    return np.dtype(np.uint8), [[(row + k % 2, ROW + 8 * (k // 2)) for k in range(4)] for row in first]


def _rows(strand: Strand, address: Value, count: int, what: str) -> np.ndarray:
    """Addresses of the 8 x count rows, (rows | 1, warps | 1, 32), checked; the lanes behind them repeat them."""
    given = array(address, 32)
    lanes = LANES % (8 * count) if given.shape[2] > 1 else np.zeros(32, np.intp)
    return shared_space.shared_offset(strand, given.take(lanes, axis=2), ROW_BYTES, what)


@op("ldmatrix", traits=Traits.MEMORY_LOAD)
def ldmatrix(instr: Instr, table: SlotTable) -> Run:
    """ldmatrix.sync.aligned r, [p]: .m8n8{.trans}.b16, .m16n16.trans.b8, and packed rows as .m8n16 or .m16n16.trans."""
    slots = table.targets(instr.operands[0])
    address = shared_address_of(instr.operands[1], table)
    kind, registers = _elements(instr, len(slots))
    packed_type = instr.slots["src_fmt"]
    packed = None if packed_type is None else PACKED.get(packed_type)
    size = ROW_BYTES if packed is None else formats.unit_bytes(packed, "padded")
    words = "m8n8" in instr.mods
    trans = "trans" in instr.mods

    def elements_of(chunks: np.ndarray) -> np.ndarray:
        """Registers (count, rows, warps, 32) of matrices of any shape."""
        data = chunks[..., None].view(np.uint8)
        if packed is not None:
            data = formats.codes(data, packed, "padded", "low")
        elements = np.ascontiguousarray(data).view(kind)
        values = np.zeros((len(slots), *elements.shape[:2], 32), np.uint32)
        for value, places in zip(values, registers, strict=True):
            for k, (row, byte) in enumerate(places):
                element = elements[:, :, row, byte // kind.itemsize].astype(np.uint32)
                value |= element << np.uint32(8 * kind.itemsize * k)
        return values

    def run(strand: Strand) -> None:
        starts = _rows(strand, address(strand.regs), len(slots), "ldmatrix")
        shared_space.check_written(strand, instr, starts, size)
        notify_shared(strand, instr, "ld", starts, size)
        if words:
            starts = starts[:, :, : 8 * len(slots)]
        chunks = _chunks(strand, starts)
        values = _words(chunks, trans) if words else elements_of(chunks)
        for slot, value in zip(slots, values, strict=True):
            if slot is not None:
                strand.write(slot, narrow(value))

    return run


def _chunks(strand: Strand, starts: np.ndarray) -> np.ndarray:
    """The 16 bytes from each address on: (rows, warps | 1, n), one for all warps that have the same addresses."""
    if len(strand.warps) > 1 and (starts == starts[:, :1]).all():
        starts = starts[:, :1]
    low, high, _ = threads.extent(starts, ROW_BYTES)
    units = strand.cohort.shared.part(low, high + ROW_BYTES).view(CHUNK)
    index = starts // ROW_BYTES
    if strand.rows is None and len(index) == 1:
        return units.take(index.reshape(-1), axis=1).reshape(len(units), *index.shape[1:])
    return units[threads.rows_of(strand), index]


def _words(chunks: np.ndarray, trans: bool) -> np.ndarray:
    """Registers (count, rows, warps, 32) of 8x8 matrices of 16 bits, whose rows are chunks (rows, warps, 8 count)."""
    lead = chunks.shape[:2]
    if not trans:
        return np.ascontiguousarray(chunks.view(np.uint32).reshape(*lead, -1, 32).transpose(2, 0, 1, 3))
    matrices = chunks.view(np.uint16).reshape(*lead, -1, 8, 8)
    return np.ascontiguousarray(matrices.transpose(2, 0, 1, 4, 3)).view(np.uint32).reshape(-1, *lead, 32)


@op("stmatrix", traits=ORDINARY, result=False)
def stmatrix(instr: Instr, table: SlotTable) -> Run:
    """stmatrix.sync.aligned.m8n8.num{.trans}.b16 and .m16n8.num.trans.b8 [p], r."""
    address = shared_address_of(instr.operands[0], table)
    slots = table.slots(instr.operands[1], 32)
    kind, registers = _elements(instr, len(slots))

    def run(strand: Strand) -> None:
        cohort = strand.cohort
        cohort.core.seal()
        shape = threads.thread_shape(strand)
        starts = np.broadcast_to(_rows(strand, address(strand.regs), len(slots), "stmatrix"), shape)
        words = cohort.shared.bytes.view(kind)
        rows = threads.rows_of(strand)
        mask = None if strand.mask is None else np.broadcast_to(strand.mask, shape)
        for slot, elements in zip(slots, registers, strict=True):
            value = np.broadcast_to(array(strand.regs[slot], 32), shape)
            for k, (row, byte) in enumerate(elements):
                place, line = np.broadcast_arrays((starts[:, :, row] + byte) // kind.itemsize, rows)
                element = (value >> np.uint32(8 * kind.itemsize * k)).astype(kind)
                if mask is not None:
                    place = place[mask]
                    line = line[mask]
                    element = element[mask]
                words[line, place] = element
        shared_space.mark_written(strand, starts, ROW_BYTES)
        notify_shared(strand, instr, "st", starts, ROW_BYTES)

    return run


@op("movmatrix", traits=CROSS_LANE)
def movmatrix(instr: Instr, table: SlotTable) -> Run:
    """movmatrix.sync.aligned.m8n8.trans.b16 d, a: transpose a matrix held by the warp."""
    d = table.slot(instr.operands[0])
    a = table.slot(instr.operands[1], 32)

    def run(strand: Strand) -> None:
        held = array(strand.regs[a], 32)
        value = np.broadcast_to(held, (held.shape[0], len(strand.warps), 32))
        # Lane l gets elements 2 (l % 4) and the next of column l / 4, one from each of two lanes.
        shift = (16 * (ROW % 2)).astype(np.uint32)
        low, high = ((value[:, :, (2 * PAIR + half) * 4 + ROW // 2] >> shift) & np.uint32(0xFFFF) for half in (0, 1))
        strand.write(d, narrow(low | (high << np.uint32(16))))

    return run
