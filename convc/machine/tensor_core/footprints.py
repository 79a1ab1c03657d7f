"""What an asynchronous tensor operation touches: for observers, which order accesses and look for races."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.switches import Switches
from convc.machine.base.values import fixed
from convc.machine.tensor_core import fetch, formats, scale_factors
from convc.machine.tensor_core.copy_shift import SHIFT_COLUMNS, Copy, Shift, copy_places, shift_parts
from convc.machine.tensor_core.mma import Mma
from convc.machine.tensor_core.shapes import MmaShape
from convc.machine.tensor_core.smem_layout import chunk_offsets
from convc.machine.tensor_core.tensor_memory import LANES, TensorMemory
from convc.machine.tensor_core.zero_columns import zero_columns
from convc.ptx.descriptors import SharedDescriptor, decode_shared

NOTHING = fixed(np.empty(0, np.int64))


class Operand(NamedTuple):
    """A matrix in shared memory, by its name, its descriptor, and the byte addresses of what is read of it."""

    name: str
    descriptor: SharedDescriptor
    places: np.ndarray


class Footprint(NamedTuple):
    """The memory that an operation touches, in each CTA.

    Attributes:
        shared: byte addresses of shared memory that are read; operands: the same by matrices.
        reads, writes: cells of tensor memory (flat numbers, lane * 512 + column).
    """

    shared: np.ndarray
    operands: tuple[Operand, ...]
    reads: np.ndarray
    writes: np.ndarray


def footprint(item: Mma | Copy | Shift, switches: Switches) -> Footprint:
    """The footprint of one operation: arrays that are kept, and the same for the same operands."""
    try:
        if isinstance(item, Mma):
            return _mma(item)
        if isinstance(item, Copy):
            return _copy(item, switches.refresh_lane)
    except ValueError as error:
        raise MachineFault(f"shared-memory descriptor: {error}", span=item.instr.span) from None
    return _shift(item.taddr, switches.shift_extent)


@lru_cache(maxsize=256)
def _copy(copy: Copy, refresh_lane: str) -> Footprint:
    lanes, width = copy_places(copy, refresh_lane)
    descriptor = decode_shared(copy.descriptor)
    index = chunk_offsets(descriptor, lanes.shape[1], 4 * width).reshape(-1)
    writes = TensorMemory.places(lanes.reshape(-1), copy.taddr & 0xFFFF, width)
    shared = fixed(fetch.places(index, 16))
    return Footprint(shared, (Operand("the source", descriptor, shared),), NOTHING, fixed(writes))


@lru_cache(maxsize=256)
def _shift(taddr: int, extent: str) -> Footprint:
    to = (32 * shift_parts(taddr, extent)[:, None] + np.arange(31)).reshape(-1)
    column = taddr & 0xFFFF
    reads = fixed(TensorMemory.places(to + 1, column, SHIFT_COLUMNS))
    return Footprint(NOTHING, (), reads, fixed(TensorMemory.places(to, column, SHIFT_COLUMNS)))


def _mma(mma: Mma) -> Footprint:
    """The footprint of an MMA; that of .ashift, which moves the rows of A, included."""
    shape = mma.shape
    skip = 0 if mma.zero is None else zero_columns(mma.zero, shape, "after")[1]
    factors = (mma.sfa, mma.sfb) if shape.factors else ()
    moved = mma.a & 0xFFFF if mma.a_in_tensor and mma.ashift else None
    written = _cells_written(shape, mma.d, moved)
    read = written  # the very array, of which observers can see that it is
    if not mma.accumulate or mma.a_in_tensor or factors:
        read = _cells_read(shape, mma.d if mma.accumulate else None, mma.a if mma.a_in_tensor else None, factors)
    return Footprint(*_operands(shape, None if mma.a_in_tensor else mma.a, mma.b, skip), read, written)


@lru_cache(maxsize=256)
def _operands(shape: MmaShape, a: int | None, b: int, skip: int) -> tuple[np.ndarray, tuple[Operand, ...]]:
    """Shared bytes of the operands of these descriptors, of both and of each."""
    desc = shape.desc
    operands = [Operand("B", decode_shared(b), _operand(shape, b, shape.b_rows, desc.b_type, desc.transpose_b, skip))]
    if a is not None:
        places = _operand(shape, a, shape.rows, desc.a_type, desc.transpose_a, 0)
        operands.append(Operand("A", decode_shared(a), places))
    return fixed(np.concatenate([operand.places for operand in operands])), tuple(operands)


@lru_cache(maxsize=64)
def _cells_read(shape: MmaShape, d: int | None, a: int | None, factors: tuple[int, ...]) -> np.ndarray:
    parts = [NOTHING]
    if d is not None:
        parts.append(TensorMemory.places(shape.lanes(d >> 16), d & 0xFFFF, shape.columns))
    if a is not None:
        parts.append(TensorMemory.places(shape.lanes(a >> 16), a & 0xFFFF, fetch.A_COLUMNS))
    for address, rows in zip(factors, (shape.rows, shape.n // shape.banks), strict=False):
        parts.append(TensorMemory.places(np.arange(LANES), address & 0xFFFF, scale_factors.columns(rows)))
    return fixed(np.concatenate(parts))


@lru_cache(maxsize=64)
def _cells_written(shape: MmaShape, d: int, moved: int | None) -> np.ndarray:
    """Cells of D, and of A from column ``moved`` on."""
    parts = [TensorMemory.places(shape.lanes(d >> 16), d & 0xFFFF, shape.columns)]
    if moved is not None:
        parts.append(TensorMemory.places(np.arange(LANES), moved, SHIFT_COLUMNS))
    return fixed(np.concatenate(parts))


def _operand(shape: MmaShape, word: int, rows: int, element: str, transposed: bool, skip: int) -> np.ndarray:
    if transposed:
        size = formats.storage(element).itemsize
        index = fetch.element_index((word,), rows, shape.k, size, skip).reshape(-1)
        return (index[:, None] + np.arange(size)).reshape(-1)
    used = formats.unit_bytes(element, formats.packing(shape.kind, element, False))
    return fetch.places(fetch.chunk_index((word,), rows, skip), used)
