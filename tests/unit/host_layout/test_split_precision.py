"""Splitting float32 into bfloat16 parts: nothing is lost that the module does not say."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convc.host_layout.split_precision import (
    EXACT_BITS,
    GROWTH,
    MISSING,
    PASSES,
    SMALLEST,
    activation_parts,
    filter_parts,
    split,
)
from convc.ir import dtypes

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def fractions(parts: list[np.ndarray]) -> list[Fraction]:
    return [Fraction(float(part[0])) for part in parts]


@given(floats.filter(lambda x: x == 0 or abs(x) >= SMALLEST))
def test_three_parts_are_the_number(x):
    parts = split(np.array([x], np.float32), 3)
    assert all(part.dtype == ml_dtypes.bfloat16 for part in parts)
    assert sum(fractions(parts)) == Fraction(x)


@given(
    st.sampled_from(list(PASSES)),
    floats.filter(lambda x: SMALLEST <= abs(x) < 1e38),
    floats.filter(lambda x: SMALLEST <= abs(x) < 1e38),
)
def test_what_is_missing_is_bounded(precision, x, w):
    pairs = list(
        zip(
            fractions(activation_parts(precision, np.array([x], np.float32))),
            fractions(filter_parts(precision, np.array([w], np.float32))),
            strict=True,
        )
    )
    exact = Fraction(x) * Fraction(w)
    assert abs(exact - sum(a * b for a, b in pairs)) <= Fraction(MISSING[precision]) * abs(exact)
    assert sum(abs(a * b) for a, b in pairs) <= Fraction(GROWTH) * abs(exact)


@pytest.mark.parametrize("precision", PASSES)
def test_the_bound_is_not_much_too_wide(precision):
    rng = np.random.default_rng(0)
    x, w = (rng.uniform(1, 2, 400_000).astype(np.float32) for _ in range(2))
    kept = sum(
        a.astype(np.float64) * b.astype(np.float64)
        for a, b in zip(activation_parts(precision, x), filter_parts(precision, w), strict=True)
    )
    exact = x.astype(np.float64) * w.astype(np.float64)
    assert 0.3 < (np.abs(exact - kept) / exact).max() / MISSING[precision] <= 1


@pytest.mark.parametrize("precision", PASSES)
def test_whole_numbers_of_so_many_bits_are_exact(precision):
    rng = np.random.default_rng(1)
    for bits in EXACT_BITS[precision]:
        x, w = (rng.integers(-(1 << n), (1 << n) + 1, 20_000).astype(np.float32) for n in bits)
        kept = sum(
            a.astype(np.float64) * b.astype(np.float64)
            for a, b in zip(activation_parts(precision, x), filter_parts(precision, w), strict=True)
        )
        assert np.array_equal(kept, x.astype(np.float64) * w.astype(np.float64))


def test_infinities_and_the_largest_numbers():
    largest = np.finfo(np.float32).max
    parts = [part.astype(np.float64) for part in split(np.array([np.inf, -np.inf, np.nan, largest, -largest]), 3)]
    assert parts[0][:2].tolist() == [np.inf, -np.inf]
    assert np.isnan(parts[0][2])
    assert parts[0][3:].tolist() == [dtypes.BF16.max_finite, -dtypes.BF16.max_finite]
    assert not np.any([part[:3] for part in parts[1:]])
    assert sum(part[3] for part in parts) == float(largest)


def test_what_is_missing_is_the_sum_of_the_products_that_are_not_made():
    """The worst parts there are: each rest is a half of the last bit of the part in front, whose bits are 8 or 11."""
    for precision, unit in (("bf16x3", Fraction(1, 2**8)), ("tf32x3", Fraction(1, 2**11))):
        second = unit * (1 + unit)
        worst = 2 * unit**2 + unit**4 + second**2
        assert worst <= Fraction(MISSING[precision]) <= worst * Fraction(101, 100)
    unit = Fraction(1, 2**8)
    second, third = unit * (1 + unit), unit**2 * (1 + unit)
    worst = 2 * second * third + third**2
    assert worst <= Fraction(MISSING["bf16x6"]) <= worst * Fraction(103, 100)
    largest = (1 + unit + second + third) ** 2
    assert largest <= Fraction(GROWTH) <= largest * Fraction(101, 100)
