"""Matrix operands: fetched by descriptor from shared memory, or from tensor memory, and widened to float32.

A tcgen05.mma names its operands in shared memory by 64-bit descriptors. Consecutive instructions of a K loop
advance the descriptor by 32 bytes, so the simulator fetches the operands of a whole run of instructions at once: the
16-byte chunks of every row in K order, one gather per operand for all CTAs. Operand A may lie in tensor memory
instead: 8 columns of 32 bits per instruction, one lane per row.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from convc.machine.tensor_core import formats
from convc.machine.tensor_core.smem_layout import chunk_offsets, element_offsets
from convc.machine.tensor_core.tensor_memory import TensorMemory
from convc.ptx.descriptors import decode_shared

SPAN = 32
"""Bytes of each operand row that one dense tcgen05.mma consumes (PTX manual, tcgen05 matrix shapes)."""

A_COLUMNS = SPAN // 4
"""Columns of tensor memory that operand A of one instruction takes."""


@lru_cache(maxsize=8192)
def chunk_index(descriptors: tuple[int, ...], rows: int, skip: int = 0) -> np.ndarray:
    """Chunk numbers (address >> 4) of rows ``skip ..`` of a K-major operand, rows x (2 per descriptor), flattened."""
    parts = [chunk_offsets(decode_shared(value), rows + skip, SPAN)[skip:] for value in descriptors]
    return np.concatenate(parts, axis=1).reshape(-1).astype(np.intp)


@lru_cache(maxsize=1024)
def element_index(descriptors: tuple[int, ...], rows: int, columns: int, size: int, skip: int = 0) -> np.ndarray:
    """Byte addresses of an MN-major operand, (rows, columns per instruction x instructions)."""
    parts = [element_offsets(decode_shared(value), rows + skip, columns, size, True)[skip:] for value in descriptors]
    return np.concatenate(parts, axis=1)


def fetch_k_major(chunks: np.ndarray, index: np.ndarray, rows: int, element: str, packed_as: str) -> np.ndarray:
    """Operand (ctas or 1, rows, k) in float32 from the chunks (ctas, n) of shared memory; 1 where all hold the same."""
    raw = np.take(chunks, index, axis=1)
    if _alike(raw.view(np.uint64)):
        raw = raw[:1]
    return formats.widen(raw, element, packed_as).reshape(len(raw), rows, -1)


def _alike(words: np.ndarray) -> bool:
    """Whether all CTAs hold the same words: tiles of one row or column of the grid share an operand."""
    return words[-1].tobytes() == words[0].tobytes() and bool((words[1:-1] == words[0]).all())


def fetch_elements(memory: np.ndarray, index: np.ndarray, element: str) -> np.ndarray:
    """Operand (ctas, rows, k) in float32, element by element, from the bytes (ctas, n) of shared memory."""
    storage = formats.storage(element)
    words = memory.view(storage)
    raw = np.ascontiguousarray(words[:, index // storage.itemsize])
    return formats.widen(raw, element, "plain")


def operand_cells(tensor: TensorMemory, columns: tuple[int, ...]) -> np.ndarray:
    """Cells (ctas, 128, width) of tensor memory: 8 columns from each of ``columns`` on."""
    if all(b - a == A_COLUMNS for a, b in pairwise(columns)):
        return tensor.panel(columns[0], A_COLUMNS * len(columns))
    return np.ascontiguousarray(tensor.cells[:, :, (np.asarray(columns)[:, None] + np.arange(A_COLUMNS)).reshape(-1)])


def places(index: np.ndarray, used: int) -> np.ndarray:
    """Byte addresses of the first ``used`` bytes of every chunk."""
    return (index[:, None] * 16 + np.arange(used)).reshape(-1)
