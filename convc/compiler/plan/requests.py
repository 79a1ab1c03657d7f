"""Requests of the copy engine: how many cycles a row of an operand tile takes.

A row that lies in global memory as it lies in shared memory is one request. One that begins or ends within a sector,
crosses a line, or is filled up behind its last channel, takes one more for each of these. The rules are those that the
timing engine counts by (`convc.timing.accesses`, from a recording of an H200); here they are averaged over all places
at which rows of a tensor can begin.
"""

from __future__ import annotations

import functools
import math

from convc.compiler.plan.loads import activation_axes, dims_and_strides
from convc.compiler.plan.work import SECTOR_BYTES
from convc.host_layout.device_layout import DeviceLayout
from convc.ir.arch import Rates

LINE_BYTES = 128
"""Bytes of a line of global memory: a request asks for sectors of one."""

PIECE_BYTES = 16
"""What is filled in begins at a multiple of this."""


def row_requests(start: int, size: int, row: int) -> int:
    """Count the requests for one row.

    Args:
        start: byte at which it begins. size: bytes of it in the tensor. row: bytes of it in shared memory.
    """
    end = start + size
    first = -(-start // SECTOR_BYTES) * SECTOR_BYTES
    last = end // SECTOR_BYTES * SECTOR_BYTES
    whole = (last - 1) // LINE_BYTES - first // LINE_BYTES + 1 if first < last else 0
    there = -(-size // PIECE_BYTES) * PIECE_BYTES
    filled = (there < row and there % SECTOR_BYTES != 0) + (row > -(-there // SECTOR_BYTES) * SECTOR_BYTES)
    return (start < first) + whole + (last < end and first <= last) + filled


def row_cycles(layout: DeviceLayout, row: int, rates: Rates) -> tuple[float, float]:
    """Find the cycles that TMA takes for a row of activations, and for one of the filter.

    Args:
        layout: the buffers.
        row: bytes of a row in shared memory.
        rates: of the target.
    """
    element = layout.problem.operand_dtype.bytes
    dims, strides = activation_axes(layout)
    kept, steps = dims_and_strides(layout.filter)
    a = _cycles(dims[0] * element, math.gcd(*strides), row, rates.fill_bytes, rates.fill_rows)
    b = _cycles(kept[0] * element, math.gcd(*steps), row, rates.fill_bytes, rates.fill_rows)
    return a, b


@functools.lru_cache(maxsize=1024)
def _cycles(pixel: int, step: int, row: int, fill_bytes: float, fill_rows: float) -> float:
    """Cycles of a row, on average over the blocks of a pixel and the places at which pixels begin.

    Args:
        pixel: bytes of it. step: what all distances between pixels are multiples of.
        row: bytes in shared memory. fill_bytes, fill_rows: that are filled in a cycle.
    """
    starts = range(0, LINE_BYTES, math.gcd(step, LINE_BYTES))
    sizes = [(begin, min(row, pixel - begin)) for begin in range(0, pixel, row)]
    cycles = 0.0
    for begin, size in sizes:
        asked = sum(row_requests(start + begin, size, row) for start in starts) / len(starts)
        cycles += max(row / fill_bytes, asked / fill_rows)
    return cycles / len(sizes)
