"""Integer arithmetic, shifts and comparisons (PTX manual, "Integer Arithmetic", "Logic and Shift", "Comparison").

Each function takes values (see `values`) of one width and returns one. Python ints take the short path; arrays of
unsigned type wrap by themselves.
"""

from __future__ import annotations

import operator

import numpy as np

from convc.machine.base.values import (
    DTYPE,
    MASK,
    SIGNED,
    Binary,
    Operator,
    Unary,
    Value,
    array,
    lifted,
    signed,
    unsigned,
)


def is_signed(type_name: str) -> bool:
    """Whether an instruction type such as ``s32`` is signed."""
    return type_name.startswith("s")


def both_int(a: Value, b: Value) -> bool:
    """Whether both values are plain ints."""
    return not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray)


def wrapping(op: Operator, bits: int) -> Binary:
    """add, sub, mul.lo: modulo 2**bits."""
    mask = MASK[bits]

    def run(a: Value, b: Value) -> Value:
        if isinstance(a, np.ndarray):
            return op(a, b)
        return op(array(a, bits), b) if isinstance(b, np.ndarray) else op(a, b) & mask

    return run


def saturating(op: Operator, bits: int) -> Binary:
    """add.sat and sub.sat of signed numbers: clamped to the type's range."""
    high = MASK[bits] >> 1
    low = -high - 1

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        exact = op(a.view(SIGNED[bits]).astype(np.int64), b.view(SIGNED[bits]).astype(np.int64))
        return np.clip(exact, low, high).astype(SIGNED[bits]).view(DTYPE[bits])

    return lifted(run, bits, bits)


def clamped_below(function: Binary, bits: int) -> Binary:
    """min.relu and max.relu: a negative result becomes zero."""
    largest = extreme(bits, True, True)
    return lambda a, b: largest(function(a, b), 0)


def invert(bits: int) -> Unary:
    """not."""
    mask = MASK[bits]

    def run(a: Value) -> Value:
        if isinstance(a, np.ndarray):
            return ~a
        return not a if bits == 1 else ~int(a) & mask

    return run


def shift_left(bits: int) -> Binary:
    """shl: shift amounts of the register width or more give zero."""
    mask = MASK[bits]

    def run(a: Value, b: Value) -> Value:
        if both_int(a, b):
            return (a << b) & mask if b < bits else 0
        if not isinstance(b, np.ndarray):
            return a << DTYPE[bits].type(b) if b < bits else 0
        a = array(a, bits)
        return np.where(b < bits, a << (b & np.uint32(bits - 1)).astype(a.dtype), a.dtype.type(0))

    return run


def shift_right(bits: int, keep_sign: bool) -> Binary:
    """shr: amounts beyond the width give zero, or the sign."""

    def run(a: Value, b: Value) -> Value:
        if both_int(a, b):
            if keep_sign:
                return unsigned(signed(a, bits) >> min(b, bits - 1), bits)
            return a >> b if b < bits else 0
        a = array(a, bits)
        if keep_sign:
            amount = np.minimum(b, bits - 1).astype(SIGNED[bits])
            return (a.view(SIGNED[bits]) >> amount).view(DTYPE[bits])
        if not isinstance(b, np.ndarray):
            return a >> DTYPE[bits].type(b) if b < bits else 0
        return np.where(b < bits, a >> (b & np.uint32(bits - 1)).astype(a.dtype), a.dtype.type(0))

    return run


def multiply_wide(bits: int, is_signed_type: bool) -> Binary:
    """mul.wide: the full product in twice the width."""

    def run(a: Value, b: Value) -> Value:
        if both_int(a, b):
            if is_signed_type:
                a, b = signed(a, bits), signed(b, bits)
            return (a * b) & MASK[2 * bits]
        a, b = extend(a, bits, 2 * bits, is_signed_type), extend(b, bits, 2 * bits, is_signed_type)
        return wrapping(operator.mul, 2 * bits)(a, b)

    return run


def multiply_high(bits: int, is_signed_type: bool) -> Binary:
    """mul.hi: the upper half of the full product."""

    def run(a: Value, b: Value) -> Value:
        if both_int(a, b):
            if is_signed_type:
                a, b = signed(a, bits), signed(b, bits)
            return ((a * b) >> bits) & MASK[bits]
        if bits == 64:
            exact = np.vectorize(_upper_half, otypes=[np.uint64])
            return exact(_as_read(a, bits, is_signed_type), _as_read(b, bits, is_signed_type))
        wide = multiply_wide(bits, is_signed_type)(a, b)
        return (wide >> DTYPE[2 * bits].type(bits)).astype(DTYPE[bits])

    return run


def _upper_half(x: np.integer, y: np.integer) -> int:
    return ((int(x) * int(y)) >> 64) & MASK[64]


def _as_read(value: Value, bits: int, is_signed_type: bool) -> Value:
    return signed(value, bits) if is_signed_type else value


def extend(value: Value, bits: int, to: int, is_signed_type: bool) -> Value:
    """Zero- or sign-extend (or cut) to another width."""
    if isinstance(value, np.ndarray):
        if is_signed_type and to > bits:
            return value.view(SIGNED[bits]).astype(SIGNED[to]).view(DTYPE[to])
        return value.astype(DTYPE[to])
    return (signed(value, bits) if is_signed_type else value) & MASK[to]


def cut(value: Value, bits: int) -> Value:
    """The low bits of a register that may be wider than an instruction's type."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.itemsize * 8 == bits else value.astype(DTYPE[bits])
    return value & MASK[bits]


def divide(bits: int, is_signed_type: bool, remainder: bool, by_zero: str) -> Binary:
    """div and rem, truncated toward zero. By zero (unspecified): what the switch ``divide_by_zero`` says."""
    given_by_zero = MASK[bits] if by_zero == "ones" else 0

    def of_ints(a: int, b: int) -> int:
        if b == 0:
            return given_by_zero
        if is_signed_type:
            x = signed(a, bits)
            y = signed(b, bits)
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return (x - quotient * y if remainder else quotient) & MASK[bits]
        return a % b if remainder else a // b

    def run(a: Value, b: Value) -> Value:
        if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
            return of_ints(a, b)
        if isinstance(a, np.ndarray) and not isinstance(b, np.ndarray) and b and not is_signed_type:
            by = a.dtype.type(b)
            return a % by if remainder else a // by
        a, b = np.broadcast_arrays(array(a, bits), array(b, bits))
        x, y = (magnitude(a, bits), magnitude(b, bits)) if is_signed_type else (a, b)
        quotient = x // np.where(y == 0, y.dtype.type(1), y)
        if is_signed_type:
            differ = (a ^ b) >> a.dtype.type(bits - 1) != 0
            quotient = np.where(differ, -quotient, quotient)
        return np.where(b == 0, a.dtype.type(given_by_zero), a - quotient * b if remainder else quotient)

    return run


def magnitude(value: np.ndarray, bits: int) -> np.ndarray:
    """Absolute value of a signed number as an unsigned one (so that the most negative number has one too)."""
    return np.where(value >> value.dtype.type(bits - 1) != 0, -value, value)


def extreme(bits: int, is_signed_type: bool, largest: bool) -> Binary:
    """min and max."""

    def run(a: Value, b: Value) -> Value:
        if both_int(a, b):
            x, y = (signed(a, bits), signed(b, bits)) if is_signed_type else (a, b)
            return (max(x, y) if largest else min(x, y)) & MASK[bits]
        x, y = (_as_read(array(value, bits), bits, is_signed_type) for value in (a, b))
        return (np.maximum(x, y) if largest else np.minimum(x, y)).view(DTYPE[bits])

    return run


COMPARE: dict[str, Operator] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
"""Comparison operators of setp and set on integers (lo, ls, hi, hs are the unsigned spellings)."""


def compare(name: str, bits: int, is_signed_type: bool) -> Binary:
    """An integer comparison giving a predicate."""
    op = COMPARE[name]
    view = is_signed_type and name not in ("lo", "ls", "hi", "hs")

    def run(a: Value, b: Value) -> Value:
        if view:
            a, b = signed(a, bits), signed(b, bits)
        return op(a, b)

    return run


def select(a: Value, b: Value, predicate: Value, bits: int) -> Value:
    """selp: a where the predicate holds, else b."""
    if not isinstance(predicate, np.ndarray):
        return a if predicate else b
    return np.where(predicate, array(a, bits), array(b, bits))
