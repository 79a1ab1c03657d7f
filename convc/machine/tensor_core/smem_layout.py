"""Matrix operands in shared memory: which bytes a shared-memory descriptor names.

An operand is K-major (a row holds consecutive k) or MN-major (a row holds consecutive m or n). Both are
made of 16-byte chunks that stay whole under every swizzle a descriptor can have, so the layouts are given
as chunk numbers, address >> 4:

| major | swizzle | byte address before the XOR |
| --- | --- | --- |
| K | none | start + (r/8)*SBO + (r%8)*16 + (x/16)*LBO + x%16, x = byte along K |
| K | W bytes | start + (r/8)*SBO + (r%8)*W + x; LBO has no effect |
| MN | none | start + (x/16)*SBO + (k/8)*LBO + (k%8)*16 + x%16, x = byte along M or N |
| MN | W bytes | start + (x/W)*LBO + (k/8)*SBO + (k%8)*W + x%W |
| MN | 128B_atom32 | the same with 4 instead of 8 |

Then the XOR of `convc.machine.base.swizzle` is applied to the sum, its line number lessened by the base offset.
Recorded on an H200 for 16-bit elements, all but the last line of the table (``tests/recordings``: 600 of
600 descriptors, any 16-byte start); other widths and the last line: PTX manual, shared-memory matrix
layouts.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from convc.machine.base.swizzle import chunk_xor, pitch
from convc.ptx.descriptors import SharedDescriptor


@lru_cache(maxsize=4096)
def chunk_offsets(desc: SharedDescriptor, rows: int, k_bytes: int) -> np.ndarray:
    """Chunks of a K-major operand.

    Args:
        desc: a decoded descriptor.
        rows: extent along M or N.
        k_bytes: extent along K in bytes, a multiple of 16.

    Returns:
        int64 (rows, k_bytes / 16), read-only: entry (r, c) is the chunk with bytes 16c to 16c + 15 of row r.
    """
    _refuse_absolute(desc)
    if desc.swizzle == "128B_atom32":
        raise ValueError("a K-major operand cannot have swizzle 128B_atom32")
    if k_bytes % 16:
        raise ValueError(f"K must take a multiple of 16 bytes, got {k_bytes}")
    row = np.arange(rows, dtype=np.int64)[:, None]
    chunk = np.arange(k_bytes // 16, dtype=np.int64)[None, :]
    step = desc.lbo >> 4 if desc.swizzle == "none" else 1
    height = pitch(desc.swizzle) >> 4
    return _finish(desc, (row >> 3) * (desc.sbo >> 4) + (row & 7) * height + chunk * step)


@lru_cache(maxsize=4096)
def mn_chunk_offsets(desc: SharedDescriptor, mn_bytes: int, columns: int) -> np.ndarray:
    """Chunks of an MN-major operand.

    Args:
        desc: a decoded descriptor.
        mn_bytes: extent along M or N in bytes, a multiple of 16.
        columns: extent along K in elements.

    Returns:
        int64 (mn_bytes / 16, columns), read-only: entry (c, k) is the chunk with bytes 16c to 16c + 15 of
        line k.
    """
    _refuse_absolute(desc)
    if mn_bytes % 16:
        raise ValueError(f"M or N must take a multiple of 16 bytes, got {mn_bytes}")
    chunk = np.arange(mn_bytes // 16, dtype=np.int64)[:, None]
    k = np.arange(columns, dtype=np.int64)[None, :]
    width = pitch(desc.swizzle) >> 4
    group = 4 if desc.swizzle == "128B_atom32" else 8
    along_mn = desc.lbo >> 4
    along_k = desc.sbo >> 4
    if desc.swizzle == "none":
        along_mn, along_k = along_k, along_mn
    line = (k // group) * along_k + (k % group) * width
    return _finish(desc, (chunk // width) * along_mn + chunk % width + line)


def element_offsets(desc: SharedDescriptor, rows: int, columns: int, element_bytes: int, mn_major: bool) -> np.ndarray:
    """Byte addresses of an operand's elements.

    Args:
        desc: a decoded descriptor.
        rows: extent along M or N.
        columns: extent along K.
        element_bytes: 1, 2 or 4.
        mn_major: the transpose bit of the instruction descriptor.

    Returns:
        int64 (rows, columns) of addresses in the shared window. `ValueError` where width, major-ness and
        swizzle do not go together (PTX manual: MN-major 32-bit elements need 128B_atom32, and nothing else
        may have it).
    """
    if element_bytes not in (1, 2, 4):
        raise ValueError(f"elements of {element_bytes} bytes cannot be addressed one by one: 1, 2 or 4")
    if mn_major and (desc.swizzle == "128B_atom32") != (element_bytes == 4):
        raise ValueError(f"MN-major elements of {8 * element_bytes} bits cannot have swizzle {desc.swizzle}")
    per_chunk = 16 // element_bytes
    if mn_major:
        row = np.arange(rows)
        chunks = mn_chunk_offsets(desc, -(-rows // per_chunk) * 16, columns)
        return (chunks[row // per_chunk] << 4) + (row % per_chunk)[:, None] * element_bytes
    column = np.arange(columns)
    chunks = chunk_offsets(desc, rows, -(-columns // per_chunk) * 16)
    return (chunks[:, column // per_chunk] << 4) + (column % per_chunk) * element_bytes


def _finish(desc: SharedDescriptor, relative: np.ndarray) -> np.ndarray:
    """Add the start, apply the XOR (a line has 8 chunks) and freeze."""
    chunk = relative + (desc.start >> 4)
    chunk ^= chunk_xor(desc.swizzle, chunk >> 3, desc.base_offset)
    chunk.flags.writeable = False
    return chunk


def _refuse_absolute(desc: SharedDescriptor) -> None:
    if desc.lbo_absolute:
        raise ValueError("an absolute leading-dimension address is for sm_103 and later only")
