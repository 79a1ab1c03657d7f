r"""float32 convolutions out of multiplications of fewer bits.

A float32 x is split into bfloat16 (or tf32) numbers, each the rounded rest that the ones before leave:

    x = h + m + l + r,    h = bf16(x),  m = bf16(x - h),  l = bf16(x - h - m)

The differences are exact (Dekker, "A floating-point technique for extending the available precision", 1971). Each part
has 8 bits, so |x - h| <= 2^-8 |x|, |x - h - m| <= 2^-16 |x|, and r = 0: three parts hold the 24 bits. A product x*w is
then a sum of products of parts, and the parts of all terms lie side by side as channels: one convolution with more
channels, and not a word about it in the kernel.

    =======  ==============================  ==================================  ======================
    name     products                        of each term are missing             at most, by |x*w|
    =======  ==============================  ==================================  ======================
    bf16x3   h*h, m*h, h*m                   m*m, and what h + m lack            3.02 * 2^-16
    bf16x6   these and m*m, l*h, h*l         m*l, l*m, l*l                       2.05 * 2^-24
    tf32x3   h*h, m*h, h*m                   m*m, and what h + m lack            3.02 * 2^-22
    =======  ==============================  ==================================  ======================

bf16x3: |x*w - kept| <= 2 * 2^-16 + 2^-32 for the rests and (2^-8 (1 + 2^-8))^2 for m*m. bf16x6: twice
2^-8 (1 + 2^-8) * 2^-16 (1 + 2^-8), and 2^-32. tf32x3: as bf16x3, with 2^-11 in place of 2^-8. All of it needs parts
above the smallest subnormal number of bfloat16, 2^-133, which has no bits to lose (tf32: 2^-136): that is so for
|x| >= `SMALLEST`. Sums of magnitudes of the parts' products are at most `GROWTH` times those of the products. An
infinity or NaN is multiplied in the first pass, h*h, and is zero in the others.

Sources: Henry, Tang, Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
computations", 2019; NVIDIA CUTLASS, examples 27 and 28 ("3xTF32").
"""

from __future__ import annotations

import numpy as np

from convc.ir import dtypes

PARTS = {"bf16x3": dtypes.BF16, "bf16x6": dtypes.BF16, "tf32x3": dtypes.TF32}
"""By precision: the type of the parts."""

PASSES = {
    "bf16x3": ((0, 0), (1, 0), (0, 1)),
    "tf32x3": ((0, 0), (1, 0), (0, 1)),
    "bf16x6": ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)),
}
"""By precision: the products that are made, each as (part of the activation, part of the weight)."""

MISSING = {"bf16x3": 3.02 * 2.0**-16, "bf16x6": 2.05 * 2.0**-24, "tf32x3": 3.02 * 2.0**-22}
"""By precision: what is not made, relative to the magnitude of each product."""

GROWTH = 1.02
"""((1 + 2^-8) + 2^-8 (1 + 2^-8) + 2^-16 (1 + 2^-8))^2, rounded up."""

SMALLEST = 2.0**-110
"""Numbers at least as large are split without loss to underflow: their last bit of 24 is 2^-133."""

EXACT_BITS = {"bf16x3": ((16, 8), (8, 16)), "bf16x6": ((16, 16),), "tf32x3": ((22, 11), (11, 22))}
"""By precision: bits that whole numbers of activations and weights may have so that nothing is missing."""


def split(array: np.ndarray, count: int, dtype: dtypes.DType = dtypes.BF16) -> list[np.ndarray]:
    """`count` arrays in the storage of `dtype`, the largest part first; of an infinity or NaN the others are zero.

    Finite numbers above the type's largest are cut to it in the first part, and the others take the rest.
    """
    rest = np.asarray(array, np.float32)
    finite = np.isfinite(rest)
    most = np.float32(dtype.max_finite)
    parts: list[np.ndarray] = []
    for _ in range(count):
        part = dtypes.encode(dtype, np.where(finite, np.clip(rest, -most, most), rest))
        parts.append(part)
        rest = np.where(finite, rest - np.where(finite, dtypes.widen(dtype, part), np.float32(0)), np.float32(0))
    return parts


def activation_parts(precision: str, x: np.ndarray) -> list[np.ndarray]:
    """The parts of activations, one for each pass; infinities and NaN are in the first pass alone."""
    return _one_each(precision, x, [first for first, _ in PASSES[precision]])


def filter_parts(precision: str, w: np.ndarray) -> list[np.ndarray]:
    """The parts of filters, one for each pass; infinities and NaN are in the first pass alone."""
    return _one_each(precision, w, [second for _, second in PASSES[precision]])


def _one_each(precision: str, array: np.ndarray, chosen: list[int]) -> list[np.ndarray]:
    """The parts of the given numbers.

    The first pass multiplies the largest parts of both factors, so that an infinity there gives what it should; in the
    others it would meet a small part of the other factor, which may be zero or have another sign.
    """
    parts = split(array, max(chosen) + 1, PARTS[precision])
    finite = np.isfinite(np.asarray(array, np.float32))
    if finite.all():
        return [parts[index] for index in chosen]
    first, *others = chosen
    return [parts[first], *(np.where(finite, parts[index], parts[index].dtype.type(0)) for index in others)]
