"""Comparison of a result with the oracle: one rule, exact or within a bound.

The oracle says s, the exact value, and the bound e says that the kernel's accumulator lies from s - e to s + e.
Rounding to the result type is monotone, so the stored result must lie from round(s - e) to round(s + e). With
e = 0 that is a comparison of bits (except that -0 equals +0). Nothing is tuned, and overflow needs no special
case: an end that rounds to infinity allows infinity. NaN is right where NaN is expected, as with `equal_nan` of numpy;
how often is counted, and so are infinities: such an element shows nothing of the sum that was to be made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convc.errors import InputError
from convc.ir import dtypes
from convc.ir.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The verdict on one result array.

    Attributes:
        ok: every element is allowed.
        count: elements compared.
        count_wrong: elements outside their limits.
        count_nan, count_infinite: elements that are NaN, or the same infinity, in result and reference alike.
        worst_error: largest |got - expected|; NaN counts as infinite.
        worst_ratio: largest error as a share of its limit; above 1 is wrong. In exact mode 0 or infinite.
            The limit includes the final rounding, so a narrow result type often uses nearly all of it.
        first: index (n, k, p, q) of the first wrong element in memory order, None when all are right.
        got, expected, limit: of the first wrong element, or of the one with the worst ratio if all are right.
    """

    ok: bool
    count: int
    count_wrong: int
    worst_error: float
    worst_ratio: float
    first: tuple[int, ...] | None
    got: float
    expected: float
    limit: float
    count_nan: int = 0
    count_infinite: int = 0


def compare(y: np.ndarray, y_ref: np.ndarray, bound: np.ndarray | None = None) -> Comparison:
    """Judge a result.

    Args:
        y: what the kernel stored, (N, K, P, Q) in the storage of one of `convc.ir.dtypes.OUTPUTS`.
        y_ref: the oracle's float64, same shape, not rounded; without a bound it may be rounded already, as y is stored.
        bound: allowed error before the final rounding, same shape (see `convc.verification.bound.error_bound`);
            None: y must be y_ref rounded to nearest even, bit for bit up to the sign of zero.

    Raises:
        InputError: shapes differ.
    """
    if y.shape != y_ref.shape:
        raise InputError(f"the result has shape {y.shape}, the reference {y_ref.shape}")
    dtype = dtypes.of_array(y)
    if bound is None:
        stored = dtypes.encode(dtype, y_ref)
        if np.array_equal(_words(y), _words(stored)) and _all_finite(dtype, y):
            return _all_right(dtype, y)
        expected = low = high = dtypes.decode(dtype, stored)
    else:
        expected = y_ref
        slack = np.where(np.isfinite(y_ref), bound, 0.0)  # an infinite or NaN reference must be met as it is
        low = _round(dtype, y_ref - slack)
        high = _round(dtype, y_ref + slack)
    got = dtypes.decode(dtype, y)
    both_nan = np.isnan(got) & np.isnan(expected)
    wrong = ~((low <= got) & (got <= high) | both_nan)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.abs(got - expected)
        error[(got == expected) | both_nan] = 0.0  # equal infinities too
        error[np.isnan(error)] = np.inf
        limit = np.where(got >= expected, high - expected, expected - low)
        ratio = error / limit
    ratio[error == 0] = 0.0
    ratio[np.isnan(ratio)] = 1.0  # an infinity where the limit is one
    ratio[wrong] = np.maximum(ratio[wrong], np.nextafter(1.0, 2.0))
    at = int(np.argmax(wrong if wrong.any() else ratio))
    where = np.unravel_index(at, y.shape)
    return Comparison(
        ok=not wrong.any(),
        count=y.size,
        count_wrong=int(np.count_nonzero(wrong)),
        worst_error=float(error.max()),
        worst_ratio=float(ratio.max()),
        first=tuple(int(i) for i in where) if wrong.any() else None,
        got=float(got[where]),
        expected=float(expected[where]),
        limit=float(limit[where]),
        count_nan=int(np.count_nonzero(both_nan)),
        count_infinite=int(np.count_nonzero(np.isinf(got) & (got == expected))),
    )


def _words(stored: np.ndarray) -> np.ndarray:
    """The bits of stored elements."""
    return stored.view(f"u{stored.dtype.itemsize}")


def _all_finite(dtype: DType, y: np.ndarray) -> bool:
    """Whether no element is infinite or a NaN: in a narrow type its bits say so sooner than its value."""
    if dtype.integer or not y.size:
        return True
    [infinity] = _words(dtypes.encode(dtype, np.array([np.inf])))
    magnitudes = _words(y) & (infinity | infinity - 1)
    return bool(magnitudes.max() < infinity)


def _all_right(dtype: DType, y: np.ndarray) -> Comparison:
    """The verdict on a result that is what it should be, to the bit, and finite."""
    first = float(dtypes.decode(dtype, y.flat[:1])[0])
    return Comparison(
        ok=True,
        count=y.size,
        count_wrong=0,
        worst_error=0.0,
        worst_ratio=0.0,
        first=None,
        got=first,
        expected=first,
        limit=0.0,
    )


def _round(dtype: DType, values: np.ndarray) -> np.ndarray:
    return dtypes.decode(dtype, dtypes.encode(dtype, values))
