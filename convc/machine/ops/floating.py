"""Floating-point semantics (PTX manual, "Floating Point Instructions" and "cvt").

Registers hold bit patterns; numpy computes in the type's own precision, round to nearest even, subnormals kept: that is
what ``.rn`` without ``.ftz`` means. NaN results are the canonical NaN of the manual (0x7FFFFFFF for f32).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.machine.values import DTYPE, MASK, Value, array, floats, from_floats, signed

CANONICAL_NAN = {16: 0x7FFF, 32: 0x7FFFFFFF, 64: 0x7FFFFFFFFFFFFFFF}


def _canonical(result, bits: int) -> Value:
    out = from_floats(result, bits)
    if isinstance(out, np.ndarray):
        nan = np.isnan(result)
        return np.where(nan, DTYPE[bits].type(CANONICAL_NAN[bits]), out) if nan.any() else out
    return CANONICAL_NAN[bits] if np.isnan(result) else out


def arithmetic(op: Callable, bits: int) -> Callable[..., Value]:
    """add, sub, mul of one floating type."""

    def run(a: Value, b: Value) -> Value:
        with np.errstate(all="ignore"):
            return _canonical(op(floats(a, bits), floats(b, bits)), bits)

    return run


def fused(bits: int) -> Callable[..., Value]:
    """fma: one rounding. f32 and f16 compute the product exactly in float64; f64 is done with integers of any size."""

    def run(a: Value, b: Value, c: Value) -> Value:
        with np.errstate(all="ignore"):
            if bits == 64:
                exact = np.vectorize(_fma64, otypes=[np.float64])
                return _canonical(np.asarray(exact(floats(a, 64), floats(b, 64), floats(c, 64))), 64)
            x, y, z = (np.asarray(floats(v, bits), np.float64) for v in (a, b, c))
            total = _round_odd(x * y, z)
            result = total.astype(np.float32 if bits == 32 else np.float16)
            return _canonical(result if result.ndim else result[()], bits)

    return run


def _round_odd(product: np.ndarray, addend: np.ndarray) -> np.ndarray:
    """product + addend in float64, rounded to odd, so that a second rounding to a narrower type is the right one.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd" (2008).
    """
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    bits = total.view(np.int64) if isinstance(total, np.ndarray) else np.asarray(total).view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, (bits + step), bits).view(np.float64)


def _fma64(a: float, b: float, c: float) -> float:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return a * b + c
    from fractions import Fraction

    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return float(a) * float(b) + float(c)
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def extreme(largest: bool, bits: int) -> Callable[..., Value]:
    """min and max: a NaN operand gives the other one."""
    op = np.fmax if largest else np.fmin

    def run(a: Value, b: Value) -> Value:
        with np.errstate(all="ignore"):
            return _canonical(op(floats(a, bits), floats(b, bits)), bits)

    return run


def sign_bit(bits: int, flip: bool) -> Callable[[Value], Value]:
    """neg (flip the sign) and abs (clear it)."""
    top = 1 << (bits - 1)

    def run(a: Value) -> Value:
        if isinstance(a, np.ndarray):
            return a ^ DTYPE[bits].type(top) if flip else a & DTYPE[bits].type(top - 1)
        return a ^ top if flip else a & (top - 1)

    return run


FLOAT_COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compare(name: str, bits: int) -> Callable[..., Value]:
    """Ordered comparisons (eq ne lt le gt ge), the unordered ones (equ neu ltu leu gtu geu), num and nan."""

    def run(a: Value, b: Value) -> Value:
        x, y = floats(a, bits), floats(b, bits)
        unordered = np.isnan(x) | np.isnan(y)
        if name == "num":
            out = ~unordered
        elif name == "nan":
            out = unordered
        elif name in FLOAT_COMPARE:
            out = FLOAT_COMPARE[name](x, y) & ~unordered
        else:
            out = FLOAT_COMPARE[name[:-1]](x, y) | unordered
        return out if isinstance(out, np.ndarray) else bool(out)

    return run


# ---- conversions ---------------------------------------------------------------------------------------------------


def round_bf16(value: np.ndarray) -> np.ndarray:
    """float32 to bfloat16 bits (uint16), round to nearest even; NaN becomes 0x7FFF."""
    bits = np.ascontiguousarray(value, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(value), np.uint16(0x7FFF), rounded)


def to_float64(value: Value, type_name: str) -> np.ndarray:
    """Any number type to float64 (exact but for 64-bit integers)."""
    if type_name == "bf16":
        return (array(value, 16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    bits = int(type_name[1:])
    wide = array(value, bits)
    if type_name[0] == "f":
        return wide.view({16: np.float16, 32: np.float32, 64: np.float64}[bits]).astype(np.float64)
    return (signed(wide, bits) if type_name[0] == "s" else wide).astype(np.float64)


def float_to_float(value: Value, source: str, target: str) -> Value:
    """cvt between floating types with round to nearest even (exact when widening)."""
    with np.errstate(all="ignore"):
        if target == "bf16":
            if source == "f64":
                return round_bf16(_double_to_single_odd(to_float64(value, source)))
            return round_bf16(to_float64(value, source).astype(np.float32))
        bits = int(target[1:])
        if source == "f32" and bits == 16:
            return _canonical(array(value, 32).view(np.float32).astype(np.float16), 16)
        return _canonical(
            to_float64(value, source).astype({16: np.float16, 32: np.float32, 64: np.float64}[bits]), bits
        )


def _double_to_single_odd(value: np.ndarray) -> np.ndarray:
    single = value.astype(np.float32)
    bits = single.view(np.int32)
    back = single.astype(np.float64)
    inexact = np.isfinite(value) & (back != value) & (bits & 1 == 0)
    step = np.where((np.abs(value) > np.abs(back)), 1, -1).astype(np.int32)
    return np.where(inexact, bits + step, bits).view(np.float32)


ROUND_INTEGER: dict[str, Callable] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def float_to_integer(value: Value, source: str, target: str, rounding: str) -> Value:
    """cvt to an integer: rounded as asked, clamped to the target's range, NaN to zero."""
    bits = int(target[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if target[0] == "s" else (0, MASK[bits])
    number = ROUND_INTEGER[rounding](to_float64(value, source))
    exact = np.vectorize(
        lambda x: 0 if x != x else (high if x >= high else low if x <= low else int(x)) & MASK[bits],
        otypes=[np.uint64],
    )
    return exact(number).astype(DTYPE[bits])


def integer_to_float(value: Value, source: str, target: str) -> Value:
    """cvt from an integer, round to nearest even."""
    bits = int(source[1:])
    wide = array(value, bits)
    number = signed(wide, bits) if source[0] == "s" else wide
    if target == "f32":
        return number.astype(np.float32).view(np.uint32)
    if target == "f64":
        return number.astype(np.float64).view(np.uint64)
    return float_to_float(number.astype(np.float32).view(np.uint32), "f32", target)


def pack_halves(high: Value, low: Value, target: str, relu: bool) -> np.ndarray:
    """cvt.rn.{f16x2,bf16x2}.f32 d, a, b: a goes to the upper half, b to the lower."""
    x, y = (np.asarray(floats(v, 32)) for v in (high, low))
    shape = np.broadcast_shapes(x.shape, y.shape, (1, 1, 1))
    pair = np.empty((*shape, 2), np.float32)
    pair[..., 0], pair[..., 1] = y, x
    if relu:
        pair = (
            np.where(pair > 0, pair, np.float32(0))
            if not np.isnan(pair).any()
            else np.where(np.isnan(pair) | (pair > 0), pair, np.float32(0))
        )
    with np.errstate(over="ignore"):
        half = pair.astype(np.float16).view(np.uint16) if target == "f16x2" else round_bf16(pair)
    if np.isnan(pair).any():
        half = np.where(np.isnan(pair), np.uint16(0x7FFF), half)
    return half.view(np.uint32)[..., 0]
