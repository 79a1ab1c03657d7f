"""Blocks with scale factors, held to the definitions element by element, and to the number types of ml_dtypes."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.host_layout.block_scaled import (
    FORMATS,
    Blocks,
    as_multiplied,
    bytes_of,
    dequantise,
    element_values,
    factor_values,
    quantise,
    tensor_scale,
)
from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.verification import reference

NAMES = dtypes.SCALED_OPERANDS
ELEMENT = {"mxfp8": ml_dtypes.float8_e4m3fn, "mxfp4": ml_dtypes.float4_e2m1fn, "nvfp4": ml_dtypes.float4_e2m1fn}


def restored(name: str, array: np.ndarray, groups: int = 1) -> np.ndarray:
    layout = FORMATS[name]
    return dequantise(layout, quantise(layout, array, groups), array.shape[1], groups)


def by_definition(name: str, block: np.ndarray, tensor: float) -> np.ndarray:
    """One block by the text of the specifications."""
    layout, most = FORMATS[name], float(np.abs(block).max())
    if most == 0:
        return np.zeros(block.size)
    if layout.factor == "ue8m0":
        largest_exponent = math.floor(math.log2(layout.largest))
        scale = 2.0 ** max(-127, min(127, math.floor(math.log2(most)) - largest_exponent))
    else:
        scale = tensor * float(np.float32(most / (layout.largest * tensor)).astype(ml_dtypes.float8_e4m3fn))
    if scale == 0:
        return np.zeros(block.size)
    cut = np.clip(block / scale, -layout.largest, layout.largest)
    return cut.astype(np.float32).astype(ELEMENT[name]).astype(np.float64) * scale


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**31), channels=st.integers(1, 70), spread=st.integers(0, 20), small=st.booleans())
@settings(max_examples=some(40), deadline=None)
def test_every_block_is_that_of_the_definition(name, seed, channels, spread, small):
    rng = np.random.default_rng(seed)
    array = rng.standard_normal((2, channels, 3)) * 2.0 ** rng.integers(-spread, spread + 1, (2, channels, 3))
    array = np.float32(array * (2.0**-100 if small else 1.0))
    block, scale = FORMATS[name].block, tensor_scale(FORMATS[name], array)
    found = restored(name, array)
    for n, first, pixel in np.ndindex(2, -(-channels // block), 3):
        where = (n, slice(block * first, block * (first + 1)), pixel)
        assert np.array_equal(found[where], by_definition(name, np.float64(array[where]), scale))


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**31), groups=st.integers(1, 4), own=st.integers(1, 40))
@settings(max_examples=some(20), deadline=None)
def test_groups_have_blocks_of_their_own(name, seed, groups, own):
    array = np.random.default_rng(seed).standard_normal((2, groups * own, 2, 2))
    array[0, 0, 0, 0] = np.abs(array).max() + 1  # in the first group, whose largest number nvfp4 asks for
    found = restored(name, array, groups)
    first = restored(name, array[:, :own])
    assert np.array_equal(found[:, :own], first)
    moved = array.copy()
    moved[:, :own] *= 2.0**-20
    moved[0, 0, 0, 0] = array[0, 0, 0, 0]
    assert np.array_equal(restored(name, moved, groups)[:, own:], found[:, own:])


@pytest.mark.parametrize("name", NAMES)
def test_an_element_is_within_the_unit_of_the_largest_of_its_block(name):
    array = np.random.default_rng(3).standard_normal((50, 96, 2))
    layout = FORMATS[name]
    error = np.abs(restored(name, array) - array).reshape(50, -1, layout.block, 2)
    most = np.abs(array).reshape(50, -1, layout.block, 2).max(axis=2, keepdims=True)
    assert (error <= layout.unit_roundoff * most).all()
    assert (error > layout.unit_roundoff / 4 * most).any()


def test_ties_go_to_the_even_code():
    layout = FORMATS["mxfp4"]
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    block = np.concatenate((ties, -ties, [6.0], np.zeros(17))).reshape(1, 32)
    wanted = [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    assert restored("mxfp4", block)[0, :15].tolist() == [*wanted, *(-value for value in wanted), 6.0]
    assert layout.element == "e2m1"


@pytest.mark.parametrize(
    ("name", "most", "factor", "restores"),
    [("mxfp4", 7.9, 1.0, 6.0), ("mxfp8", 511.0, 1.0, 448.0), ("mxfp4", 8.0, 2.0, 8.0), ("mxfp8", 1.0, 2.0**-8, 1.0)],
)
def test_factors_of_mx_are_cut_powers_of_two(name, most, factor, restores):
    """OCP's factor can be too small for the largest number, which is then cut."""
    blocks = quantise(FORMATS[name], np.array([[most]]))
    assert factor_values(FORMATS[name], blocks.factors).item() == factor
    assert restored(name, np.array([[most]])).item() == restores


def test_the_scale_of_a_tensor_is_the_smallest_power_of_two_that_is_enough():
    layout = FORMATS["nvfp4"]
    for most, scale in ((6 * 448.0, 1.0), (6 * 448.0 * 1.001, 2.0), (6 * 224.0, 0.5), (0.0, 1.0), (np.inf, 1.0)):
        assert tensor_scale(layout, np.array([[most, 0.0]])) == scale
    assert tensor_scale(FORMATS["mxfp4"], np.array([[1e9]])) == 1.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_block_with_no_number_is_none(name, bad):
    array = np.full((1, 64), 6.0)
    array[0, 3] = bad
    found, block = restored(name, array), FORMATS[name].block
    assert np.isnan(found[0, :block]).all()
    assert (found[0, block:] == 6).all()


@pytest.mark.parametrize("name", NAMES)
def test_zeros_and_the_ends_of_float32_are_kept_or_flushed(name):
    tiny, huge = np.float32(1e-44), np.float32(3e38)
    assert not restored(name, np.zeros((1, 40))).any()
    assert restored(name, np.full((1, 2), huge))[0, 0] == pytest.approx(huge, rel=0.25)
    assert abs(restored(name, np.full((1, 2), tiny))[0, 0]) <= 2 * tiny


@pytest.mark.parametrize("name", ["mxfp4", "nvfp4"])
def test_even_channels_are_the_low_halves_of_bytes(name):
    layout = FORMATS[name]
    blocks = Blocks(elements=np.arange(16, dtype=np.uint8).reshape(1, 16), factors=np.zeros((1, 1), np.uint8), tensor=1)
    packed, _ = bytes_of(layout, blocks)
    assert packed.tolist() == [[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]]
    as_numbers = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    assert np.array_equal(element_values(layout, np.arange(16, dtype=np.uint8)), as_numbers)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("transposed", [False, True])
def test_filters_are_quantised_along_the_channels_that_are_summed(name, transposed):
    """Convolving what is multiplied is convolving each output channel's own filter, quantised alone."""
    problem = ConvProblem(
        in_channels=80,
        out_channels=6,
        groups=2,
        in_extent=(3,),
        kernel=(2,),
        transposed=transposed,
        operand=name,
        out="f32",
    )
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal(problem.x_shape), rng.standard_normal(problem.w_shape)
    pixels, taps = as_multiplied(problem, x, w)
    assert (pixels.shape, taps.shape) == (x.shape, w.shape)
    scale = tensor_scale(FORMATS[name], w)
    for k in range(6):
        group = k // 3
        own = w[40 * group : 40 * (group + 1), k % 3] if transposed else w[k]
        used = taps[40 * group : 40 * (group + 1), k % 3] if transposed else taps[k]
        for tap in range(2):
            block = FORMATS[name].block
            for first in range(0, 40, block):
                piece = slice(first, first + block)
                assert np.array_equal(used[piece, tap], by_definition(name, own[piece, tap], scale))
    assert reference.conv_problem(problem, pixels, taps).shape == problem.y_shape


def test_other_types_are_multiplied_as_they_are():
    problem = ConvProblem(in_channels=2, out_channels=1, in_extent=(3,), kernel=(2,))
    x, w = np.ones(problem.x_shape), np.ones(problem.w_shape)
    assert as_multiplied(problem, x, w)[0] is x
    assert as_multiplied(problem, x, w)[1] is w


@pytest.mark.parametrize(("name", "number"), [("mxfp8", 2.0**-133), ("mxfp4", 2.0**-128), ("nvfp4", 6 * 2.0**-140)])
def test_the_smallest_factor_is_not_passed(name, number):
    """ue8m0 ends at 2^-127: what is smaller has smaller elements under that factor."""
    assert restored(name, np.array([[number]])).item() == number


def test_floors_raise_what_the_tensor_core_cannot_align_below():
    """Elements to 1 (e2m1) or 2^-6 (e4m3), factors of ue4m3 to 2^-6; zeros stay."""
    four, eight, tiny = FORMATS["mxfp4"], FORMATS["mxfp8"], FORMATS["nvfp4"]
    for layout, block, raised in (
        (four, [6.0, -0.5, 0.0], [6.0, 1.0, 0.0]),
        (eight, [256.0, -(2.0**-9), 0.0], [256.0, 2.0**-6, 0.0]),
    ):
        blocks = quantise(layout, np.array([block]))
        assert dequantise(layout, blocks, 3, floors=True).tolist() == [raised]
    factor = np.array([[1]], np.uint8)  # 2^-9
    blocks = Blocks(elements=np.full((1, 16), 7, np.uint8), factors=factor, tensor=1.0)
    assert dequantise(tiny, blocks, 1).item() == 6 * 2.0**-9
    assert dequantise(tiny, blocks, 1, floors=True).item() == 6 * 2.0**-6


@pytest.mark.parametrize("name", FORMATS)
def test_limits_of_elements_are_those_of_their_types(name):
    form = FORMATS[name]
    info = ml_dtypes.finfo({"e4m3": ml_dtypes.float8_e4m3fn, "e2m1": ml_dtypes.float4_e2m1fn}[form.element])
    assert (form.largest, form.smallest) == (float(info.max), float(info.smallest_normal))
