"""The bound holds for several ways to sum, at their worst, and is not much wider than it has to be."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.errors import LimitError
from convc.host_layout.block_scaled import as_multiplied
from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.ir.sums import FLOAT32, HOPPER_FP8, Sums
from convc.verification import reference
from convc.verification.bound import UNIT, error_bound, sum_gamma


def dot_problem(terms: int, operand: str = "f16") -> ConvProblem:
    """One output pixel and channel: a dot product."""
    return ConvProblem(
        in_channels=terms, out_channels=1, in_extent=(1, 1), kernel=(1, 1), operand=operand, out="f32", bias=True
    )


def bound_of(x: np.ndarray, w: np.ndarray, b: float, operand: str, sums: Sums = FLOAT32) -> float:
    problem = dot_problem(x.size, operand)
    images, filters = x.reshape(problem.x_shape), w.reshape(problem.w_shape)
    return float(error_bound(problem, images, filters, np.array([b]), sums=sums)[0, 0, 0, 0])


def exponent_of(value: Fraction) -> int:
    return math.frexp(float(value))[1] - 1


def cut(value: Fraction, unit: Fraction) -> Fraction:
    """Toward zero to a multiple of unit."""
    return Fraction(math.trunc(value / unit)) * unit


def to_f32_cut(value: Fraction, bits: int = 23) -> Fraction:
    if value == 0:
        return value
    exponent = max(exponent_of(abs(value)), -126)
    return cut(value, Fraction(2) ** (exponent - bits))


def fused_sum(x: np.ndarray, w: np.ndarray, b: float, group: int, min_exponent: int, sums: Sums = FLOAT32) -> Fraction:
    """A tensor-core sum: `group` products and the accumulator, cut to 25 bits below the largest exponent, or fewer.

    A product counts with the sum of its operands' exponents; a subnormal operand with the smallest normal one.
    """
    accumulator = Fraction(0)
    for start in range(0, x.size, group):
        terms = [(accumulator, max(exponent_of(abs(accumulator)), -126))] if accumulator else []
        for a, c in zip(x[start : start + group].tolist(), w[start : start + group].tolist(), strict=True):
            if a and c:
                exponents = (max(math.frexp(v)[1] - 1, min_exponent) for v in (a, c))
                terms.append((Fraction(a) * Fraction(c), sum(exponents)))
        if terms:
            unit = Fraction(2) ** (max(exponent for _, exponent in terms) - sums.fraction)
            accumulator = to_f32_cut(sum(cut(value, unit) for value, _ in terms), sums.bits)
    return to_f32_cut(accumulator + Fraction(b))


def exact_sum(x: np.ndarray, w: np.ndarray, b: float) -> Fraction:
    return sum((Fraction(a) * Fraction(c) for a, c in zip(x.tolist(), w.tolist(), strict=True)), Fraction(b))


@given(
    seed=st.integers(0, 2**31),
    terms=st.integers(1, 60),
    group=st.sampled_from([1, 4, 8, 16, 32]),
    operand=st.sampled_from([name for name in dtypes.FLOAT_OPERANDS if name not in dtypes.SCALED_OPERANDS]),
    spread=st.sampled_from([0, 3, 12]),
    small=st.booleans(),
)
@settings(max_examples=some(150), deadline=None)
def test_fused_truncated_sums_stay_inside(seed, terms, group, operand, spread, small):
    rng = np.random.default_rng(seed)
    dtype = dtypes.BY_NAME[operand]
    scale = dtype.min_normal if small else 1.0  # with subnormal operands, or without
    x, w = (
        dtypes.quantise(
            dtype,
            np.clip(
                rng.standard_normal(terms) * 2.0 ** rng.integers(-spread, spread + 1, terms) * scale,
                -dtype.max_finite,
                dtype.max_finite,
            ),
        )
        for scale in (scale, 1.0)
    )
    b = float(np.float32(rng.standard_normal() * scale))
    error = abs(fused_sum(x, w, b, group, dtype.min_exponent) - exact_sum(x, w, b))
    assert error <= bound_of(x, w, b, operand)


@given(
    seed=st.integers(0, 2**31),
    terms=st.integers(1, 200),
    operand=st.sampled_from(["e4m3", "e5m2"]),
    spread=st.sampled_from([0, 1, 3]),
    signed=st.booleans(),
)
@settings(max_examples=some(60), deadline=None)
def test_sums_of_eight_bit_floats_on_hopper_stay_inside(seed, terms, operand, spread, signed):
    rng = np.random.default_rng(seed)
    dtype = dtypes.BY_NAME[operand]
    x, w = (
        dtypes.quantise(
            dtype, (2 * signed * (rng.random(terms) < 0.5) - 1) * 2.0 ** (spread * rng.standard_normal(terms))
        )
        for _ in range(2)
    )
    error = abs(fused_sum(x, w, 0.5, 32, dtype.min_exponent, HOPPER_FP8) - exact_sum(x, w, 0.5))
    assert error <= bound_of(x, w, 0.5, operand, HOPPER_FP8)


def test_hopper_loses_more_of_eight_bit_floats_than_float32_would():
    """A number that fills the accumulator first, then others of which each is just below its last bit: all are lost."""
    x = np.full(2 * 32, 2.0**-6, np.float32)
    w = np.full(2 * 32, 2.0**-8 * 1.875, np.float32)
    x[0] = w[0] = 1.0
    lost = exact_sum(x, w, 0.0) - fused_sum(x, w, 0.0, 32, -6, HOPPER_FP8)
    assert lost == Fraction(float(x[1] * w[1])) * 63
    assert 500 * bound_of(x, w, 0.0, "e4m3") < lost <= bound_of(x, w, 0.0, "e4m3", HOPPER_FP8) <= 2 * lost


def test_sums_of_13_bits_that_are_too_long_are_refused():
    problem = dot_problem(8000, "e4m3")
    with pytest.raises(LimitError, match="a 13 bit sum of 8000 terms has no error bound"):
        sum_gamma(problem, HOPPER_FP8)


def test_truncation_that_always_loses():
    """A large product first, then one small product for each instruction, just below the last bit: all are lost."""
    terms = 512
    x = np.full(terms, 2.0**-13 * 2047 / 2048, np.float32)
    x[0] = 1024
    w = np.ones(terms, np.float32)
    lost = exact_sum(x, w, 0.0) - fused_sum(x, w, 0.0, 1, -14)
    assert lost == Fraction(float(x[1])) * (terms - 1)
    assert lost <= bound_of(x, w, 0.0, "f16") <= 1.3 * lost


def test_a_subnormal_operand_raises_the_exponent_that_others_are_cut_at():
    """2^-24 counts as 2^-14 * 2^-10: products of its size lose ten bits more than their own size says."""
    x = np.array([2.0**-24, 1025 * 2.0**-22], np.float32)
    w = np.array([1.0, 1055 * 2.0**-22], np.float32)
    error = abs(fused_sum(x, w, 0.0, 16, -14) - exact_sum(x, w, 0.0))
    magnitude = float(exact_sum(x, w, 0.0))
    assert error > 10 * (1.25 * 2 + 2) * UNIT * magnitude
    assert error <= bound_of(x, w, 0.0, "f16")


@pytest.mark.parametrize("group", [1, 16])
def test_products_below_float32_are_lost(group):
    x = np.full(16, 1.5 * 2.0**-75, np.float32)
    exact = exact_sum(x, x, 0.0)
    bound = bound_of(x, x, 0.0, "bf16")
    assert abs(fused_sum(x, x, 0.0, group, -126) - exact) <= bound
    rounded = Fraction(float(np.add.accumulate(x * x, dtype=np.float32)[-1]))
    assert 1e-4 * exact < abs(rounded - exact) <= bound


@given(st.integers(0, 2**31), st.integers(1, 3000), st.sampled_from(dtypes.FLOAT_OPERANDS))
@settings(max_examples=some(40), deadline=None)
def test_float32_sums_in_any_order_stay_inside(seed, terms, operand):
    rng = np.random.default_rng(seed)
    dtype = dtypes.BY_NAME[operand]
    x, w = (dtypes.quantise(dtype, rng.standard_normal(terms)) for _ in range(2))
    b = float(np.float32(rng.standard_normal()))
    bound, problem = bound_of(x, w, b, operand), dot_problem(terms, operand)
    multiplied = as_multiplied(problem, x.reshape(problem.x_shape), w.reshape(problem.w_shape))
    x, w = (np.float32(array).reshape(-1) for array in multiplied)
    exact = math.fsum([*(x.astype(np.float64) * w), b])
    products = x * w
    for order in (products, np.sort(products), rng.permutation(products)):
        running = np.add.accumulate(order, dtype=np.float32)[-1] + np.float32(b)
        assert abs(float(running) - exact) <= bound
    assert abs(float(np.float32(x @ w) + np.float32(b)) - exact) <= bound


@pytest.mark.parametrize(("operand", "largest_bits"), [("f16", 22), ("bf16", 16), ("tf32", 22)])
def test_products_are_exact_in_float32(operand, largest_bits):
    dtype = dtypes.BY_NAME[operand]
    assert 2 * dtype.precision == largest_bits <= dtypes.F32.precision
    rng = np.random.default_rng(0)
    a, b = (dtypes.quantise(dtype, rng.standard_normal(100_000)) for _ in range(2))
    assert np.array_equal((a * b).astype(np.float64), a.astype(np.float64) * b.astype(np.float64))


def test_the_bound_is_the_formula():
    x, w = np.array([1.0, -2.0, 3.0]), np.array([4.0, 5.0, -0.5])
    n = 1.25 * 3 + 2
    expected = n * UNIT / (1 - n * UNIT) * (4 + 10 + 1.5 + 7)
    assert bound_of(x, w, -7.0, "f16") == pytest.approx(expected, rel=1e-9)


def test_shape_and_borders():
    problem = ConvProblem(in_channels=8, out_channels=3, in_extent=(5, 5), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1))
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(problem.x_shape), np.ones(problem.w_shape)
    bound = error_bound(problem, np.abs(x) * 0 + 1, w, None)
    assert bound.shape == problem.y_shape
    assert bound[0, 0, 0, 0] < bound[0, 0, 2, 2], "fewer terms at a corner"
    assert (error_bound(problem, x * 0, w, None) < 1e-38).all()


def test_possible_overflow_allows_anything():
    big = np.array([3e38, 3e38, 1.0])
    assert bound_of(big, np.ones(3), 0.0, "tf32") == math.inf
    assert bound_of(np.array([np.inf, 1.0, 0.0]), np.zeros(3), 0.0, "tf32") == math.inf


def test_sums_too_long_for_a_bound_are_refused():
    problem = ConvProblem(in_channels=6_800_000, out_channels=1, in_extent=(1, 1), kernel=(1, 1))
    with pytest.raises(LimitError, match="a float32 sum of 6800000 terms has no error bound"):
        error_bound(problem, np.zeros(problem.x_shape), np.zeros(problem.w_shape), None)


def test_a_missing_tap_is_far_outside():
    problem = ConvProblem(
        in_channels=512, out_channels=16, in_extent=(7, 7), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1), out="f32"
    )
    rng = np.random.default_rng(0)
    x = dtypes.quantise(dtypes.F16, rng.standard_normal(problem.x_shape))
    w = dtypes.quantise(dtypes.F16, rng.standard_normal(problem.w_shape) / 68)
    exact, bound = reference.conv_problem(problem, x, w), error_bound(problem, x, w, None)
    w = w.copy()
    w[..., 1, 2] = 0
    assert np.mean(np.abs(reference.conv_problem(problem, x, w) - exact) > bound) > 0.8
