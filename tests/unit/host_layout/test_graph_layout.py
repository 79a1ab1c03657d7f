"""Buffers that one kernel hands to another: when, and that it is bit for bit what repacking gives."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.schedules import RELOAD_ONLY

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.errors import InputError
from convc.host_layout.device_layout import device_layout
from convc.host_layout.handover import share_buffer, why_not_shared
from convc.host_layout.repack import pack_activation, pack_residual, unpack_output
from convc.ir import dtypes
from convc.ir.epilogue import AddResidual, Relu, Sigmoid
from convc.ir.problem import ConvProblem
from convc.runtime.layer import input_buffers, run_layer, run_packed
from convc.verification.data import normal_data

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

FIRST = ConvProblem(
    name="first",
    batch=2,
    in_channels=8,
    out_channels=18,
    in_extent=(6, 7),
    kernel=(3, 3),
    pad_lo=(1, 1),
    pad_hi=(1, 1),
    bias=True,
    epilogue=(Sigmoid(),),
)
SECOND = ConvProblem(
    name="second",
    batch=2,
    in_channels=18,
    out_channels=18,
    in_extent=(6, 7),
    kernel=(1, 1),
    epilogue=(AddResidual(), Relu()),
)


def typed(problem: ConvProblem, operand: str, out: str | None = None) -> ConvProblem:
    return dataclasses.replace(problem, operand=operand, out=out or {"tf32": "f32"}.get(operand, operand))


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@given(st.sampled_from(["f16", "bf16", "tf32"]), st.integers(1, 40), st.integers(0, 2**31), st.booleans())
def test_handing_over_is_repacking(operand, channels, seed, ugly):
    """Whatever the kernel wrote behind the last channel."""
    first = device_layout(dataclasses.replace(typed(FIRST, operand), out_channels=channels))
    second = device_layout(dataclasses.replace(typed(SECOND, operand), in_channels=channels, out_channels=channels))
    storage = dtypes.BY_NAME[first.output.dtype].storage
    packed = np.random.default_rng(seed).standard_normal(first.output.shape).astype(storage)
    if ugly:
        packed[..., channels:] = np.nan
    packed[0, 0, 0, 0], packed[0, 0, 1, 0] = np.inf, -0.0
    y = unpack_output(first, packed)
    assert same_bits(share_buffer(first, second, packed.copy(), "residual"), pack_residual(second, y))
    assert same_bits(share_buffer(first, second, packed, "activation"), pack_activation(second, y))


GROUPED = st.sampled_from([(12, 1), (12, 2), (12, 12), (64, 1), (64, 64), (64, 4), (96, 96), (20, 5), (6, 3)])


@given(GROUPED, GROUPED, st.sampled_from(["f16", "tf32"]), st.sampled_from([1, 2]), st.booleans())
def test_groups_are_handed_over_where_they_are_joined_alike(first, second, operand, rank, residual):
    """Wherever there is no obstacle, handing over is repacking; between two convolutions of one kind there is none."""
    (channels, groups), (_, others) = first, second
    if channels % others:
        others = 1
    sizes = {"in_extent": (6,) * rank, "kernel": (3,) * rank, "pad_lo": (1,) * rank, "pad_hi": (1,) * rank}
    sizes |= {"stride": (1,) * rank, "dilation": (1,) * rank, "output_padding": ()}
    base = typed(dataclasses.replace(SECOND, in_channels=channels, out_channels=channels, **sizes), operand)
    one = device_layout(dataclasses.replace(base, groups=groups, epilogue=()))
    other = device_layout(dataclasses.replace(base, groups=others))
    use = "residual" if residual else "activation"
    if why_not_shared(one, other, use) is not None:
        assert residual is False or groups != others
        return
    storage = dtypes.BY_NAME[one.output.dtype].storage
    packed = np.random.default_rng(0).standard_normal(one.output.shape).astype(storage)
    y = unpack_output(one, packed)
    wanted = pack_residual(other, y) if residual else pack_activation(other, y)
    assert same_bits(share_buffer(one, other, packed, use), wanted)


def test_a_depthwise_convolution_reads_and_is_read():
    """A depthwise convolution of 64 channels between two pointwise ones, as in MobileNet."""
    point = device_layout(ConvProblem(in_channels=64, out_channels=64, in_extent=(8, 8), kernel=(1, 1)))
    depth = device_layout(
        ConvProblem(
            in_channels=64, out_channels=64, in_extent=(8, 8), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1), groups=64
        )
    )
    assert why_not_shared(point, depth) is None
    assert why_not_shared(depth, point) is None


def test_nothing_is_copied_where_nothing_is_rounded():
    first, second = device_layout(FIRST), device_layout(SECOND)
    packed = np.ones(first.output.shape, np.float16)
    assert share_buffer(first, second, packed) is packed


@pytest.mark.parametrize("operand", ["f16", "tf32"])
def test_two_kernels_in_a_row(operand):
    """The second kernel reads what the first one wrote, twice over: the same bits as through (N, C, H, W)."""
    problems = [typed(FIRST, operand), typed(SECOND, operand)]
    layers = [layer_of(p, kernel_of(compile_problem(p, options=RELOAD_ONLY)), *normal_data(p, 3)[1:]) for p in problems]
    first, second = layers
    x = normal_data(problems[0], 3)[0]
    middle = run_layer(first, x).y
    long_way = run_layer(second, middle, residual=middle)
    packed = run_packed(first, input_buffers(first, x)).y
    assert (packed[..., 18:] != 0).any(), "sigmoid(0) behind the last channel"
    residual = share_buffer(first.layout, second.layout, packed, "residual")
    activation = share_buffer(first.layout, second.layout, packed)
    short_way = run_packed(second, {"activation": activation, "residual": residual})
    assert short_way.findings == ()
    assert same_bits(unpack_output(second.layout, short_way.y), long_way.y)


@pytest.mark.parametrize(
    ("first", "second", "use", "reason"),
    [
        (FIRST, dataclasses.replace(SECOND, stride=(9, 9)), "activation", "an axis of the consumer is folded"),
        (FIRST, typed(SECOND, "bf16"), "activation", "the result is f16, the consumer takes bf16"),
        (typed(FIRST, "f16", "f32"), SECOND, "activation", "the result is f32, the consumer takes f16"),
        (FIRST, dataclasses.replace(SECOND, in_extent=(6, 6)), "activation",
         r"the result has shape \(2, 18, 6, 7\), the consumer takes \(2, 18, 6, 6\)"),
        (FIRST, dataclasses.replace(SECOND, epilogue=()), "residual", "the consumer adds no residual"),
        (FIRST, typed(SECOND, "f16", "f32"), "residual", "the result is f16, the consumer takes f32"),
    ],
)  # fmt: skip
def test_obstacles(first, second, use, reason):
    first, second = device_layout(first), device_layout(second)
    with pytest.raises(InputError, match=reason):
        share_buffer(first, second, np.zeros(first.output.shape, np.float16), use)
    assert why_not_shared(first, second, use) is not None


def test_another_array_is_refused():
    first, second = device_layout(FIRST), device_layout(SECOND)
    with pytest.raises(InputError, match=r"expected a buffer of float16 \[2, 6, 7, 24\], got float32 \[1, 2\]"):
        share_buffer(first, second, np.zeros((1, 2), np.float32))


@pytest.mark.parametrize("operand", ["tf32x3", "bf16x3"])
def test_numbers_that_are_split_into_parts_are_packed_anew(operand):
    """One channel of float32 and its parts side by side may take equally many elements a pixel."""
    layout = device_layout(
        ConvProblem(in_channels=1, out_channels=1, in_extent=(6, 6), kernel=(1, 1), operand=operand, out="f32")
    )
    assert "parts" in why_not_shared(layout, layout)
    plain = device_layout(dataclasses.replace(layout.model, operand="tf32"))
    assert why_not_shared(layout, plain) is None


@pytest.mark.parametrize("operand", dtypes.SCALED_OPERANDS)
def test_numbers_that_get_scale_factors_are_packed_anew(operand):
    layout = device_layout(
        ConvProblem(in_channels=32, out_channels=32, in_extent=(6, 6), kernel=(1, 1), operand=operand, out="f32")
    )
    assert "scale factors" in why_not_shared(layout, layout)
    assert why_not_shared(layout, device_layout(dataclasses.replace(layout.model, operand="tf32"))) is None
