"""What a tensor copy reads: global memory as 16-byte chunks, as it arrives in shared memory.

Every address a copy computes is a multiple of 16 (the encoders see to that), so a chunk is the unit of all
moves; numpy moves one as a complex128 without ever computing with it.
"""

from __future__ import annotations

import numpy as np

from convc.ir.tensormap import PADDED, TensorMap
from convc.machine.tma.layout import BoxLayout

CHUNK = np.dtype(np.complex128)

FILL = {"zero": np.zeros(1, CHUNK), "nan": np.full(8, 0x7FF7, np.uint16).view(CHUNK)}
"""A chunk of out-of-bounds elements. NaN is 0x7FF7 in every 16 bits whatever the type is (recorded, also for
bf16, f64 and tf32, where it is not rounded)."""


def round_tf32(bits: np.ndarray) -> np.ndarray:
    """What a copy with element type tf32 makes of float32 bits (uint32 in, uint32 out).

    Nearest tf32, ties to even; subnormals are kept, overflow gives infinity, every NaN becomes 0x7FFFE000.
    Recorded on an H200: 8448 patterns, ties, subnormals, overflows and NaNs among them
    (``tests/recordings``); Triton states the same rounding, tested on sm_120. (``cvt.rna.tf32`` rounds ties
    away from zero instead.)
    """
    rounded = (bits + (np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1)))) & np.uint32(0xFFFFE000)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(nan, np.uint32(0x7FFFE000), rounded)


def source_chunks(tmap: TensorMap, memory: np.ndarray) -> np.ndarray:
    """Chunks of the tensor, from its first byte on: a view of ``memory`` where it can be, else a copy.

    It is a copy where the tensor's memory does not start and end on 16-byte boundaries, and for tf32 tensors
    with values that rounding changes. The ftz types load like those without: only reductions flush (recorded).
    """
    data = memory[tmap.offset : tmap.offset + -(-tmap.tensor_bytes // 16) * 16]
    if data.size % 16 or data.ctypes.data % 16:
        whole = np.zeros(-(-data.size // 16), CHUNK)
        whole.view(np.uint8)[: data.size] = data
        data = whole.view(np.uint8)
    if tmap.dtype in ("tf32", "tf32_ftz"):
        words = data.view(np.uint32)
        block = 1 << 18
        if any((words[i : i + block] & np.uint32(0x1FFF)).any() for i in range(0, words.size, block)):
            data = np.concatenate([round_tf32(words[i : i + block]) for i in range(0, words.size, block)])
    return data.view(CHUNK)


def padded_chunks(
    tmap: TensorMap, memory: np.ndarray, base: np.ndarray, place: BoxLayout, taps: tuple[int, ...], lead: int
) -> np.ndarray:
    """Chunks (copies, chunks) of a type that is spread out on its way; the padding, which is undefined, as poison.

    Args:
        base: int64 (copies, rows): where each row starts, in 16-byte units of global memory.
        place: rows and columns of the chunks.
        taps: offset along each outer dimension.
        lead: where the copy starts in dimension 0, in bytes of shared memory.
    """
    data = PADDED[tmap.dtype]
    first = tmap.offset + (lead // 16) * data + sum(t * s for t, s in zip(taps, tmap.strides, strict=True))
    start = base.take(place.row, axis=1) * 16 + (place.column * data + first)
    out = np.full((*start.shape, 16), 0xFF, np.uint8)
    out[..., :data] = memory.take(start[..., None] + np.arange(data), mode="clip")
    return out.view(CHUNK)[..., 0]
