"""The comparison: what it lets pass, what it does not, and what it tells."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convc.errors import InputError
from convc.ir import dtypes
from convc.verification.compare import _all_finite, compare

STORAGE = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)]


def one(got, expected, bound=None, storage=np.float16):
    shape = (1, 1, 1, 1)
    limit = None if bound is None else np.full(shape, bound)
    return compare(np.full(shape, got, storage), np.full(shape, expected), limit)


@pytest.mark.parametrize("storage", STORAGE, ids=str)
def test_the_rounded_reference_passes_exactly(storage):
    reference = np.random.default_rng(0).standard_normal((2, 3, 4, 5)) * 100
    y = dtypes.encode(dtypes.of_array(np.zeros(1, storage)), reference)
    verdict = compare(y, reference)
    assert verdict.ok
    assert (verdict.count, verdict.count_wrong, verdict.first) == (120, 0, None)
    assert verdict.worst_error == verdict.worst_ratio == 0.0


@pytest.mark.parametrize("storage", STORAGE, ids=str)
def test_one_unit_off_fails_exactly_and_is_located(storage):
    dtype = dtypes.of_array(np.zeros(1, storage))
    reference = np.full((2, 3, 4, 5), 3.0)
    y = dtypes.encode(dtype, reference)
    wrong = 3.0 + 4 * dtype.unit_roundoff
    y[1, 0, 2, 3] = y[1, 2, 0, 0] = wrong
    verdict = compare(y, reference)
    assert not verdict.ok
    assert verdict.count_wrong == 2
    assert verdict.first == (1, 0, 2, 3)
    assert (verdict.got, verdict.expected, verdict.limit) == (wrong, 3.0, 0.0)
    assert verdict.worst_error == pytest.approx(4 * dtype.unit_roundoff)
    assert verdict.worst_ratio == math.inf


@pytest.mark.parametrize("bound", [None, 0.5])
def test_nan_where_nan_is_expected_passes_and_is_counted(bound):
    y = np.array([1.0, math.nan, math.inf, math.nan], np.float16).reshape(1, 4, 1, 1)
    verdict = compare(y, y.astype(np.float64), None if bound is None else np.full(y.shape, bound))
    assert (verdict.ok, verdict.count_nan, verdict.count_infinite) == (True, 2, 1)
    assert verdict.worst_error == verdict.worst_ratio == 0.0
    other = np.where(np.isnan(y), 0, y)
    assert compare(y, other.astype(np.float64)).count_wrong == compare(other, y.astype(np.float64)).count_wrong == 2
    assert compare(other, y.astype(np.float64)).count_nan == 0


@pytest.mark.parametrize("storage", STORAGE, ids=str)
def test_infinities_on_both_sides_pass_and_are_counted(storage):
    """Also where every bit agrees and the first element is finite, which nothing needs to look at any longer."""
    y = np.array([1.0, math.inf, 2.0, -math.inf], storage).reshape(1, 4, 1, 1)
    verdict = compare(y, y.astype(np.float64))
    assert (verdict.ok, verdict.count_infinite, verdict.count_nan) == (True, 2, 0)


@pytest.mark.parametrize("storage", STORAGE, ids=str)
def test_the_bits_of_numbers_say_whether_all_are_finite(storage):
    """A result that is right to the bit is not looked at any further where they are, of either sign."""
    dtype = dtypes.of_array(np.zeros(1, storage))
    largest = float(ml_dtypes.finfo(storage).max)
    assert _all_finite(dtype, np.array([-largest, -0.0, 0.0, largest], storage))
    for special in (math.inf, -math.inf, math.nan):
        assert not _all_finite(dtype, np.array([1.0, special], storage))


def test_a_reference_that_was_rounded_already_judges_alike():
    rng = np.random.default_rng(1)
    for storage in [*STORAGE, np.dtype(np.int32), np.dtype(np.int8), np.dtype(np.uint8)]:
        dtype = dtypes.of_array(np.zeros(1, storage))
        reference = rng.integers(0, 9, (2, 3, 4, 5)) * 1.25
        stored = dtypes.encode(dtype, reference)
        wrong = stored.copy()
        wrong[1, 0, 2, 3] += 1
        for y in (stored, wrong):
            assert compare(y, stored) == compare(y, reference)
        assert [compare(y, stored).ok for y in (stored, wrong)] == [True, False]


def test_signed_zeros_are_equal():
    assert one(-0.0, 0.0).ok
    assert one(0.0, -1e-30).ok


@given(st.floats(-1000, 1000), st.floats(0, 1), st.floats(-1, 1))
def test_rounding_anything_inside_the_bound_passes(expected, bound, share):
    for storage in STORAGE:
        dtype = dtypes.of_array(np.zeros(1, storage))
        inside = dtypes.encode(dtype, np.array([expected + share * bound]))[0]
        verdict = one(inside, expected, bound, storage)
        assert verdict.ok
        assert verdict.worst_ratio <= 1


@given(st.floats(-1000, 1000), st.floats(0, 1), st.floats(1.1, 3))
def test_beyond_the_bound_and_a_rounding_fails(expected, bound, share):
    for storage in STORAGE:
        dtype = dtypes.of_array(np.zeros(1, storage))
        rounding = 2 * dtype.unit_roundoff * (abs(expected) + bound * share) + dtype.min_subnormal
        outside = dtypes.encode(dtype, np.array([expected + share * (bound + 2 * rounding)]))[0]
        verdict = one(outside, expected, bound, storage)
        assert not verdict.ok
        assert verdict.worst_ratio > 1
        assert verdict.limit <= bound + rounding


@pytest.mark.parametrize("bound", [None, 0.5, math.inf])
def test_nan_fails_where_the_reference_is_finite(bound):
    y = np.zeros((1, 2, 1, 2), np.float32)
    y[0, 1, 0, 0] = np.nan
    verdict = compare(y, np.zeros(y.shape), None if bound is None else np.full(y.shape, bound))
    assert not verdict.ok
    assert verdict.count_wrong == 1
    assert verdict.first == (0, 1, 0, 0)
    assert math.isnan(verdict.got)
    assert verdict.worst_error == math.inf


def test_infinities_and_nan_of_the_reference_must_be_met():
    for bound in (None, 0.5, math.inf):
        assert one(np.inf, np.inf, bound).ok
        assert one(np.inf, np.inf, bound).worst_error == 0.0
        assert one(np.nan, np.nan, bound).ok
        assert not one(-np.inf, np.inf, bound).ok
        assert not one(65504.0, np.inf, bound).ok
        assert not one(1.0, np.nan, bound).ok


def test_overflow_of_the_result_type():
    assert one(np.inf, 65520.0).ok, "rounds to infinity in float16"
    assert not one(65504.0, 65520.0).ok
    assert one(65504.0, 65519.0).ok
    assert one(np.inf, 65519.0, 2.0).ok, "the accumulator may have been 65520"
    assert one(65504.0, 65519.0, 2.0).ok
    assert one(np.inf, 65519.0, 2.0).worst_ratio <= 1
    assert not one(np.inf, 65000.0, 2.0).ok


def test_the_worst_of_right_elements_is_told():
    reference = np.zeros((1, 1, 1, 3))
    verdict = compare(np.array([[[[0.1, -0.4, 0.2]]]], np.float32), reference, np.full((1, 1, 1, 3), 0.5))
    assert verdict.ok
    assert verdict.first is None
    assert verdict.got == pytest.approx(-0.4)
    assert verdict.limit == 0.5
    assert verdict.worst_ratio == pytest.approx(0.8)


def test_shapes_must_agree():
    with pytest.raises(InputError, match=r"the result has shape \(1, 2\), the reference \(2, 1\)"):
        compare(np.zeros((1, 2), np.float32), np.zeros((2, 1)))
