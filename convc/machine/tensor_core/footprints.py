"""What an asynchronous tensor operation touches: for observers, which order accesses and look for races."""

from __future__ import annotations

import numpy as np

from convc.errors import MachineFault
from convc.machine.base.switches import Switches
from convc.machine.tensor_core import fetch, formats, scale_factors
from convc.machine.tensor_core.copy_shift import SHIFT_COLUMNS, Copy, Shift, copy_places, shift_parts
from convc.machine.tensor_core.mma import Mma
from convc.machine.tensor_core.shapes import Shape
from convc.machine.tensor_core.smem_layout import chunk_offsets
from convc.machine.tensor_core.tensor_memory import LANES, TensorMemory
from convc.machine.tensor_core.zero_columns import zero_columns
from convc.ptx.descriptors import decode_shared

Footprint = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Shared bytes read, tensor-memory cells read, cells written (flat numbers, lane * 512 + column), in each CTA."""

NOTHING = np.empty(0, np.int64)


def footprint(item: Mma | Copy | Shift, switches: Switches) -> Footprint:
    """The footprint of one operation."""
    try:
        if isinstance(item, Mma):
            return _mma(item)
        if isinstance(item, Copy):
            lanes, width = copy_places(item, switches)
            index = chunk_offsets(decode_shared(item.descriptor), lanes.shape[1], 4 * width).reshape(-1)
            return (
                fetch.places(index, 16),
                NOTHING,
                TensorMemory.places(lanes.reshape(-1), item.taddr & 0xFFFF, width),
            )
    except ValueError as error:
        raise MachineFault(f"shared-memory descriptor: {error}", span=item.instr.span) from None
    to = (32 * shift_parts(item.taddr, switches.shift_extent)[:, None] + np.arange(31)).reshape(-1)
    column = item.taddr & 0xFFFF
    return (NOTHING, TensorMemory.places(to + 1, column, SHIFT_COLUMNS), TensorMemory.places(to, column, SHIFT_COLUMNS))


def _mma(mma: Mma) -> Footprint:
    """The footprint of an MMA; that of .ashift, which moves the rows of A, included."""
    shape = mma.shape
    desc = mma.shape.desc
    skip = 0 if mma.zero is None else zero_columns(mma.zero, shape, "after")[1]
    shared = [_operand(shape, mma.b, shape.b_rows, desc.b_type, desc.transpose_b, skip)]
    d = TensorMemory.places(shape.lanes(mma.d >> 16), mma.d & 0xFFFF, shape.columns)
    reads = [d] if mma.accumulate else []
    writes = [d]
    if mma.a_in_tensor:
        reads.append(TensorMemory.places(shape.lanes(mma.a >> 16), mma.a & 0xFFFF, fetch.A_COLUMNS))
        if mma.ashift:
            writes.append(TensorMemory.places(np.arange(LANES), mma.a & 0xFFFF, SHIFT_COLUMNS))
    else:
        shared.append(_operand(shape, mma.a, shape.rows, desc.a_type, desc.transpose_a, 0))
    if shape.factors:
        for address, rows in ((mma.sfa, shape.rows), (mma.sfb, shape.n // shape.banks)):
            width = scale_factors.columns(rows)
            reads.append(TensorMemory.places(np.arange(LANES), address & 0xFFFF, width))
    return np.concatenate(shared), np.concatenate([NOTHING, *reads]), np.concatenate(writes)


def _operand(shape: Shape, word: int, rows: int, element: str, transposed: bool, skip: int) -> np.ndarray:
    """Shared bytes of an operand."""
    if transposed:
        size = formats.storage(element).itemsize
        index = fetch.element_index((word,), rows, shape.k, size, skip).reshape(-1)
        return (index[:, None] + np.arange(size)).reshape(-1)
    used = formats.unit_bytes(element, formats.packing(shape.kind, element, False))
    return fetch.places(fetch.chunk_index((word,), rows, skip), used)
