"""The sums of mma.sync: D = A B^T + C for stacks of small matrices.

| types | sum | numerics=exact |
| --- | --- | --- |
| f16, bf16, tf32 | float32 products, added in an order of our own, then C | one truncated sum (see `numerics`) |
| e4m3, e5m2 | the same | the halves k % 4 < 2 and k % 4 >= 2 as two truncated sums of f16, then C, rounded |
| f16 of m8n8k4 | f32 steps, each rounded: `quad_sum` | the same |
| f64 | fused multiply-adds in the order of k | the same |
| integers | exact, then wrapped or clamped to s32 | the same |
| b1 | population counts of the products' or differences' bits | the same |

The tensor core of sm_100a has neither eight-bit floats nor m8n8k4 for mma.sync: ptxas makes them of other
instructions, and the order of the steps is that of its machine code. Sums of f16, bf16 and tf32 were compared bit for
bit with a B200 (microsoft/MMA-Sim, mma.sync); f64 as fused multiply-adds in order is MMA-Sim's model too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convc.machine.base.narrow_formats import table
from convc.machine.isa.float import floating, rounding
from convc.machine.tensor_core import formats, numerics

INTEGERS = ("s8", "u8", "s4", "u4")
EIGHT_BIT_FLOATS = ("e4m3", "e5m2")

Sum = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(a, b, c) -> d: `numbers` (..., m, k) and (..., n, k), unsigned bit patterns (..., m, n) and (..., m, n)."""


def numbers(codes: np.ndarray, element: str) -> np.ndarray:
    """float32 values of bit patterns; those of f64 stay what they are."""
    if element == "f64":
        return codes
    if element in formats.WIDEN:
        return formats.WIDEN[element][1](codes)
    if element == "s4":
        return (codes ^ codes.dtype.type(8)).astype(np.float32) - np.float32(8)
    if element in ("u4", "b1"):
        return codes.astype(np.float32)
    return np.take(table(element), codes)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B^T."""
    return np.matmul(a, b.swapaxes(-1, -2))


def integer_sum(saturate: bool) -> Sum:
    """Products of at most 8 bits: float32 holds their sum exactly."""

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        total = product(a, b).astype(np.int64) + c.view(np.int32)
        if saturate:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return total.astype(np.uint32)

    return run


def bit_sum(operation: str) -> Sum:
    """b1: how many bits of A.and.B or A.xor.B are set."""

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        count = product(a, b)
        if operation == "xor":
            count = a.sum(-1)[..., :, None] + b.sum(-1)[..., None, :] - 2 * count
        return count.astype(np.uint32) + c

    return run


def double_sum(mode: str) -> Sum:
    """f64: D = fma(a[k - 1], b[k - 1], ... fma(a[0], b[0], C))."""
    fma = floating.arithmetic("fma", "f64", mode)

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        for k in range(a.shape[-1]):
            c = np.asarray(fma(a[..., :, None, k], b[..., None, :, k], c))
        return c

    return run


def quad_sum(c_type: str, d_type: str) -> Sum:
    """m8n8k4 of f16, in f32: with f32 results a chain of four, then C; else C and twice a sum of two."""
    fma, mul, add = (floating.arithmetic(name, "f32") for name in ("fma", "mul", "add"))

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        x, y = (values.view(np.uint32) for values in (a, b))
        terms = [(x[..., :, None, k], y[..., None, :, k]) for k in range(4)]
        start = c if c_type == "f32" else numbers(c, "f16").view(np.uint32)
        if d_type == "f32":
            chain = np.zeros(start.shape, np.uint32)
            for left, right in terms:
                chain = fma(left, right, chain)
            return np.asarray(add(start, chain))
        for first, second in (terms[:2], terms[2:]):
            start = np.asarray(add(start, fma(*second, mul(*first))))
        return rounding.encode(rounding.rounded(rounding.decode(start, "f32"), "f16"), "f16")

    return run


def float_sum(a_type: str, b_type: str, d_type: str, exact: bool) -> Sum:
    """f16, bf16, tf32, e4m3 and e5m2."""
    bits = 16 if d_type == "f16" else 32
    kind = np.dtype(f"f{bits // 8}")

    def truncated(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, elements: tuple[str, str] = (a_type, b_type)
    ) -> np.ndarray:
        lead = np.broadcast_shapes(*[each.shape[:-2] for each in (a, b, c)])
        a, b, c = (np.broadcast_to(each, (*lead, *each.shape[-2:])) for each in (a, b, c))
        left, right, addend = (each.reshape(-1, *each.shape[-2:]) for each in (a, b, c))
        x = numerics.terms(left, elements[0])
        y = numerics.terms(right, elements[1])
        return numerics.fused(x, y, addend, d_type).astype(f"u{bits // 8}").view(kind).reshape(c.shape)

    def in_two(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        total = np.zeros_like(c)
        lower = np.arange(int(a.shape[-1])) % 4 < 2
        for part in (lower, ~lower):
            total = truncated(a[..., part], b[..., part], total, ("f16", "f16"))
        return c + total

    def add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        if not exact:
            return (product(a, b) + c).astype(kind, copy=False)
        return in_two(a, b, c) if a_type in EIGHT_BIT_FLOATS else truncated(a, b, c)

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return np.asarray(floating.canonical(add(a, b, c.view(kind)), bits))

    return run
