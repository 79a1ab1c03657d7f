"""Elements of tensor-core operands: how their bits are packed, and what they are in float32.

Everything is decoded exactly: subnormals are kept, infinities and NaNs stay what they are. Formats of 8 bits and
less go through a table of all their values (`convc.machine.base.narrow_formats`).

Packings of a 16-byte unit of an operand:

| packing | elements | where it occurs |
| --- | --- | --- |
| plain | 16 / size | whole bytes and more |
| padded | 16, in the low 8 (4-bit) or 12 bytes (6-bit), the rest unread | kinds f8f6f4 and mxf8f6f4 in shared memory |
| spread | 16, one per byte: 4-bit in bits 5..2, 6-bit in bits 5..0 or 6..1 | the same kinds in tensor memory |
| packed | 32, even k in the low half of a byte | kinds mxf4 and mxf4nvf4 |

Sources: PTX manual, tcgen05 data types and packing formats; a read-back of decompressed copies on SM100
(mlc-ai/TIRx-harness) for the position of 4- and 6-bit elements. A CUTLASS example puts 6-bit elements in bits 6..1: the
switch ``six_bit``.
"""

from __future__ import annotations

import numpy as np

from convc.machine.base.narrow_formats import table

BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4, "u8": 8, "s8": 8,
}  # fmt: skip
"""Bits that an element takes in dense storage (tf32 in 32-bit words)."""


def packing(kind: str, element: str, in_tensor: bool) -> str:
    """How elements of a type lie in an operand of an instruction of ``kind``."""
    if BITS[element] >= 8:
        return "plain"
    if kind in ("mxf4", "mxf4nvf4"):
        return "packed"
    return "spread" if in_tensor else "padded"


def unit_bytes(element: str, packed_as: str) -> int:
    """Bytes of each 16-byte unit that are read at all."""
    return BITS[element] * 2 if packed_as == "padded" else 16


def codes(units: np.ndarray, element: str, packed_as: str, six_bit: str) -> np.ndarray:
    """uint8 codes (..., elements) from uint8 units (..., 16) of elements below 8 bits."""
    bits = BITS[element]
    if packed_as == "spread":
        low = 2 if bits == 4 else int(six_bit == "high")
        return (units >> low) & ((1 << bits) - 1)
    if bits == 4:
        data = units[..., :8] if packed_as == "padded" else units
        return np.stack([data & 15, data >> 4], axis=-1).reshape(*data.shape[:-1], -1)
    triples = units[..., :12].reshape(*units.shape[:-1], 4, 3).astype(np.uint32)
    word = triples[..., 0] | triples[..., 1] << 8 | triples[..., 2] << 16
    shifts = np.arange(0, 24, 6, dtype=np.uint32)
    return ((word[..., None] >> shifts) & 63).astype(np.uint8).reshape(*units.shape[:-1], 16)


def widen_f16(raw: np.ndarray) -> np.ndarray:
    """float16 bits (uint16) to float32, exactly: shift the fields into place and rescale by 2**112.

    About four times faster than numpy's conversion; infinities and NaNs, which the rescaling would lose, are told by
    their exponent and converted the slow way.
    """
    wide = raw.view(np.int16).astype(np.int32)
    wide <<= 13
    wide &= -0x70002000
    out = wide.view(np.float32)
    out *= np.float32(2.0**112)
    if out.size and (raw & np.uint16(0x7C00)).max() == 0x7C00:
        return raw.view(np.float16).astype(np.float32)
    return out


def widen_bf16(raw: np.ndarray) -> np.ndarray:
    """bfloat16 bits (uint16) to float32: the upper half of the word."""
    wide = raw.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def widen_tf32(raw: np.ndarray) -> np.ndarray:
    """tf32 in 32-bit storage: the low 13 bits are dropped (truncation: microsoft/MMA-Sim)."""
    return (raw & np.uint32(0xFFFFE000)).view(np.float32)


WIDEN = {
    "f16": (np.dtype(np.uint16), widen_f16),
    "bf16": (np.dtype(np.uint16), widen_bf16),
    "tf32": (np.dtype(np.uint32), widen_tf32),
}
"""Storage type and widening function of the large formats."""


def storage(element: str) -> np.dtype:
    """The numpy type that holds one element of a plain packing."""
    return WIDEN[element][0] if element in WIDEN else np.dtype(np.uint8)


def widen(raw: np.ndarray, element: str, packed_as: str, six_bit: str = "low") -> np.ndarray:
    """float32 values of whole 16-byte units.

    Args:
        raw: of any dtype; the last axis is contiguous and holds whole units.
        element, packed_as: see the module's tables.
        six_bit: the switch.

    Returns:
        float32, flat over the elements of the last axis.
    """
    if element in WIDEN:
        kind, function = WIDEN[element]
        return function(raw.view(kind))
    data = np.ascontiguousarray(raw).view(np.uint8)
    if packed_as == "plain":
        return np.take(table(element), data)
    units = data.reshape(*data.shape[:-1], -1, 16)
    found = np.take(table(element), codes(units, element, packed_as, six_bit))
    return found.reshape(*data.shape[:-1], -1)
