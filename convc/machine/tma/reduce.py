"""The arithmetic of asynchronous reductions: destination = destination op source, element by element.

Recorded on an H200 (``tests/recordings``), every operation on every element type of a tensor map:

* What exists is what the PTX manual lists, and sums of tf32 elements, which are those of f32; the rest is an illegal
  instruction.
* Sums are rounded to nearest even and keep subnormals; the ftz types take subnormal operands as zeros, and
  results too unless the switch ``ftz_sum`` keeps them.
* A sum that is NaN is 0x7FFF in f16 and bf16, 0x7FFFFFFF in f32; in f64 it is the source, or else the destination, bit
  for bit.
* min and max ignore a NaN beside a number, give 0x7FFF for two, and order -0 below +0.

Sums of f16 and bf16 are computed in float32 and rounded once more; that gives the correctly rounded sum, because 24
bits are at least twice 11 plus 2.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from convc.errors import MachineFault

Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(old, source) -> new, on arrays of `STORAGE`."""

Reduction = tuple[np.dtype, Combine]
"""The type in which memory is read and written, and the function."""

STORAGE = {
    "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "u64": np.uint64, "s64": np.int64, "b64": np.uint64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "tf32": np.float32, "f32_ftz": np.float32, "tf32_ftz": np.float32,
}  # fmt: skip
"""numpy type of each type that can be reduced."""

INTEGERS = ("u32", "s32", "u64", "s64")
ALLOWED = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64", "tf32", "f32_ftz", "tf32_ftz"),
    "min": (*INTEGERS, "f16", "bf16"),
    "max": (*INTEGERS, "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64", "u32", "s32", "u64"),
    "or": ("b32", "b64", "u32", "s32", "u64"),
    "xor": ("b32", "b64", "u32", "s32", "u64"),
}
CANONICAL = {2: np.uint16(0x7FFF), 4: np.uint32(0x7FFFFFFF)}
"""What a reduction makes of NaN, by element size."""


def _increment(old: np.ndarray, limit: np.ndarray) -> np.ndarray:
    return np.where(old >= limit, 0, old + 1).astype(old.dtype)


def _decrement(old: np.ndarray, limit: np.ndarray) -> np.ndarray:
    return np.where((old == 0) | (old > limit), limit, old - 1).astype(old.dtype)


def _sum(old: np.ndarray, source: np.ndarray) -> np.ndarray:
    if old.dtype.kind in "iu":
        return old + source
    wide = np.float32 if old.dtype.itemsize == 2 else old.dtype
    total = (old.astype(wide) + source.astype(wide)).astype(old.dtype)
    if old.dtype.itemsize == 8:
        return np.where(np.isnan(source), source, np.where(np.isnan(old), old, total))
    return _canonical(total)


def _sum_of_flushed(old: np.ndarray, source: np.ndarray) -> np.ndarray:
    return _sum(_flush(old), _flush(source))


def _sum_flushed(old: np.ndarray, source: np.ndarray) -> np.ndarray:
    return _flush(_sum_of_flushed(old, source))


def _flush(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def _canonical(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.dtype(f"u{values.dtype.itemsize}"))
    return np.where(np.isnan(values), CANONICAL[bits.itemsize], bits).view(values.dtype)


def _extreme(choose: np.ufunc) -> Combine:
    """min or max: by the bits as signed magnitudes, so that -0 is below +0."""

    def combine(old: np.ndarray, source: np.ndarray) -> np.ndarray:
        if old.dtype.kind in "iu":
            return choose(old, source)
        first, second = (np.where((b := v.view(np.int16)) < 0, b ^ 0x7FFF, b) for v in (old, source))
        found: np.ndarray = choose(first, second)
        found = np.where(found < 0, found ^ 0x7FFF, found).astype(np.int16).view(old.dtype)
        return _canonical(np.where(np.isnan(old), source, np.where(np.isnan(source), old, found)))

    return combine


OPERATIONS: dict[str, Combine] = {
    "add": _sum,
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
    "inc": _increment,
    "dec": _decrement,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def reduction(operation: str, dtype: str, ftz_sum: str = "flush") -> Reduction:
    """Storage type and function of a reduction; `MachineFault` where PTX has none. ``ftz_sum``: the switch."""
    if dtype not in ALLOWED[operation]:
        raise MachineFault(
            f"there is no asynchronous reduction .{operation} of {dtype} elements",
            hint=f".{operation} takes {', '.join(ALLOWED[operation])}",
        )
    combine = OPERATIONS[operation]
    if dtype.endswith("_ftz"):
        combine = _sum_flushed if ftz_sum == "flush" else _sum_of_flushed

    def quiet(old: np.ndarray, source: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return combine(old, source)

    return np.dtype(STORAGE[dtype]), quiet


def reduce_into(target: np.ndarray, index: np.ndarray, source: np.ndarray, combine: Combine, repeats: bool) -> None:
    """``target[index] = combine(target[index], source)``; with ``repeats``, also where an index comes again."""
    if not repeats:
        target[index] = combine(target[index], source)
        return
    while index.size:
        first = np.zeros(index.size, bool)
        first[np.unique(index, return_index=True)[1]] = True
        target[index[first]] = combine(target[index[first]], source[first])
        index, source = index[~first], source[~first]
