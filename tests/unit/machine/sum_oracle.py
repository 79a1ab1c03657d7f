"""The tensor core's truncated sum in rational numbers, step by step (see `convc.machine.tensor_core.numerics`)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

SMALLEST = {"f32": -126, "f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14, "ue8m0": -127, "ue4m3": -6}
"""Exponent that a subnormal counts with."""


def exponent(x: float, kind: str) -> int:
    if x == 0:
        return -126
    return max(math.frexp(x)[1] - 1, SMALLEST.get(kind, -126))


def cut(x: Fraction) -> int:
    return math.floor(x) if x >= 0 else -math.floor(-x)


def joined(terms: list[tuple[Fraction, int]], bits: int) -> Fraction:
    """One aligned and truncated sum of (value, exponent)."""
    top = max(e for _, e in terms)
    unit = Fraction(2) ** (top - bits)
    return sum(cut(value / unit) for value, _ in terms) * unit


def rounded(x: Fraction, d_type: str) -> float:
    """f32 towards zero, f16 to nearest even."""
    if x == 0:
        return 0.0
    low, fraction, top = (-126, 23, 128) if d_type == "f32" else (-14, 10, 16)
    e = max(math.frexp(float(abs(x)))[1] - 1, low)
    e = next(k for k in (e + 1, e, e - 1) if k <= low or Fraction(2) ** k <= abs(x))
    unit = Fraction(2) ** (e - fraction)
    steps = cut(abs(x) / unit) if d_type == "f32" else round(abs(x) / unit)
    size = steps * unit
    value = math.inf if size >= Fraction(2) ** top else float(size)
    return -value if x < 0 else value


def expected(a, b, c, kinds: tuple[str, str], d_type: str, factors=None) -> np.ndarray:
    """D for float64 operands; ``factors`` adds (exponent, factor) of a row of A and of a column of B."""
    out = np.empty((len(a), len(b)))
    for i in range(len(a)):
        for j in range(len(b)):
            terms = [(Fraction(float(c[i, j])), exponent(float(c[i, j]), d_type))]
            for x, y in zip(a[i].tolist(), b[j].tolist(), strict=True):
                value, e = Fraction(x) * Fraction(y), exponent(x, kinds[0]) + exponent(y, kinds[1])
                if factors is not None:
                    sa, sb = float(factors[0][i]), float(factors[1][j])
                    value, e = value * Fraction(sa) * Fraction(sb), e + exponent(sa, "ue8m0") + exponent(sb, "ue8m0")
                terms.append((value, e))
            out[i, j] = rounded(joined(terms, 25), d_type)
    return out
