"""Packing: the device arrays hold the model's numbers, and the device problem computes the model's convolution."""

from __future__ import annotations

import math

import ml_dtypes
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.errors import InputError, LimitError, ProblemError
from convc.host_layout.device_layout import DeviceLayout, device_bytes, device_layout
from convc.host_layout.repack import (
    pack_activation,
    pack_bias,
    pack_filter,
    unpack_output,
)
from convc.ir.arch import SM_100A
from convc.ir.problem import ConvProblem
from convc.report.layout_notes import layout_notes
from convc.support import memory as limits
from convc.verification import reference

LIMITS = SM_100A.limits


def run_on_device(layout: DeviceLayout, x, w, b) -> np.ndarray:
    """What a right kernel would leave in the output buffer: the device problem, on nothing but the packed arrays."""
    device = layout.problem
    pixels = np.moveaxis(pack_activation(layout, x).astype(np.float64), -1, 1)
    taps = pack_filter(layout, w).astype(np.float64).reshape(device.out_channels, *device.kernel, layout.c_pitch)
    y = reference.conv(
        pixels,
        np.moveaxis(taps, -1, 1),
        pack_bias(layout, b)[: device.out_channels],
        stride=device.stride,
        dilation=device.dilation,
        pads=(device.pad_lo, device.pad_hi),
    )
    buffer = np.full(layout.output.shape, np.nan, device.out_dtype.storage)
    buffer[..., : device.out_channels] = np.moveaxis(y, 1, -1)
    return buffer


def integers(problem: ConvProblem, seed: int = 0):
    rng = np.random.default_rng(seed)
    return (
        rng.integers(-4, 5, problem.x_shape).astype(np.float32),
        rng.integers(-4, 5, problem.w_shape).astype(np.float32),
        rng.integers(-9, 9, problem.out_channels).astype(np.float32),
    )


@st.composite
def problems(draw, channels: int = 17, largest_stride: int = 20, largest_pad: int = 12, largest_dilation: int = 6):
    def axes(low: int, high: int):
        return draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    fields = {
        "batch": draw(st.integers(1, 2)),
        "in_channels": draw(st.integers(1, channels)),
        "out_channels": draw(st.integers(1, 9)),
        "in_extent": axes(1, 40),
        "kernel": axes(1, 5),
        "stride": axes(1, largest_stride),
        "dilation": axes(1, largest_dilation),
        "pad_lo": axes(0, largest_pad),
        "pad_hi": axes(0, largest_pad),
        "operand": draw(st.sampled_from(["f16", "bf16", "tf32"])),
        "out": "f32",
    }
    try:
        return ConvProblem(**fields)
    except ProblemError:  # an empty output: pad until there is one
        return ConvProblem(**(fields | {"pad_hi": (4 * largest_dilation, 4 * largest_dilation)}))


@given(problems(), st.integers(0, 9))
@settings(max_examples=some(80), deadline=None)
def test_the_device_problem_is_the_same_convolution(problem, seed):
    layout = device_layout(problem)
    x, w, b = integers(problem, seed)
    y = unpack_output(layout, run_on_device(layout, x, w, b))
    assert np.array_equal(y, reference.conv_problem(problem, x, w, b))


@given(problems(channels=3, largest_pad=150, largest_dilation=90))
@settings(max_examples=some(60), deadline=None)
def test_beyond_the_offsets_and_corners_of_im2col(problem):
    layout = device_layout(problem)
    device = layout.problem
    for axis in range(2):
        reach = device.span[axis] - 1
        assert device.stride[axis] <= 8
        assert reach <= 255
        assert device.pad_lo[axis] <= 128
        assert -128 <= device.pad_hi[axis] - reach <= 127
    assert device.out_extent == problem.out_extent
    x, w, b = integers(problem)
    y = unpack_output(layout, run_on_device(layout, x, w, b))
    assert np.array_equal(y, reference.conv_problem(problem, x, w, b))


@given(problems())
@settings(max_examples=some(40), deadline=None)
def test_shapes_pitches_and_types(problem):
    layout = device_layout(problem)
    device = layout.problem
    x, w, b = integers(problem)
    packed = pack_activation(layout, x), pack_filter(layout, w), pack_bias(layout, b)
    for array, buffer in zip(packed, (layout.activation, layout.filter, layout.bias), strict=True):
        assert array.shape == buffer.shape
        assert array.nbytes == buffer.size_bytes
        assert array.flags.c_contiguous
    for pitch, dtype in ((layout.c_pitch, device.operand_dtype), (layout.k_pitch, device.out_dtype)):
        assert pitch * dtype.bytes % 16 == 0
    assert 0 <= layout.c_pitch - device.in_channels < 8
    assert layout.filter.shape == (device.out_channels, math.prod(device.kernel), layout.c_pitch)
    assert not packed[0][..., device.in_channels :].any()
    assert not packed[1][..., device.in_channels :].any()
    assert packed[2].shape[0] % 256 == 0
    assert np.array_equal(packed[2][: problem.out_channels], b)
    assert not packed[2][problem.out_channels :].any()
    total = sum(array.nbytes for array in packed) + math.prod(layout.output.shape) * device.out_dtype.bytes
    assert device_bytes(layout) == total


def test_layout_of_an_ordinary_layer():
    problem = ConvProblem(batch=2, in_channels=3, out_channels=5, in_extent=(4, 6), kernel=(2, 3), operand="bf16")
    layout = device_layout(problem)
    assert layout.problem == problem
    assert layout.folds == (None, None)
    x, w, _ = integers(problem)
    packed = pack_activation(layout, x)
    assert packed.dtype == ml_dtypes.bfloat16
    assert np.array_equal(packed[1, 2, 4, :3].astype(np.float32), x[1, :, 2, 4])
    assert np.array_equal(pack_filter(layout, w)[4, 1 * 3 + 2, :3].astype(np.float32), w[4, :, 1, 2])
    assert pack_bias(layout, None).tolist() == [0.0] * 256


@pytest.mark.parametrize("channels", [1, 8, 127, 128, 129, 136, 250, 256, 257, 1000])
def test_whole_tiles_of_any_width_lie_in_the_bias_buffer(channels):
    problem = ConvProblem(in_channels=8, out_channels=channels, in_extent=(4, 4), kernel=(1, 1), operand="f16")
    (length,) = device_layout(problem).bias.shape
    widths = range(LIMITS.mma_n_step, LIMITS.mma_n_max + 1, LIMITS.mma_n_step)
    ends = [-(-channels // width) * width for width in widths]
    assert max(ends) <= length < max(ends) + LIMITS.mma_n_max


def test_packing_rounds_to_the_operand_type():
    problem = ConvProblem(in_channels=1, out_channels=1, in_extent=(1, 1), kernel=(1, 1), operand="tf32", out="f32")
    layout = device_layout(problem)
    value = np.full((1, 1, 1, 1), 1 + 2.0**-11 + 2.0**-30)
    assert pack_activation(layout, value)[0, 0, 0, 0] == 1 + 2.0**-10
    assert pack_filter(layout, value.astype(np.float32))[0, 0, 0] == 1.0  # a tie once it is float32: to even


def test_a_patch_embedding_becomes_a_1x1_convolution():
    problem = ConvProblem(in_channels=3, out_channels=768, in_extent=(224, 224), kernel=(16, 16), stride=(16, 16))
    layout = device_layout(problem)
    assert layout.problem.in_channels == 16 * 16 * 3
    assert layout.problem.in_extent == (14, 14)
    assert layout.problem.kernel == (1, 1)
    assert layout.problem.macs == problem.macs
    notes = layout_notes(layout)
    assert "294 KiB become 294 KiB (1.00x)" in notes[0]
    assert notes[1] == (
        "stride 16 along H exceeds 8, the maximum of a tensor map: the host folds 16 pixels of every block "
        "of 16 into channels, and the kernel has 1 tap(s) with stride 1"
    )
    x = np.arange(3 * 224 * 224, dtype=np.float32).reshape(problem.x_shape) % 1024
    # channel order: place along H, place along W, C
    assert pack_activation(layout, x)[0, 3, 5, (7 * 16 + 2) * 3 + 1] == x[0, 1, 3 * 16 + 7, 5 * 16 + 2]


def test_only_the_places_that_taps_read_are_kept():
    problem = ConvProblem(
        in_channels=4, out_channels=2, in_extent=(100, 5), kernel=(3, 1), stride=(10, 1), dilation=(10, 1)
    )
    layout = device_layout(problem)
    assert layout.folds[0].places == (0,)
    assert layout.folds[1] is None
    assert layout.problem.kernel == (3, 1)
    assert layout.problem.in_channels == 4


def test_a_very_long_filter_is_unrolled():
    problem = ConvProblem(in_channels=2, out_channels=1, in_extent=(1, 400), kernel=(1, 300))
    layout = device_layout(problem)
    assert layout.problem.kernel == (1, 1)
    assert layout.problem.in_channels == 600
    notes = layout_notes(layout)
    assert notes[1].startswith("along W the filter spans 300 pixels with padding (0, 0), which exceeds the corners")


def test_notes_say_what_padding_costs():
    problem = ConvProblem(in_channels=3, out_channels=10, in_extent=(8, 8), kernel=(1, 1), out="f32")
    assert layout_notes(device_layout(problem)) == (
        "the host converts activations from NCHW to NHWC: 384 bytes become 1 KiB (2.67x)",
        "3 channels padded to 8 (16 bytes a pixel, a multiple of 16 for the tensor map): "
        "2.67x activation and filter bytes",
        "10 output channels padded to 12 (48 bytes a pixel): 1.20x output bytes",
    )


def test_unpacking_drops_the_padding_and_keeps_the_type():
    problem = ConvProblem(batch=2, in_channels=8, out_channels=3, in_extent=(4, 5), kernel=(1, 1))
    layout = device_layout(problem)
    y = np.random.default_rng(0).standard_normal(layout.output.shape).astype(np.float16)
    got = unpack_output(layout, y)
    assert got.shape == (2, 3, 4, 5)
    assert got.dtype == np.float16
    assert got.flags.c_contiguous
    assert got[1, 2, 3, 4] == y[1, 3, 4, 2]


@given(problems())
@settings(max_examples=some(30), deadline=None)
def test_a_form_can_be_stored(problem):
    layout = device_layout(problem)
    assert msgspec.json.decode(msgspec.json.encode(layout), type=DeviceLayout) == layout


def test_wrong_shapes_are_refused():
    layout = device_layout(ConvProblem(name="c1", in_channels=2, out_channels=3, in_extent=(4, 5), kernel=(1, 1)))
    with pytest.raises(InputError, match=r"x must have shape \(1, 2, 4, 5\), got \(1, 4, 5, 2\)"):
        pack_activation(layout, np.zeros((1, 4, 5, 2)))
    with pytest.raises(InputError, match=r"w must have shape \(3, 2, 1, 1\)"):
        pack_filter(layout, np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"bias must have shape \(3,\), got \(4,\)"):
        pack_bias(layout, np.zeros(4))
    with pytest.raises(InputError, match="the output buffer must have shape"):
        unpack_output(layout, np.zeros((1, 4, 5, 3)))


def test_memory_is_asked_for(monkeypatch):
    layout = device_layout(ConvProblem(in_channels=2, out_channels=3, in_extent=(4, 5), kernel=(1, 1)))
    monkeypatch.setattr(limits, "available_memory", lambda: 100)
    with pytest.raises(LimitError, match="repacking x of 'conv' needs 320 bytes"):
        pack_activation(layout, np.zeros((1, 2, 4, 5)))
