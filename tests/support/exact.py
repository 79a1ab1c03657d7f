"""Rounding done slowly and plainly, with fractions: an oracle for floating-point instructions."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np

KINDS = {
    "f16": (11, -14, 65504), "bf16": (8, -126, (2 - 2**-7) * 2**127), "f32": (24, -126, (2 - 2**-23) * 2**127),
    "f64": (53, -1022, ((2 - 2**-52) * 2**1023)), "tf32": (11, -126, (2 - 2**-10) * 2**127),
}  # fmt: skip
"""Bits of the significand, smallest normal exponent, largest finite number."""
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "tf32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "tf32": np.float32}


def decode(bits: int, kind: str) -> float:
    """Bit pattern to a Python float (exact)."""
    dtype = np.dtype(NUMPY[kind])
    return float(np.array([bits], f"u{dtype.itemsize}").view(dtype)[0])


def encode(value: float, kind: str) -> int:
    """A number that the format has to its bit pattern; every NaN is the canonical one."""
    if value != value:
        return NAN[kind]
    dtype = np.dtype(NUMPY[kind])
    return int(np.array([value]).astype(dtype).view(f"u{dtype.itemsize}")[0])


def round_to(exact: Fraction, kind: str, mode: str, zero: float = 0.0) -> float:
    """A fraction rounded to a format; ``zero`` is the signed zero to use when it is exactly 0."""
    if exact == 0:
        return zero
    precision, low, largest = KINDS[kind]
    magnitude = abs(exact)
    exponent = _exponent(magnitude, low)
    unit = Fraction(2) ** (exponent - precision + 1)
    count = magnitude / unit
    down = count.numerator // count.denominator
    rest = count - down
    negative = exact < 0
    if mode == "rn":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2)
    elif mode == "rna":
        up = rest >= Fraction(1, 2)
    else:
        up = rest > 0 and mode == ("rm" if negative else "rp")
    result = (down + bool(up)) * unit
    if result > largest:
        finite = mode == "rz" or mode == ("rp" if negative else "rm")
        result = largest if finite else math.inf
    return -float(result) if negative else float(result)


def _exponent(magnitude: Fraction, low: int) -> int:
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    return max(exponent, low)


def flush(bits: int, kind: str) -> int:
    """A subnormal number to zero of its sign."""
    precision, _, _ = KINDS[kind]
    width = BITS[kind]
    field = (1 << (width - 1)) - (1 << (precision - 1))
    return bits if bits & field else bits & 1 << (width - 1)


def f32(value: float) -> int:
    """Bits of a number as float32."""
    return struct.unpack("<I", struct.pack("<f", value))[0]
