"""Floating-point semantics (PTX manual, "Floating Point Instructions", half precision and mixed precision included).

Registers hold bit patterns. ``.rn`` of f16, f32 and f64 is numpy's own arithmetic: nearest even, subnormals kept.
Everything else is computed in float64, exactly or rounded to odd, and rounded once (see `rounding`). NaN results are
the canonical NaN of the manual (0x7FFFFFFF for f32).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from convc.machine.base.values import (
    DTYPE,
    ArrayFunction,
    Binary,
    Function,
    OneToFourArrays,
    Operator,
    Unary,
    UnaryArray,
    Value,
    array,
    floats,
    from_floats,
    lifted,
)
from convc.machine.isa.float import rounding
from convc.machine.isa.float.rounding import FORMATS

CANONICAL_NAN = {16: 0x7FFF, 32: 0x7FFFFFFF, 64: 0x7FFFFFFFFFFFFFFF}
PLAIN: dict[str, Operator] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


def canonical(result: np.ndarray | np.floating, bits: int) -> Value:
    """A float result as bits, every NaN the canonical one."""
    out = from_floats(result, bits)
    if isinstance(out, np.ndarray):
        largest = np.maximum.reduce(result, axis=None)
        if largest == largest:  # a NaN is the largest of all to numpy; one pass instead of two
            return out
        return np.where(np.isnan(result), DTYPE[bits].type(CANONICAL_NAN[bits]), out)
    return CANONICAL_NAN[bits] if np.isnan(result) else out


def native(op: Operator, bits: int) -> Binary:
    """add, sub, mul of f16, f32 or f64 in numpy's arithmetic, round to nearest even."""

    return lambda a, b: canonical(op(floats(a, bits), floats(b, bits)), bits)


def arithmetic(name: str, kind: str, mode: str = "rn") -> Function:
    """add, sub, mul, fma, div, rcp or sqrt of one floating type, correctly rounded by ``mode`` (rn rz rm rp)."""
    form = FORMATS[kind]
    if name in PLAIN and mode == "rn" and kind != "bf16":
        return native(PLAIN[name], form.bits)
    if (name, kind, mode) == ("fma", "f32", "rn"):
        return lifted(_fused_single, 32, 32, 32)
    compute: ArrayFunction
    if kind == "f64":
        compute = _NATIVE_DOUBLE[name] if mode == "rn" and name != "fma" else rounding.double_operation(name, mode)
    else:
        compute = _COMPUTE[name]
    down = mode == "rm" and name in ("add", "sub", "fma") and kind != "f64"

    def run(*operands: np.ndarray) -> np.ndarray:
        x = [rounding.decode(operand, kind) for operand in operands]
        exact = np.asarray(compute(*x))
        result = rounding.rounded(exact, kind, mode)
        if down:
            result = np.where((exact == 0) & ~_both_positive(name, x), -0.0, result)
        return rounding.encode(result, kind)

    widths = {"fma": 3, "rcp": 1, "sqrt": 1}.get(name, 2)
    return lifted(run, *[form.bits] * widths)


def _fused_single(*operands: np.ndarray) -> np.ndarray:
    """fma.rn.f32: the sum of the exact product in float64, rounded once more.

    To round twice goes wrong only where the first sum lies halfway between two numbers of float32, or below the normal
    ones, which are further apart: such a sum is rounded to odd first.
    """
    a, b, c = (operand.view(np.float32).astype(np.float64) for operand in operands)
    total = np.asarray(a * b + c)
    halfway = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    small = (np.abs(total) < _SMALLEST) & (total != 0)
    if np.count_nonzero(halfway | small):
        total = rounding.odd_sum(a * b, c)
    return np.asarray(canonical(total.astype(np.float32), 32))


_SMALLEST = float(np.finfo(np.float32).tiny)
"""The smallest normal number of float32."""

_NATIVE_DOUBLE: dict[str, OneToFourArrays] = {"div": np.true_divide, "sqrt": np.sqrt, "rcp": lambda a: 1.0 / a}

_COMPUTE: dict[str, OneToFourArrays] = {
    "add": rounding.odd_sum,
    "sub": lambda a, b: rounding.odd_sum(a, -b),
    "mul": operator.mul,
    "fma": lambda a, b, c: rounding.odd_sum(a * b, c),
    "div": rounding.odd_quotient,
    "rcp": lambda a: rounding.odd_quotient(np.ones(1), a),
    "sqrt": rounding.odd_root,
}
"""In float64: exact or rounded to odd, for operands of at most 24 bits."""


def _both_positive(name: str, x: list[np.ndarray]) -> np.ndarray:
    """Where an exact zero sum has two terms with positive sign: it stays +0 even when rounding down."""
    first = x[0] * x[1] if name == "fma" else x[0]
    second = -x[1] if name == "sub" else x[-1]
    return ~np.signbit(first) & ~np.signbit(second)


# ---- modifiers --------------------------------------------------------------------------------------------


def flush(bits: int) -> Unary:
    """.ftz: subnormal numbers become zero of the same sign (f16 and f32; the other widths are left alone)."""
    if bits not in (16, 32):
        return lambda value: value
    fraction = 10 if bits == 16 else 23
    sign = 1 << (bits - 1)
    field = ((1 << (bits - 1)) - 1) >> fraction << fraction

    def run(value: Value) -> Value:
        if isinstance(value, np.ndarray):
            part = value.dtype.type
            return np.where(value & part(field) == 0, value & part(sign), value)
        return value if value & field else value & sign

    return run


def saturate(kind: str) -> Unary:
    """.sat: clamp to [0, 1]; NaN becomes +0."""
    one = rounding.encode(np.ones(1), kind)

    def run(value: np.ndarray) -> np.ndarray:
        x = rounding.decode(value, kind)
        return np.where(x > 0, np.where(x > 1, one, value), value.dtype.type(0))

    return lifted(run, FORMATS[kind].bits)


def relu(kind: str) -> Unary:
    """.relu: negative numbers become +0; NaN stays."""

    def run(value: np.ndarray) -> np.ndarray:
        x = rounding.decode(value, kind)
        return np.where((x > 0) | np.isnan(x), value, value.dtype.type(0))

    return lifted(run, FORMATS[kind].bits)


def modified(function: Function, kind: str, options: set[str]) -> Function:
    """``function`` with .ftz of operands and result, .sat and .relu as ``options`` say."""
    if "ftz" in options:
        function = _flushing(function, FORMATS[kind].bits)
    after: list[Unary] = []
    if "sat" in options:
        after.append(saturate(kind))
    if "relu" in options:
        after.append(relu(kind))
    if not after:
        return function

    def run(*operands: Value) -> Value:
        value = function(*operands)
        for step in after:
            value = step(value)
        return value

    return run


def _flushing(function: Function, bits: int) -> Function:
    flushed = flush(bits)

    def run(*operands: Value) -> Value:
        return flushed(function(*[flushed(operand) for operand in operands]))

    return run


# ---- bits and order ---------------------------------------------------------------------------------------


def sign_bit(bits: int, flip: bool) -> Unary:
    """neg (flip the sign) and abs (clear it)."""
    top = 1 << (bits - 1)

    def run(a: Value) -> Value:
        if isinstance(a, np.ndarray):
            return a ^ DTYPE[bits].type(top) if flip else a & DTYPE[bits].type(top - 1)
        return a ^ top if flip else a & (top - 1)

    return run


def copysign(bits: int) -> Function:
    """copysign d, a, b: the sign of a on the magnitude of b."""
    top = 1 << (bits - 1)

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        part = DTYPE[bits].type
        return (a & part(top)) | (b & part(top - 1))

    return lifted(run, bits, bits)


def extreme(largest: bool, kind: str, options: frozenset[str] | set[str] = frozenset()) -> Function:
    """min and max of two: a NaN gives the other operand (with "NaN" in the options: NaN); -0 is below +0.

    "xorsign": of the magnitudes, with the exclusive or of the signs.
    """
    bits = FORMATS[kind].bits
    part: Any = DTYPE[bits].type
    top = 1 << (bits - 1)
    either = "NaN" in options
    choose = EXTREME[largest, either]
    held = np.asarray(CANONICAL_NAN[bits], DTYPE[bits])

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        x = _comparable(a, kind)
        y = _comparable(b, kind)
        found = np.asarray(choose(x, y))
        out = (found.view(np.uint32) >> np.uint32(16)).astype(np.uint16) if kind == "bf16" else found.view(DTYPE[bits])
        if not np.logical_and.reduce(found, axis=None):  # numpy does not tell zeros apart
            out = np.where(x == y, (a & b) if largest else (a | b), out)
        highest = np.maximum.reduce(found, axis=None)
        if highest == highest:
            return out
        first = np.isnan(x)
        second = np.isnan(y)
        if either:
            return np.where(first | second, held, out)
        return np.where(first, np.where(second, held, b), np.where(second, a, out))

    def by_magnitude(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        out = run(a & part(top - 1), b & part(top - 1))
        return np.where(out == held, held, out | ((a ^ b) & part(top)))

    return lifted(by_magnitude if "xorsign" in options else run, bits, bits)


EXTREME = {(True, False): np.fmax, (False, False): np.fmin, (True, True): np.maximum, (False, True): np.minimum}
"""numpy's function by (largest, whether one NaN makes a NaN)."""


def _comparable(bits: np.ndarray, kind: str) -> np.ndarray:
    """Bit patterns as numbers that numpy compares."""
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.view({16: np.float16, 32: np.float32, 64: np.float64}[FORMATS[kind].bits])


FLOAT_COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compare(name: str, kind: str) -> Function:
    """Ordered comparisons (eq ne lt le gt ge), the unordered ones (equ neu ltu leu gtu geu), num and nan."""
    bits = FORMATS[kind].bits

    def view(value: Value) -> np.ndarray | np.floating:
        return _comparable(array(value, bits), kind) if kind == "bf16" else floats(value, bits)

    def run(a: Value, b: Value) -> Value:
        x = view(a)
        y = view(b)
        unordered = np.isnan(x) | np.isnan(y)
        if name == "num":
            out = ~unordered
        elif name == "nan":
            out = unordered
        elif name in FLOAT_COMPARE:
            out = FLOAT_COMPARE[name](x, y) & ~unordered
        else:
            out = FLOAT_COMPARE[name[:-1]](x, y) | unordered
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return out
        return bool(np.asarray(out).reshape(-1)[0])

    return run


TESTS: dict[str, UnaryArray] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny),
    "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny),
}


def has_property(name: str, kind: str) -> Function:
    """testp: which kind of number it is."""

    def run(a: np.ndarray) -> np.ndarray:
        return TESTS[name](_comparable(a, kind))

    return lifted(run, FORMATS[kind].bits)
