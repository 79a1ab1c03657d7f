"""Rounding against exact rational arithmetic, against other implementations, and over all 16-bit patterns."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convc.ir import dtypes
from convc.ir.dtypes import BF16, BY_NAME, F16, F32, TF32, DType

ALL = tuple(dtype for dtype in BY_NAME.values() if not dtype.integer)
INTEGERS = (dtypes.U8, dtypes.S8, dtypes.S32)


def exactly_rounded(dtype: DType, value: float) -> float:
    """Round a finite float64 to nearest even with rational numbers."""
    exact = abs(Fraction(value))
    if exact == 0:
        return value
    exponent = max(math.frexp(float(exact))[1] - 1, dtype.min_exponent)
    unit = Fraction(2) ** (exponent + 1 - dtype.precision)
    rounded = round(exact / unit) * unit  # Python rounds halves to even
    beyond = math.nan if dtype is dtypes.E4M3 else math.inf
    result = beyond if rounded > Fraction(dtype.max_finite) else float(rounded)
    return math.copysign(result, value)


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
@given(value=st.floats(allow_nan=False, allow_infinity=False) | st.floats(-100, 100) | st.floats(-1e-4, 1e-4))
def test_encode_rounds_once_to_nearest_even(dtype, value):
    got = float(dtypes.decode(dtype, dtypes.encode(dtype, np.array([value])))[0])
    assert same(got, exactly_rounded(dtype, value))


@pytest.mark.parametrize("dtype", [BF16, TF32, F16, dtypes.E4M3, dtypes.E5M2], ids=lambda d: d.name)
@given(
    fraction=st.integers(0, 127),
    exponent=st.integers(-140, 120),
    nudge=st.sampled_from([0.0, 2.0**-40, 0.3 * 2.0**-23, 0.7 * 2.0**-23, 1.3 * 2.0**-23]),
    side=st.sampled_from([-1, 1]),
)
def test_a_hair_beside_a_tie_is_not_rounded_twice(dtype, fraction, exponent, nudge, side):
    steps = 1 << min(7, dtype.precision - 1)
    tie = 1 + fraction % steps / steps + 2.0**-dtype.precision  # between two numbers of the format, or one itself
    value = math.ldexp(tie + side * nudge, exponent)
    got = float(dtypes.decode(dtype, dtypes.encode(dtype, np.array([value])))[0])
    assert same(got, exactly_rounded(dtype, value))


def test_float32_to_bfloat16_agrees_with_ml_dtypes():
    bits = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    expected = values.astype(ml_dtypes.bfloat16)
    assert np.array_equal(dtypes.encode(BF16, values).view(np.uint16), expected.view(np.uint16))


def test_float32_and_float64_input_agree():
    bits = np.random.default_rng(1).integers(0, 1 << 32, 50_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[~np.isnan(values)]
    with np.errstate(all="ignore"):
        doubles = values.astype(np.float64)
    for dtype in ALL:
        raw = f"u{dtype.bytes}"
        assert np.array_equal(dtypes.encode(dtype, values).view(raw), dtypes.encode(dtype, doubles).view(raw)), (
            dtype.name
        )


@pytest.mark.parametrize("dtype", [F16, BF16], ids=lambda d: d.name)
def test_all_16_bit_patterns_survive_a_round_trip(dtype):
    patterns = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    stored = patterns.view(dtype.storage)
    values = dtypes.decode(dtype, stored)
    finite = np.isfinite(values)
    assert np.count_nonzero(~finite) > 2
    again = dtypes.encode(dtype, values)
    assert np.array_equal(again.view(np.uint16)[finite], patterns[finite])
    assert np.array_equal(np.isnan(values), np.isnan(dtypes.decode(dtype, again)))
    assert np.array_equal(values[np.isinf(values)], dtypes.decode(dtype, again)[np.isinf(values)])


def test_tf32_keeps_ten_fraction_bits():
    values = np.random.default_rng(2).standard_normal(1000).astype(np.float32)
    stored = dtypes.encode(TF32, values)
    assert stored.dtype == np.float32
    assert not (stored.view(np.uint32) & 0x1FFF).any()
    assert np.array_equal(dtypes.encode(TF32, stored), stored)
    assert np.abs(stored - values).max() <= TF32.unit_roundoff * np.abs(values).max()


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
def test_special_values(dtype):
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300])
    got = dtypes.decode(dtype, dtypes.encode(dtype, values))
    assert np.isnan(got[:2]).all()
    if dtype is dtypes.E4M3:  # it has no infinity
        assert np.isnan([*got[2:4], *got[6:]]).all()
        got = np.array([*got[:2], np.inf, -np.inf, *got[4:6], np.inf, -np.inf])
    assert got[2:4].tolist() == [np.inf, -np.inf]
    assert np.signbit(got[4:6]).tolist() == [False, True]
    assert got[6:].tolist() == [np.inf, -np.inf]
    all_ones = np.array([0x7FFFFFFF], np.uint32).view(np.float32)  # a NaN whose bits would carry into the sign
    assert np.isnan(dtypes.decode(dtype, dtypes.encode(dtype, all_ones))).all()


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
def test_limits_of_the_formats(dtype):
    def nearest(value: float) -> float:
        return float(dtypes.decode(dtype, dtypes.encode(dtype, np.array([value])))[0])

    assert nearest(dtype.max_finite) == dtype.max_finite
    ulp_above = dtype.max_finite * dtype.unit_roundoff / (1 - dtype.unit_roundoff)
    if dtype is dtypes.E4M3:  # its largest number ends in 0: the tie goes down
        assert nearest(dtype.max_finite + 16) == dtype.max_finite
        assert math.isnan(nearest(dtype.max_finite + 17))
    else:
        assert nearest(dtype.max_finite + ulp_above / 2) == math.inf
        assert nearest(dtype.max_finite + ulp_above / 3) == dtype.max_finite
    assert nearest(dtype.min_subnormal) == dtype.min_subnormal
    assert nearest(dtype.min_subnormal / 2) == 0.0
    assert nearest(dtype.min_subnormal * 0.51) == dtype.min_subnormal
    assert nearest(1 + dtype.unit_roundoff) == 1.0
    assert nearest(1 + 2 * dtype.unit_roundoff) == 1 + 2 * dtype.unit_roundoff


def test_fields_agree_with_other_descriptions():
    for dtype, info in (
        (F16, np.finfo(np.float16)),
        (F32, np.finfo(np.float32)),
        (BF16, ml_dtypes.finfo("bfloat16")),
        (dtypes.E4M3, ml_dtypes.finfo(ml_dtypes.float8_e4m3fn)),
        (dtypes.E5M2, ml_dtypes.finfo(ml_dtypes.float8_e5m2)),
    ):
        assert dtype.max_finite == float(info.max)
        assert dtype.min_normal == float(info.smallest_normal)
        assert dtype.min_subnormal == float(info.smallest_subnormal)
        assert dtype.unit_roundoff == float(info.eps) / 2
        assert dtype.bytes == dtype.storage.itemsize


def test_quantise_widen_and_scalars():
    values = np.array([[1.0009765625 / 3, 2.5]])
    assert dtypes.quantise(F16, values).dtype == np.float32
    assert np.array_equal(dtypes.quantise(F16, values), values.astype(np.float16).astype(np.float32))
    assert dtypes.encode(TF32, np.array(np.nan)).shape == ()
    assert dtypes.encode(BF16, np.arange(6)[::2]).tolist() == [0, 2, 4]
    with pytest.raises(TypeError, match="bf16 is stored as bfloat16, got an array of float16"):
        dtypes.widen(BF16, np.zeros(1, np.float16))


def test_of_array():
    for name in dtypes.OUTPUTS:
        assert dtypes.of_array(np.zeros(1, BY_NAME[name].storage)).name == name
    with pytest.raises(TypeError, match="got float64"):
        dtypes.of_array(np.zeros(1))


@pytest.mark.parametrize("dtype", [dtypes.E4M3, dtypes.E5M2], ids=lambda d: d.name)
def test_all_8_bit_patterns_survive_a_round_trip(dtype):
    patterns = np.arange(256, dtype=np.uint8)
    values = dtypes.decode(dtype, patterns.view(dtype.storage))
    finite = np.isfinite(values)
    assert np.count_nonzero(~finite) == (2 if dtype is dtypes.E4M3 else 8)
    assert np.array_equal(dtypes.encode(dtype, values).view(np.uint8)[finite], patterns[finite])
    assert np.abs(values[finite]).max() == dtype.max_finite


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_whole_numbers(dtype):
    info = np.iinfo(dtype.storage)
    assert (dtype.min_finite, dtype.max_finite, dtype.bits) == (info.min, info.max, info.bits)
    assert dtypes.encode(dtype, np.array([0.5, 1.5, 2.5, 2.51, np.nan])).tolist() == [0, 2, 2, 3, 0]
    ends = np.array([info.min, info.max])
    assert dtypes.encode(dtype, ends.astype(np.float64)).tolist() == ends.tolist()
    assert dtypes.encode(dtype, ends).tolist() == ends.tolist()
    assert dtypes.decode(dtype, dtypes.encode(dtype, ends)).tolist() == ends.tolist()
    beyond = np.array([info.min - 1, info.max + 1, info.max + (1 << 40)])
    expected = [*ends[::-1].tolist(), info.max] if dtype is dtypes.S32 else [info.min, info.max, info.max]
    assert dtypes.encode(dtype, beyond).tolist() == expected
    assert dtypes.encode(dtype, beyond.astype(np.float64)).tolist() == expected
    scalar = dtypes.encode(dtype, np.array(3.0))
    assert (scalar.shape, scalar.dtype) == ((), dtype.storage)


def test_float32_cannot_hold_every_s32():
    with pytest.raises(TypeError, match="float32 cannot hold every s32"):
        dtypes.widen(dtypes.S32, np.zeros(1, np.int32))
