"""Filter columns folded into K: the rows that a tensor map finds in the buffer are the pixels that the filter reads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.compiler.plan.loads import activation_axes
from convc.errors import PlanError
from convc.host_layout.columns import why_not_joined
from convc.host_layout.device_layout import DeviceLayout, device_layout
from convc.host_layout.handover import why_not_shared
from convc.host_layout.repack import pack_activation, pack_filter
from convc.ir import dtypes
from convc.ir.problem import ConvProblem
from convc.report.layout_notes import layout_notes
from convc.verification import reference

STEM = ConvProblem(
    in_channels=3, out_channels=64, in_extent=(224, 224), kernel=(7, 7), stride=(2, 2), pad_lo=(3, 3), pad_hi=(3, 3)
)


@st.composite
def problems(draw, operands: tuple[str, ...] = ("f16", "tf32", "s8")) -> ConvProblem:
    """Few channels, rows and images, filters up to 11 columns, strides up to 3."""
    rank = draw(st.integers(1, 2))
    kernel = (3, draw(st.integers(2, 11)))[-rank:]
    pads = draw(st.tuples(*[st.integers(0, 5)] * 4))
    extent = (draw(st.integers(3, 8)), draw(st.integers(max(1, kernel[-1] - pads[1] - pads[3]), 24)))[-rank:]
    operand = draw(st.sampled_from(operands))
    return ConvProblem(
        batch=draw(st.integers(1, 2)),
        in_channels=draw(st.integers(1, 8)),
        out_channels=4,
        in_extent=extent,
        kernel=kernel,
        stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))[-rank:],
        pad_lo=pads[:2][-rank:],
        pad_hi=pads[2:][-rank:],
        operand=operand,
        out="s32" if operand == "s8" else "f32",
    )


def rows_of(layout: DeviceLayout, packed: np.ndarray) -> np.ndarray:
    """The activations as the tensor map has them: (N, H, Q, S*C') by its strides."""
    dims, strides = activation_axes(layout)
    element = dtypes.BY_NAME[layout.activation.dtype].storage.itemsize
    return np.lib.stride_tricks.as_strided(packed, dims[::-1], (element, *strides)[::-1], writeable=False)


@settings(max_examples=some(60), deadline=None)
@given(problems(), st.sampled_from(["overlap", "host"]), st.integers(0, 99))
def test_the_kernels_problem_is_the_models(problem, columns, seed):
    layout = device_layout(problem, columns)
    device = layout.problem
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, problem.x_shape).astype(np.float32)
    w = rng.integers(-4, 5, problem.w_shape).astype(np.float32)
    rows = rows_of(layout, pack_activation(layout, x))[..., : device.in_channels].astype(np.float64)
    taps = pack_filter(layout, w).astype(np.float64)
    found = reference.conv(
        np.moveaxis(rows, -1, 1),
        np.moveaxis(taps[..., : device.in_channels].reshape(4, *device.kernel, -1), -1, 1),
        None,
        stride=device.stride,
        dilation=device.dilation,
        pads=(device.pad_lo, device.pad_hi),
    )
    pads = (problem.pad_lo, problem.pad_hi)
    expected = reference.conv(x, w, None, stride=problem.stride, dilation=problem.dilation, pads=pads)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    assert not taps[..., device.in_channels :].any()
    assert all(stride % 16 == 0 for stride in activation_axes(layout)[1])


def test_a_stem_is_stored_once():
    layout = device_layout(STEM, "overlap")
    assert layout.activation.shape == (1, 224, 230, 4)
    assert layout.filter.shape == (64, 7, 32)
    assert activation_axes(layout) == ((28, 112, 224, 1), (16, 230 * 8, 224 * 230 * 8))
    assert layout_notes(layout)[1] == (
        "the 7 columns of a filter row are folded into K: the rows of the tensor map are 7 pixels of 4 channels, 16 "
        "bytes apart, so that they overlap; image rows have 230 pixels, padding included"
    )


@pytest.mark.parametrize(
    ("operand", "stride", "channels"), [("f16", 1, 8), ("f16", 2, 4), ("f16", 4, 4), ("tf32", 1, 4), ("s8", 2, 8)]
)
def test_pixels_are_filled_up_to_whole_steps(operand, stride, channels):
    """The stride along W times the bytes of a pixel is a multiple of 16: three channels take 4 or 8."""
    out = "s32" if operand == "s8" else "f32"
    layout = device_layout(dataclasses.replace(STEM, operand=operand, stride=(1, stride), out=out), "overlap")
    assert layout.overlap is not None
    assert layout.overlap.channels == channels


@pytest.mark.parametrize(
    ("changes", "columns", "reason"),
    [
        ({"kernel": (7, 1)}, "overlap", "the filter has one column"),
        ({"dilation": (1, 2)}, "overlap", "dilation 2 leaves out pixels, and those of a row lie side by side"),
        ({"groups": 3, "out_channels": 66}, "host", "the channels of groups are packed already"),
        ({"stride": (1, 9)}, "host", "the columns are folded already"),
        ({"stride": (9, 1)}, "overlap", "the rows are folded already"),
        ({"operand": "mxfp8"}, "overlap", "scale factors lie behind the channels of a pixel"),
    ],
)
def test_columns_that_cannot_be_channels(changes, columns, reason):
    problem = dataclasses.replace(STEM, **changes)
    with pytest.raises(PlanError, match=f"filter columns cannot become channels: {reason}"):
        device_layout(problem, columns)


def test_the_host_can_join_dilated_columns():
    dilated = dataclasses.replace(STEM, dilation=(1, 2))
    assert why_not_joined(dilated, "host") is None
    assert device_layout(dilated, "host").problem.in_channels == 21


def test_the_buffer_comes_from_the_host():
    """A kernel cannot write what overlapping rows are read from: pixels of its output have another pitch."""
    producer = device_layout(ConvProblem(in_channels=8, out_channels=3, in_extent=(224, 224), kernel=(1, 1)))
    assert why_not_shared(producer, device_layout(STEM, "overlap")) == "an axis of the consumer is folded"
