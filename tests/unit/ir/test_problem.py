"""The geometry of a convolution, and the messages for impossible ones."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convc.errors import ProblemError
from convc.ir.problem import ConvProblem, macs_text

NAMES = "f16, bf16, tf32, e4m3, e5m2, bf16x3, bf16x6, tf32x3, mxfp8, mxfp4, nvfp4, u8, s8"


def make(**changes) -> ConvProblem:
    fields = {"in_channels": 3, "out_channels": 8, "in_extent": (10, 12), "kernel": (3, 3)}
    return ConvProblem(**(fields | changes))


def test_stem_of_resnet50():
    problem = make(
        name="conv1",
        batch=2,
        out_channels=64,
        in_extent=(224, 224),
        kernel=(7, 7),
        stride=(2, 2),
        pad_lo=(3, 3),
        pad_hi=(3, 3),
        out="f32",
        bias=True,
    )
    assert problem.out_extent == (112, 112)
    assert (problem.gemm_m, problem.gemm_n, problem.gemm_k) == (2 * 112 * 112, 64, 147)
    assert problem.macs == 2 * 112 * 112 * 64 * 147
    assert problem.x_shape == (2, 3, 224, 224)
    assert problem.w_shape == (64, 3, 7, 7)
    assert problem.y_shape == (2, 64, 112, 112)
    assert problem.describe() == (
        "conv1: 2x3x224x224 * 64x3x7x7 -> 2x64x112x112, stride 2, pad 3, bias, f16 to f32, "
        "GEMM 25088 x 64 x 147, 236 MMAC"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 MAC"), (999, "999 MAC"), (72576, "72.58 kMAC"), (9_663_676_416, "9.664 GMAC"), (3 * 10**21, "3000 EMAC")],
)
def test_multiply_adds_have_a_unit(count, text):
    assert macs_text(count) == text


def test_describe_tells_axes_apart():
    text = make(stride=(1, 2), dilation=(2, 1), pad_lo=(1, 0), operand="bf16", out="bf16").describe()
    assert "stride (1, 2), dilation (2, 1), pad (1, 0, 0, 0), bf16, GEMM" in text


@given(
    extent=st.integers(1, 30),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 12),
    dilation=st.integers(1, 4),
    lo=st.integers(0, 4),
    hi=st.integers(0, 4),
)
def test_out_extent_counts_the_places_where_the_filter_fits(extent, kernel, stride, dilation, lo, hi):
    starts = [s for s in range(-lo, extent + hi, stride) if s + (kernel - 1) * dilation < extent + hi]
    fields = {
        "in_extent": (extent, 9),
        "kernel": (kernel, 1),
        "stride": (stride, 1),
        "dilation": (dilation, 1),
        "pad_lo": (lo, 0),
        "pad_hi": (hi, 0),
    }
    if starts:
        assert make(**fields).out_extent == (len(starts), 9)
    else:
        with pytest.raises(ProblemError, match="no pixel along H"):
            make(**fields)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"in_channels": 0}, "in_channels must be at least 1, got 0"),
        ({"out_channels": -2}, "out_channels must be at least 1, got -2"),
        ({"in_extent": (0, 4)}, "in_extent must be at least 1 along every axis, got (0, 4)"),
        ({"kernel": (3, 0)}, "kernel must be at least 1 along every axis, got (3, 0)"),
        ({"stride": (0, 1)}, "stride must be at least 1 along every axis, got (0, 1)"),
        ({"dilation": (1, 0)}, "dilation must be at least 1 along every axis, got (1, 0)"),
        ({"pad_lo": (-1, 0)}, "pad_lo must be at least 0 along every axis, got (-1, 0)"),
        ({"pad_hi": (0, -1)}, "pad_hi must be at least 0 along every axis, got (0, -1)"),
        ({"kernel": (3,)}, "kernel must have 2 entries, as in_extent (10, 12) has, got (3,)"),
        ({"in_extent": ()}, "a convolution has 1 to 3 spatial axes, got in_extent ()"),
        ({"in_extent": (1.5, 2)}, "in_extent must be whole numbers, got (1.5, 2)"),
        ({"batch": None}, "batch must be whole numbers, got None"),
        ({"operand": "f64"}, "operand must be one of " + NAMES + ", got 'f64'"),
        ({"out": "tf32"}, "out of f16 must be one of f16, bf16, f32, got 'tf32'"),
        ({"operand": "u8"}, "out of u8 must be one of s32, u8, s8, got 'f16'"),
        (
            {"filter_operand": "f64"},
            "filter_operand must be one of " + NAMES + ", got 'f64'",
        ),
        (
            {"filter_operand": "bf16"},
            "the tensor core cannot multiply f16 by bf16: with activations of f16 it takes filters of f16",
        ),
        (
            {"operand": "u8", "out": "s32", "filter_operand": "e4m3"},
            "the tensor core cannot multiply u8 by e4m3: with activations of u8 it takes filters of u8 or s8",
        ),
        ({"operand": "u8", "out": "u8", "out_zero_point": -1}, "out_zero_point of u8 must be in 0..255, got -1"),
        ({"pad_value": 1}, "pad_value of f16 must be 0, got 1"),
        (
            {"operand": "s8", "out": "s8", "pad_value": 1, "transposed": True},
            "pad_value of a transposed convolution must be 0, got 1",
        ),
        ({"operand": "s8", "out": "s8", "pad_value": 128}, "pad_value must be a number of s8, got 128"),
        ({"operand": "u8", "out": "s32", "filter_parts": 2}, "filter_parts of u8 must be 1, got 2"),
        ({"operand": "s8", "out": "s32", "filter_parts": 0}, "filter_parts of s8 must be 1, got 0"),
        ({"out_zero_point": 3}, "out_zero_point of f16 must be in 0..0, got 3"),
        (
            {"in_extent": (10, 4), "dilation": (1, 2)},
            "the output has no pixel along W: the filter spans 5 pixels, the input with its padding has 4",
        ),
    ],
)
def test_impossible_numbers_are_refused(changes, message):
    with pytest.raises(ProblemError) as caught:
        make(name="c7", **changes)
    assert caught.value.message == message
    assert "where: convolution 'c7'" in str(caught.value)


def test_types_of_sums_and_filters():
    problem = make(operand="u8", filter_operand="s8", out="s8", out_zero_point=np.int8(-3))
    assert (problem.sum_dtype.name, problem.filter_dtype.name, problem.requantised) == ("s32", "s8", True)
    assert type(problem.out_zero_point) is int
    assert problem.types == "u8 x s8 -> s8"
    assert ", u8 x s8 to s8, GEMM" in problem.describe()
    wide = make(operand="u8", filter_operand="s8", filter_parts=2, out="s32", pad_value=7)
    assert wide.types == "u8 x 2 parts of s8 -> s32"
    assert ", padded with 7, u8 x 2 parts of s8 to s32, GEMM" in wide.describe()
    same = make(operand="e4m3", filter_operand="e4m3")
    assert same == make(operand="e4m3")
    assert (same.sum_dtype.name, same.types, same.requantised) == ("f32", "e4m3 -> f16", False)


def test_negative_pads_come_with_a_hint():
    with pytest.raises(ProblemError) as caught:
        make(pad_lo=(0, -3))
    assert caught.value.hint == "crop the input before the convolution instead"


def test_other_ranks_and_number_types():
    problem = make(in_extent=[np.int64(9)], kernel=[3], stride=[1], dilation=[1], pad_lo=[0], pad_hi=[1])
    assert problem.in_extent == (9,)
    assert type(problem.in_extent[0]) is int
    assert problem.out_extent == (8,)


def test_records_can_be_compared_replaced_and_stored():
    problem = make(stride=(2, 1))
    assert dataclasses.replace(problem, name="other") != problem
    assert hash(make(stride=(2, 1))) == hash(problem)
    text = msgspec.json.encode(problem)
    assert msgspec.json.decode(text, type=ConvProblem) == problem
    with pytest.raises(ProblemError):
        msgspec.json.decode(text.replace(b'"batch":1', b'"batch":0'), type=ConvProblem)
