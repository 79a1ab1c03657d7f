"""Three tf32 products for one of float32: what the parts are, and how near they come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from convc import dtypes, reference
from convc.graph.convolutions import Convolutions
from convc.graph.split import TF32X3_ERROR, halves, split_activations, split_filters


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=8))
def test_halves_are_tf32_and_add_up(values):
    array = np.array(values, np.float32)
    high, low = halves(array)
    finite = np.isfinite(dtypes.quantise(dtypes.TF32, array))
    for part in (high[finite], low[finite]):
        np.testing.assert_array_equal(dtypes.quantise(dtypes.TF32, part), part)
    lost = np.abs(high[finite].astype(np.float64) + low[finite] - array[finite])
    normal = np.abs(array[finite]) > 2.0**-100
    assert (lost[normal] <= 2.0**-22 * np.abs(array[finite][normal])).all()
    np.testing.assert_array_equal(high[~finite], array[~finite])
    assert (low[~finite] == 0).all()


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_of_the_parts_is_near_float32(groups):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 6, 7, 7), dtype=np.float32)
    w = rng.standard_normal((4, 6 // groups, 3, 3), dtype=np.float32)
    got = reference.conv(split_activations(x, groups), split_filters(w), groups=groups)
    exact, magnitude = reference.conv(x, w, groups=groups), reference.conv(abs(x), abs(w), groups=groups)
    error = np.abs(got - exact)
    assert (error <= TF32X3_ERROR * magnitude).all()
    one_pass = reference.conv(*(dtypes.quantise(dtypes.TF32, array) for array in (x, w)), groups=groups)
    assert error.max() < np.abs(one_pass - exact).max() / 500


def test_filters_of_a_transposed_convolution_are_cut_into_groups():
    w = np.arange(4 * 3 * 2, dtype=np.float32).reshape(4, 3, 2)  # (C, K / groups, taps), whole numbers: lo is 0
    wide = split_filters(w, groups=2, axis=0).reshape(2, 3, 2, 3, 2)
    for group in range(2):
        own = w[2 * group : 2 * group + 2]
        np.testing.assert_array_equal(wide[group], [own, np.zeros_like(own), own])


def test_the_kernel_keeps_what_one_pass_loses():
    x = np.full((1, 1, 4, 4), 1 + 2.0**-20, np.float32)
    w = np.full((1, 1, 1, 1), 3, np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    assert (Convolutions(precision="tf32").run(node, "y", [x, w]).run.y == 3).all()
    split = Convolutions(precision="tf32x3").run(node, "y", [x, w])
    assert (split.run.y == 3 * x).all()
    assert split.conv.problem.in_channels == 3
