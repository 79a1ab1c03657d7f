"""The tensor core's sum, bit for bit: one truncated sum of all products of an instruction.

For every element of D, the K products of the instruction and the addend c are added in one step (dense floating
kinds and mxf8f6f4):

1. products are exact; the exponent of a product is the sum of its factors' exponents, its significand is not
   normalised; a subnormal counts with its format's smallest exponent (e2m1: the switch ``e2m1_exponent``), a zero with
   -126;
2. every term is cut, towards zero, to 25 fractional bits below the largest exponent of all terms;
3. the integers are added exactly, and the sum is rounded once: towards zero to f32, to nearest even to f16.

Kinds mxf4 and mxf4nvf4 add 16 products exactly, multiply each of the four group sums by both scale factors, and add
these terms and c in the same way with 35 fractional bits; a term's exponent is that of its scale factors.

Any NaN, infinity times zero or difference of infinities gives the NaN with all bits but the sign set; other
infinities propagate, and a sum of 2^128 and more becomes infinite.

Sources: microsoft/MMA-Sim (arXiv 2511.10909), compared bit for bit with Blackwell; Khattak and Mikaitis (arXiv
2512.07004) agree except for sums of tiny terms only. Neither tested .ws and CTA pairs: assumed equal. Smallest
exponent of 6-bit formats: assumed to be the format's own. Words that a B200 gave and sf-tensor/tcgen05 published are in
tests/recordings/words_b200.json. Its model and MMA-Sim differ in one thing, the exponent of a subnormal e2m1 number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FRACTION = 25
"""Fractional bits of the aligned terms."""

FRACTION_MXF4 = 35
GROUP = 16
"""Products that kinds mxf4 and mxf4nvf4 add exactly."""

MIN_EXPONENT = {
    "f32": -126, "f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14, "e2m3": 0, "e3m2": -2,
    "e2m1": -126, "ue8m0": -127, "ue4m3": -6,
}  # fmt: skip
"""Exponent of a subnormal, by format. e2m1: the switch ``e2m1_exponent``."""

E2M1_FORMAT_EXPONENT = 0
"""Exponent of 0.5 in e2m1 where its format's smallest counts. By value it is -1, as the number is normal in float32."""

ZERO_EXPONENT = -126
NAN_BITS = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}
BLOCK_BYTES = 1 << 23
"""Size of the table of products worked on at a time."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Numbers of one format: float64 values with the exponents that alignment counts them with."""

    value: np.ndarray
    exponent: np.ndarray


def terms(values: np.ndarray, element: str, e2m1_exponent: str = "value") -> Terms:
    """Terms of an array of numbers in a format; ``e2m1_exponent``: the switch."""
    value = np.asarray(values, np.float64)
    exponent = np.frexp(value)[1].astype(np.int64) - 1
    by_format = element == "e2m1" and e2m1_exponent == "format"
    exponent = np.maximum(exponent, E2M1_FORMAT_EXPONENT if by_format else MIN_EXPONENT[element])
    return Terms(value, np.where(value == 0, ZERO_EXPONENT, exponent))


def scale(operand: Terms, factors: np.ndarray, scale_type: str) -> Terms:
    """An operand (..., rows, k) times its scale factors (..., rows, factors), as kind mxf8f6f4 does."""
    repeat = operand.value.shape[-1] // factors.shape[-1]
    factor = terms(np.repeat(factors, repeat, axis=-1), scale_type)
    return Terms(operand.value * factor.value, operand.exponent + factor.exponent)


def fused(a: Terms, b: Terms, c: np.ndarray, d_type: str, fraction: int = FRACTION) -> np.ndarray:
    """D = A B^T + C.

    Args:
        a: (ctas, m, k). b: (ctas, n, k). c: (ctas, m, n) float32 or float16 values.
        d_type: f32 or f16.
        fraction: fractional bits of the aligned terms.

    Returns:
        uint32 (ctas, m, n): bits of D, f16 in the low half.
    """
    step = max(1, BLOCK_BYTES // (8 * a.value.shape[-2] * a.value.shape[-1]))
    out = np.empty(c.shape, np.uint32)
    for cta in range(c.shape[0]):
        for low in range(0, c.shape[2], step):
            part = slice(low, low + step)
            left = Terms(a.value[cta][:, None], a.exponent[cta][:, None])
            right = Terms(b.value[cta, part][None], b.exponent[cta, part][None])
            with np.errstate(invalid="ignore"):
                product = Terms(left.value * right.value, left.exponent + right.exponent)
            out[cta, :, part] = add(product, c[cta, :, part], d_type, fraction)
    return out


def fused_groups(
    a: np.ndarray, b: np.ndarray, scale_a: np.ndarray, scale_b: np.ndarray, scale_type: str, c: np.ndarray
) -> np.ndarray:
    """D = A B^T + C of kinds mxf4 and mxf4nvf4.

    Args:
        a: (ctas, m, 64). b: (ctas, n, 64). scale_a: (ctas, m, factors). scale_b: (ctas, n, factors).
        scale_type: ue8m0 or ue4m3. c: float32 (ctas, m, n).
    """
    groups = a.shape[-1] // GROUP
    repeat = groups // scale_a.shape[-1]
    of_a, of_b = (terms(np.repeat(s, repeat, axis=-1), scale_type) for s in (scale_a, scale_b))
    value: list[np.ndarray] = []
    exponent: list[np.ndarray] = []
    for group in range(groups):
        part = slice(group * GROUP, (group + 1) * GROUP)
        exact = np.matmul(a[:, :, part].astype(np.float64), b[:, :, part].astype(np.float64).swapaxes(1, 2))
        with np.errstate(invalid="ignore"):
            value.append(exact * of_a.value[:, :, None, group] * of_b.value[:, None, :, group])
        exponent.append(of_a.exponent[:, :, None, group] + of_b.exponent[:, None, :, group])
    return add(Terms(np.stack(value, -1), np.stack(exponent, -1)), c, "f32", FRACTION_MXF4)


def add(products: Terms, c: np.ndarray, d_type: str, fraction: int) -> np.ndarray:
    """Align, cut, add and round: products (..., m, n, k) and c (..., m, n) give uint32 bits (..., m, n)."""
    addend = terms(c, d_type)
    special = ~(np.isfinite(products.value).all(-1) & np.isfinite(addend.value))
    any_special = bool(special.any())
    value = products.value
    last = addend.value
    if any_special:
        value = np.where(special[..., None], 0.0, value)
        last = np.where(special, 0.0, last)
    top = np.maximum(products.exponent.max(-1), addend.exponent)
    up = (fraction - top).astype(np.int32)
    cut = np.ldexp(value, up[..., None]).astype(np.int64)
    total = cut.sum(-1) + np.ldexp(last, up).astype(np.int64)
    result = np.ldexp(total.astype(np.float64), -up)
    if any_special:
        with np.errstate(invalid="ignore"):
            result = np.where(special, products.value.sum(-1) + addend.value, result)
    return to_bits(result, d_type)


def to_bits(value: np.ndarray, d_type: str) -> np.ndarray:
    """uint32 bits of the rounded result: f32 towards zero, f16 to nearest even in the low half."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if d_type == "f16":
            rounded = value.astype(np.float16) + np.float16(0)
            bits = rounded.view(np.uint16).astype(np.uint32)
        else:
            rounded = value.astype(np.float32)
            beyond = (np.abs(rounded) > np.abs(value)) & (np.abs(value) < 2.0**128)
            rounded = np.where(beyond, np.nextafter(rounded, np.float32(0)), rounded) + np.float32(0)
            bits = rounded.view(np.uint32)
    return np.where(np.isnan(value), np.uint32(NAN_BITS[d_type]), bits)
