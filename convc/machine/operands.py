"""Matrix operands in shared memory: fetched by descriptor, widened to float32.

A tcgen05.mma names its operands by 64-bit descriptors. Consecutive instructions of a K loop advance the descriptor by
32 bytes, so the machine fetches the operands of a whole run of instructions at once: the 16-byte chunks of every row
in K order, one gather per operand for all CTAs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from convc.machine.matrix_layout import chunk_offsets, element_offsets
from convc.ptx.descriptors import decode_shared

SPAN = 32
"""Bytes of each operand row that one dense tcgen05.mma consumes (PTX manual, tcgen05 matrix shapes)."""


@lru_cache(maxsize=8192)
def chunk_index(descriptors: tuple[int, ...], rows: int) -> np.ndarray:
    """Chunk numbers (address >> 4) of a K-major operand, rows x (2 chunks per descriptor), flattened."""
    parts = [chunk_offsets(decode_shared(value), rows, SPAN) for value in descriptors]
    return np.concatenate(parts, axis=1).reshape(-1).astype(np.intp)


@lru_cache(maxsize=1024)
def element_index(descriptors: tuple[int, ...], rows: int, columns: int, size: int) -> np.ndarray:
    """Byte addresses of an MN-major operand, (rows, columns per instruction x instructions)."""
    parts = [element_offsets(decode_shared(value), rows, columns, size, True) for value in descriptors]
    return np.concatenate(parts, axis=1)


def widen_f16(raw: np.ndarray) -> np.ndarray:
    """float16 bits (uint16) to float32, exactly: shift the fields into place and rescale by 2**112.

    About four times faster than numpy's conversion; infinities and NaNs, which the rescaling would lose, are detected
    by their size and converted the slow way.
    """
    wide = raw.view(np.int16).astype(np.int32)
    wide <<= 13
    wide &= -0x70002000
    out = wide.view(np.float32)
    out *= np.float32(2.0**112)
    if out.size and max(out.max(), -out.min()) >= 65536.0:
        return raw.view(np.float16).astype(np.float32)
    return out


def widen_bf16(raw: np.ndarray) -> np.ndarray:
    """bfloat16 bits (uint16) to float32: the upper half of the word."""
    wide = raw.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def widen_tf32(raw: np.ndarray) -> np.ndarray:
    """tf32 in 32-bit storage: the low 13 bits are dropped (isa: truncation, microsoft/MMA-Sim)."""
    return (raw & np.uint32(0xFFFFE000)).view(np.float32)


WIDEN: dict[str, tuple[np.dtype, Callable[[np.ndarray], np.ndarray]]] = {
    "f16": (np.dtype(np.uint16), widen_f16),
    "bf16": (np.dtype(np.uint16), widen_bf16),
    "tf32": (np.dtype(np.uint32), widen_tf32),
}
"""Storage type and widening function of each operand type."""


def fetch_k_major(chunks: np.ndarray, index: np.ndarray, rows: int, kind: str) -> np.ndarray:
    """Operand (ctas, rows, k) in float32 from the chunks (ctas, n) of shared memory."""
    storage, widen = WIDEN[kind]
    raw = np.take(chunks, index, axis=1).view(storage)
    return widen(raw).reshape(chunks.shape[0], rows, -1)


def fetch_elements(memory: np.ndarray, index: np.ndarray, kind: str) -> np.ndarray:
    """Operand (ctas, rows, k) in float32, element by element, from the bytes (ctas, n) of shared memory."""
    storage, widen = WIDEN[kind]
    words = memory.view(storage)
    return widen(np.ascontiguousarray(words[:, index // storage.itemsize]))
