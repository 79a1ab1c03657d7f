"""Floating-point formats and exact rounding between them.

Everything narrower than float64 is computed in float64 and rounded once: `rounded` takes a float64 that is either the
exact result or one that was rounded to odd (its last bit says "inexact"; Boldo and Melquiond 2008), and gives the
neighbour in the format that the rounding mode asks for. Float64 itself, with directed rounding, uses fractions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from convc.machine.base.narrow_formats import table
from convc.machine.base.values import DTYPE, FLOAT, UnaryArray


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format.

    Attributes:
        precision: bits of the significand, the hidden one included. low: exponent of the smallest normal number.
        largest: the largest finite number. bits: storage. infinite: whether it has infinities.
        nan: bit pattern of the NaN that results have; that of the largest number where the format has no NaN.
    """

    precision: int
    low: int
    largest: float
    bits: int
    infinite: bool
    nan: int


FORMATS = {
    "f64": Format(53, -1022, float(np.finfo(np.float64).max), 64, True, 0x7FFFFFFFFFFFFFFF),
    "f32": Format(24, -126, float(np.finfo(np.float32).max), 32, True, 0x7FFFFFFF),
    "tf32": Format(11, -126, float.fromhex("0x1.ffcp127"), 32, True, 0x7FFFFFFF),
    "f16": Format(11, -14, 65504.0, 16, True, 0x7FFF),
    "bf16": Format(8, -126, float.fromhex("0x1.fep127"), 16, True, 0x7FFF),
    "e4m3": Format(4, -6, 448.0, 8, False, 0x7F),
    "e5m2": Format(3, -14, 57344.0, 8, True, 0x7F),
    "e2m3": Format(4, 0, 7.5, 6, False, 0x1F),
    "e3m2": Format(3, -2, 28.0, 6, False, 0x1F),
    "e2m1": Format(2, 0, 6.0, 4, False, 0x07),
}
"""Formats of PTX (manual, 5.2.3 "Alternate floating-point data formats"); NaN patterns as in "cvt" and 9.7.3."""

TO_INTEGER: dict[str, UnaryArray] = {
    "rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip
"""Rounding to an integer by rounding mode; rna: to nearest, ties away from zero."""

_TO_LARGEST: dict[str, UnaryArray] = {"rz": lambda x: x == x, "rm": lambda x: x > 0, "rp": lambda x: x < 0}
_NOWHERE: UnaryArray = np.isnan
"""Where an overflow gives the largest finite number instead of an infinity."""


def rounded(value: np.ndarray, format_name: str, mode: str = "rn", saturate: bool = False) -> np.ndarray:
    """float64 to the nearest number of a format by ``mode``, still as float64. ``saturate``: never an infinity."""
    form = FORMATS[format_name]
    if format_name == "f64":
        return value
    if mode == "rn" and not saturate and format_name == "f32":  # what a conversion does
        with np.errstate(all="ignore"):
            return value.astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(value)
        quantum = np.maximum(exponent - form.precision, form.low - form.precision + 1)
        scaled = np.ldexp(value, -quantum)
        result = np.where(np.isfinite(value), np.ldexp(TO_INTEGER[mode](scaled), quantum), value)
        over = np.abs(result) > form.largest
        if over.any():
            limit = np.copysign(form.largest, result)
            if saturate or not form.infinite:
                keep = over
            else:
                keep = over & np.isfinite(value) & _TO_LARGEST.get(mode, _NOWHERE)(result)
            result = np.where(keep, limit, np.where(over, np.copysign(np.inf, result), result))
    return result


def encode(value: np.ndarray, format_name: str) -> np.ndarray:
    """Numbers of a format, given as float64, to its bit patterns (unsigned array; 8-bit for the narrow ones)."""
    form = FORMATS[format_name]
    with np.errstate(all="ignore"):
        if format_name in ("f16", "f32", "f64"):
            bits = value.astype(FLOAT[form.bits]).view(DTYPE[form.bits])
        elif format_name == "tf32":
            bits = value.astype(np.float32).view(np.uint32)
        elif format_name == "bf16":
            bits = (value.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        else:
            bits = _encode_narrow(value, form)
    nan = np.isnan(value)
    return np.where(nan, bits.dtype.type(form.nan), bits) if nan.any() else bits


def _encode_narrow(value: np.ndarray, form: Format) -> np.ndarray:
    magnitude = np.abs(np.where(np.isfinite(value), value, 0.0))
    _, exponent = np.frexp(magnitude)
    fraction = form.precision - 1
    exponent = np.maximum(exponent - 1, form.low)
    # The significand as an integer carries its hidden bit, which makes the biased exponent one larger.
    significand = np.ldexp(magnitude, fraction - exponent).astype(np.int64)
    bits = np.where(magnitude == 0, 0, ((exponent - form.low) << fraction) + significand)
    if form.infinite:
        bits = np.where(np.isinf(value), ((1 << (form.bits - 1)) - 1) & ~((1 << fraction) - 1), bits)
    return (bits | (np.signbit(value).astype(np.int64) << (form.bits - 1))).astype(np.uint8)


TABLES = {name: table(name).astype(np.float64) for name in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")}
"""Value of each bit pattern of the narrow formats."""


def decode(bits: np.ndarray, format_name: str) -> np.ndarray:
    """Bit patterns of a format (unsigned array of its storage type) to float64, exactly."""
    if format_name in TABLES:
        return TABLES[format_name][bits & ((1 << FORMATS[format_name].bits) - 1)]
    if format_name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        return bits.view(FLOAT[FORMATS[format_name].bits]).astype(np.float64)


# ---- results to be rounded ---------------------------------------------------------------------------------


def odd(total: np.ndarray, error: np.ndarray) -> np.ndarray:
    """``total`` rounded to odd, where the exact result is total + error and |error| is below one unit of total."""
    bits = np.asarray(total).view(np.int64)
    inexact = np.isfinite(total) & (error != 0)
    toward_zero = inexact & ((error > 0) != (total > 0)) & (total != 0)
    bits = np.where(toward_zero, bits - 1, bits)
    return np.where(inexact, bits | 1, bits).view(np.float64)


def odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b rounded to odd (Knuth's TwoSum gives the error exactly)."""
    with np.errstate(all="ignore"):
        total = np.asarray(a + b)
        part = total - a
        error = (a - (total - part)) + (b - part)
        return odd(total, np.where(np.isfinite(total), error, 0.0))


def odd_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b of float32 values, with its last bit set when inexact: enough for rounding to 24 bits in any mode."""
    with np.errstate(all="ignore"):
        quotient = _cut(np.asarray(a / b))
        error = (a - quotient * b) / b
        return odd(quotient, np.where(np.isfinite(quotient) & (quotient != 0), error, 0.0))


def odd_root(a: np.ndarray) -> np.ndarray:
    """Square root of float32 values, likewise."""
    with np.errstate(all="ignore"):
        root = _cut(np.asarray(np.sqrt(a)))
        error = a - root * root
        return odd(root, np.where(np.isfinite(root) & (root != 0), error, 0.0))


def _cut(value: np.ndarray) -> np.ndarray:
    """Keep 26 bits of the significand, so that products with float32 values are exact."""
    return (np.asarray(value).view(np.int64) & ~((1 << 27) - 1)).view(np.float64)


# ---- float64 in directed modes -----------------------------------------------------------------------------


def nearest_double(exact: Fraction, mode: str) -> float:
    """A fraction as float64 by rounding mode; zero has a positive sign."""
    try:
        near = float(exact)
    except OverflowError:
        near = math.inf if exact > 0 else -math.inf
    if mode == "rn" or near == exact:
        return near
    larger = near == math.inf or (near != -math.inf and Fraction(near) > exact)
    if mode == "rz":
        mode = "rm" if exact > 0 else "rp"
    if mode == "rm":
        return math.nextafter(near, -math.inf) if larger else near
    return near if larger else math.nextafter(near, math.inf)


def nearest_integer(value: int | np.integer, mode: str) -> float:
    """An integer of any size as float64 by rounding mode."""
    return nearest_double(Fraction(int(value)), mode)


def double_operation(name: str, mode: str) -> Callable[..., np.ndarray]:
    """add, sub, mul, fma, div, rcp, sqrt of float64 arrays in any mode, one element after another with fractions."""

    def one(*operands: float) -> float:
        a = [float(x) for x in operands]
        by_zero = name in ("div", "rcp") and a[-1] == 0
        of_negative = name == "sqrt" and a[0] < 0
        if by_zero or of_negative or not all(math.isfinite(x) for x in a):
            with np.errstate(all="ignore"):
                return float(_NATIVE[name](*[np.float64(x) for x in a]))
        if name == "sqrt":
            return _root(a[0], mode)
        exact = _EXACT[name](*[Fraction(x) for x in a])
        if exact == 0:
            return _zero(name, a, mode)
        result = nearest_double(exact, mode)
        return math.copysign(0.0, exact) if result == 0 else result

    return np.vectorize(one, otypes=[np.float64])


def _fused(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _quotient(a: Any, b: Any) -> Any:
    return a / b


def _inverse(a: Any) -> Any:
    return 1 / a


_EXACT: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "fma": _fused, "div": _quotient, "rcp": _inverse,
}  # fmt: skip
_NATIVE: dict[str, Callable[..., np.float64]] = {**_EXACT, "sqrt": np.sqrt}


def _zero(name: str, a: list[float], mode: str) -> float:
    """Sign of an exact zero: of a product or quotient by its factors; of a sum of opposites - only toward minus."""
    product = a[0]
    if name in ("mul", "div", "fma"):
        product = math.copysign(1.0, a[0]) * math.copysign(1.0, a[1]) * 0.0
    if name in ("mul", "div", "rcp"):
        return product
    other = -a[-1] if name == "sub" else a[-1]
    zeros = other == 0 and 0 in (a[:2] if name == "fma" else a[:1])
    if zeros and math.copysign(1, product) == math.copysign(1, other):
        return math.copysign(0.0, other)
    return -0.0 if mode == "rm" else 0.0


def _root(value: float, mode: str) -> float:
    root = math.sqrt(value)
    if root == 0 or mode == "rn":
        return root
    square = Fraction(root) ** 2
    if square > value and mode in ("rz", "rm"):
        return math.nextafter(root, 0.0)
    return math.nextafter(root, math.inf) if square < value and mode == "rp" else root
