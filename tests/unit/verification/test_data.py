"""Test data: representable, exact, reproducible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.errors import LimitError
from convc.host_layout.block_scaled import as_multiplied
from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.support import memory as limits
from convc.verification import reference
from convc.verification.data import integer_data, multipliers, normal_data

types = st.tuples(st.sampled_from(dtypes.FLOAT_OPERANDS), st.sampled_from(dtypes.FLOAT_OUTPUTS))


def make(channels: int, kernel: tuple[int, int] = (3, 3), filters: int = 4, **fields) -> ConvProblem:
    return ConvProblem(in_channels=channels, out_channels=filters, in_extent=(6, 7), kernel=kernel, **fields)


@given(st.integers(1, 600), types, st.booleans(), st.integers(0, 5))
@settings(max_examples=some(40), deadline=None)
def test_integer_data_are_exact_whatever_the_order(channels, types, bias, seed):
    problem = make(channels, operand=types[0], out=types[1], bias=bias)
    x, w, b = integer_data(problem, seed)
    for array in (x, w):
        assert array.dtype == np.float32
        assert np.array_equal(array, np.rint(array))
        assert np.array_equal(array, dtypes.quantise(problem.operand_dtype, array))
        assert array.any()
    for array, kept in zip((x, w), as_multiplied(problem, x, w), strict=True):
        assert np.array_equal(array, kept)
    assert np.count_nonzero(w) > w.size / 2
    assert (b is not None) == bias
    bias_part = np.abs(b).reshape(-1, 1, 1) if bias else 0
    largest = (reference.conv_problem(problem, np.abs(x), np.abs(w)) + bias_part).max()
    assert largest < 2**24
    assert largest <= problem.out_dtype.max_finite
    # any partial sum is a whole number below 2^24: float32 in two different orders gives the same
    y = reference.conv_problem(problem, x, w, b)
    columns = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), (1, 2)).transpose(0, 3, 4, 1, 2)
    terms = columns.reshape(channels * 9, 1, -1) * w.reshape(4, -1).T[:, :, None]
    for order in (terms, terms[::-1]):
        total = np.add.reduce(order, axis=0, dtype=np.float32).reshape(y[0].shape)
        assert np.array_equal(total + (b.reshape(-1, 1, 1) if bias else 0), y[0])


@pytest.mark.parametrize("out", dtypes.FLOAT_OUTPUTS)
@pytest.mark.parametrize("channels", [3, 64, 512])
def test_results_are_mostly_exact_in_the_result_type(out, channels):
    problem = make(channels, out=out)
    x, w, b = integer_data(problem, 0)
    y = reference.conv_problem(problem, x, w, b)
    stored = dtypes.decode(problem.out_dtype, dtypes.encode(problem.out_dtype, y))
    assert np.mean(stored == y) > 0.99
    assert np.std(y) > min(1000, 2**problem.out_dtype.precision / 32), "values too small to tell much"


def test_very_long_sums_use_few_weights():
    problem = make(9000, kernel=(6, 7), filters=2)
    x, w, _ = integer_data(problem, 0)
    assert problem.gemm_k > 65504
    assert np.abs(reference.conv_problem(problem, np.abs(x), np.abs(w))).max() <= 65504
    assert (np.count_nonzero(w.reshape(2, -1), axis=1) > 30000).all()


@pytest.mark.parametrize("operand", dtypes.FLOAT_OPERANDS)
def test_normal_data_have_unit_variance_and_fit_the_operand_type(operand):
    problem = make(128, filters=64, operand=operand, bias=True)
    x, w, b = normal_data(problem, 0)
    for array in (x, w):
        assert np.array_equal(array, dtypes.quantise(problem.operand_dtype, array))
    assert np.array_equal(b, dtypes.quantise(problem.out_dtype, b))
    assert np.std(reference.conv_problem(problem, x, w)) == pytest.approx(1, rel=0.1)


def test_weights_of_a_model_are_taken():
    problem = make(4)
    own = np.ones(problem.w_shape, np.float32)
    x, w, b = normal_data(problem, 0, own)
    assert w is own
    assert b is None
    assert np.array_equal(x, normal_data(problem, 0)[0])


@pytest.mark.parametrize("draw", [integer_data, normal_data])
def test_seeds_decide(draw):
    problem = make(5, bias=True)
    for first, again, other in zip(draw(problem, 1), draw(problem, 1), draw(problem, 2), strict=True):
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


@pytest.mark.parametrize("draw", [integer_data, normal_data])
def test_memory_is_asked_for(draw, monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: 1000)
    with pytest.raises(LimitError, match=r"the test data of 'big' .* needs"):
        draw(make(64, name="big"), 0)


@pytest.mark.parametrize(("operand", "filters"), [("u8", "s8"), ("s8", "u8"), ("u8", None), ("s8", None)])
def test_whole_numbers_use_the_range_of_their_types(operand, filters):
    problem = make(32, operand=operand, filter_operand=filters, out="s32", bias=True, filters=64)
    x, w, b = integer_data(problem, 0)
    for array, dtype in ((x, problem.operand_dtype), (w, problem.filter_dtype)):
        assert (array.min(), array.max()) == (dtype.min_finite, dtype.max_finite)
    sums = reference.conv_problem(problem, x, w, b)
    wrapped = (sums < -(2**31)) | (sums >= 2**31)
    assert 0.05 < np.mean(wrapped) < 0.3
    x, w, b = normal_data(problem, 0)
    for array, dtype in ((x, problem.operand_dtype), (w, problem.filter_dtype), (b, problem.sum_dtype)):
        assert np.array_equal(array, dtypes.decode(dtype, dtypes.encode(dtype, array)))
        assert np.std(array) > 20
    assert multipliers(problem, 0) is None


@pytest.mark.parametrize("out", ["u8", "s8"])
def test_multipliers_spread_the_result_over_its_range(out):
    problem = make(32, operand="s8", out=out, filters=64, out_zero_point=100 if out == "u8" else 0)
    x, w, b = normal_data(problem, 0)
    scale = multipliers(problem, 0)
    y = reference.conv_problem(problem, x, w, b, scale)
    assert scale.shape == (64,)
    assert np.unique(y).size > 200
    assert 0 < np.mean((y == y.min()) | (y == y.max())) < 0.3
