"""Zero points taken out of a convolution: the same results, modulo 2^32, with types that the tensor core has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.frontend.zero_points import filter_type, multiplier_of, remove_zero_points
from convc.host_layout.expand import split_filter
from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.verification import reference

RANGE = {"u8": (0, 255), "s8": (-128, 127)}


def definition(problem: ConvProblem, x, w, zx: int, zw, bias) -> np.ndarray:
    """The sum as the operator defines it: differences first, then zero padding; int32 that wraps."""
    zeros = np.asarray(zw, np.int64).reshape(-1, *(1,) * (w.ndim - 1))
    sums = reference.conv(
        x.astype(np.int64) - zx,
        w.astype(np.int64) - zeros,
        bias,
        stride=problem.stride,
        dilation=problem.dilation,
        pads=(problem.pad_lo, problem.pad_hi),
        groups=problem.groups,
    )
    return dtypes.encode(dtypes.S32, sums)


@given(
    st.sampled_from(["u8", "s8"]),
    st.sampled_from(["u8", "s8"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=some(60), deadline=None)
def test_the_results_are_those_of_the_definition(operand, filters, per_channel, padded, biased, groups, seed):
    rng = np.random.default_rng(seed)
    problem = ConvProblem(
        batch=2,
        in_channels=3 * groups,
        out_channels=2 * groups,
        in_extent=(4, 5),
        kernel=(2, 3),
        groups=groups,
        operand=operand,
        filter_operand=filters,
        out="s32",
        pad_lo=(padded, 2 * padded),
        pad_hi=(0, padded),
        bias=biased,
    )
    (x_low, x_high), (w_low, w_high) = RANGE[operand], RANGE[filters]
    x = rng.integers(x_low, x_high + 1, problem.x_shape)
    w = rng.integers(w_low, w_high + 1, problem.w_shape)
    zx = int(rng.integers(x_low, x_high + 1))
    zw = rng.integers(w_low, w_high + 1, problem.out_channels if per_channel else ())
    bias = rng.integers(-(1 << 31), 1 << 31, problem.out_channels) if biased else None

    lowered, weight, total = remove_zero_points(problem, w, zx, zw, bias)
    assert lowered.pad_value == (zx if padded else 0)
    if lowered.filter_parts > 1:
        assert np.array_equal(weight, sum(part.astype(int) for part in split_filter(weight, lowered.filter_parts)))
    else:
        assert np.array_equal(weight, dtypes.quantise(lowered.filter_dtype, weight))
    got = dtypes.encode(dtypes.S32, reference.conv_problem(lowered, x, weight, total))
    assert np.array_equal(got, definition(problem, x, w, zx, zw, bias))


@pytest.mark.parametrize(
    ("values", "own", "expected"),
    [
        ([0, 255], "u8", ("u8", 1)),
        ([-3, 100], "u8", ("s8", 1)),
        ([-128, 127], "s8", ("s8", 1)),
        ([0, 200], "s8", ("u8", 1)),
        ([-128, 128], "u8", ("s8", 2)),
        ([-255, 254], "s8", ("s8", 2)),
        ([-1, 255], "u8", ("s8", 3)),
        ([-256, 0], "s8", ("s8", 2)),
    ],
)
def test_the_type_of_a_filter(values, own, expected):
    name, parts = filter_type(np.array(values), own)
    assert (name, parts) == expected
    if parts > 1:
        assert np.array_equal(sum(part.astype(int) for part in split_filter(np.array(values), parts)), values)
        with pytest.raises(ValueError, match="parts of s8 cannot hold weights from"):
            split_filter(np.array(values), parts - 1)


def test_nothing_is_done_where_there_is_nothing_to_do():
    problem = ConvProblem(
        in_channels=3, out_channels=2, in_extent=(4, 5), kernel=(2, 3), operand="u8", out="s32", pad_lo=(1, 1)
    )
    weight = np.arange(36).reshape(problem.w_shape)
    lowered, same, bias = remove_zero_points(problem, weight)
    assert lowered == problem
    assert np.array_equal(same, weight)
    assert bias is None


def test_multipliers_are_rounded_to_float32_after_each_operation():
    x, w, y = np.float32(0.1), np.array([0.3, 0.7], np.float32), np.float32(0.9)
    assert np.array_equal(multiplier_of(x, w, y, 2), x * w / y)
    assert multiplier_of(x, w[:1], y, 3).tolist() == [float(x * w[0] / y)] * 3
    assert multiplier_of(x, w, y, 2).dtype == np.float32
