"""Number formats of at most 8 bits: the value of every bit pattern.

| format | sign, exponent, mantissa | special values |
| --- | --- | --- |
| e4m3 | 1, 4, 3 | NaN where all bits but the sign are set; no infinity, largest 448 |
| e5m2 | 1, 5, 2 | as IEEE 754 |
| e2m3, e3m2, e2m1 | 1, 2, 3; 1, 3, 2; 1, 2, 1 | none |
| ue8m0 | scale factor 2^(x - 127) | NaN where all bits are set |
| ue4m3 | scale factor: the magnitude of e4m3, bit 7 has no effect | NaN as e4m3 |

Subnormals are kept. Sources: OCP formats; microsoft/MMA-Sim for special values.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

TYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn, "ue8m0": ml_dtypes.float8_e8m0fnu,
    "u8": np.uint8, "s8": np.int8,
}  # fmt: skip
"""numpy type of each format; it takes one byte, whatever the format."""

CODE_BITS = {"e2m3": 6, "e3m2": 6, "e2m1": 4}
"""Bits of a code, where they are not 8."""


@cache
def table(name: str) -> np.ndarray:
    """float32 (codes,): value of every bit pattern of a format."""
    if name == "ue4m3":
        return np.tile(np.abs(table("e4m3")[:128]), 2)
    codes = np.arange(1 << CODE_BITS.get(name, 8), dtype=np.uint8)
    return codes.view(TYPES[name]).astype(np.float32)
