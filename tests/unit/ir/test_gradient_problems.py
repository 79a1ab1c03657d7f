"""Gradients as convolutions: each is what differentiating the definition gives, for any extents, steps and groups."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convc.errors import ConvcError
from convc.ir.gradients import input_gradient, weight_gradient, wgrad_operands, wgrad_result
from convc.ir.network import Gradient
from convc.ir.problem import ConvProblem
from convc.verification.reference import conv_sums as convolve


@st.composite
def forwards(draw) -> ConvProblem:
    rank = draw(st.integers(1, 2))

    def axes(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(least, most)) for _ in range(rank))

    groups = draw(st.sampled_from((1, 1, 2)))
    transposed = draw(st.booleans())
    stride = axes(1, 3)
    try:
        return ConvProblem(
            batch=draw(st.integers(1, 2)),
            in_channels=groups * draw(st.integers(1, 2)),
            out_channels=groups * draw(st.integers(1, 3)),
            in_extent=axes(1, 6),
            kernel=axes(1, 3),
            stride=stride,
            dilation=axes(1, 2),
            pad_lo=axes(0, 2),
            pad_hi=axes(0, 2),
            groups=groups,
            transposed=transposed,
            output_padding=tuple(draw(st.integers(0, u - 1)) for u in stride) if transposed else (),
            out="f32",
        )
    except ConvcError:
        assume(False)
        raise


def drawn(problem: ConvProblem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, w and dy of small whole numbers."""
    rng = np.random.default_rng(0)
    shapes = (problem.x_shape, problem.w_shape, problem.y_shape)
    x, w, dy = (rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes)
    return x, w, dy


def by_differences(problem: ConvProblem, operands: list[np.ndarray], which: int, dy: np.ndarray) -> np.ndarray:
    """The gradient of sum(dy * y) by an operand: the change for each of its elements, exact since y is linear in it."""
    found = np.zeros(operands[which].shape)
    for place in itertools.product(*map(range, found.shape)):
        one = [np.zeros_like(array) if at == which else array for at, array in enumerate(operands)]
        one[which][place] = 1
        found[place] = (convolve(problem, *one) * dy).sum()
    return found


@settings(max_examples=40)
@given(forwards())
def test_the_input_gradient_is_what_differences_give(problem):
    x, w, dy = drawn(problem)
    found = convolve(input_gradient(problem), dy, w)
    assert np.array_equal(found, by_differences(problem, [x, w], 0, dy))


@settings(max_examples=40)
@given(forwards())
def test_the_weight_gradient_is_what_differences_give(problem):
    x, w, dy = drawn(problem)
    try:
        made = weight_gradient(problem)
    except ConvcError as refused:
        assert "windows read padding alone" in refused.message  # noqa: PT017 - one of many drawn
        return
    operands = wgrad_operands(Gradient(of="weights", forward=problem), x, dy)
    assert np.array_equal(wgrad_result(convolve(made, *operands)), by_differences(problem, [x, w], 1, dy))


def test_an_image_whose_last_pixels_no_window_reaches_has_a_gradient():
    forward = ConvProblem(in_channels=8, out_channels=8, in_extent=(1, 9), kernel=(1, 1), stride=(2, 2), pad_hi=(1, 0))
    assert input_gradient(forward).output_padding == (1, 0)
    assert input_gradient(forward).out_extent == forward.in_extent


def test_a_gradient_of_a_gradient_is_the_convolution_again():
    forward = ConvProblem(in_channels=8, out_channels=16, in_extent=(9, 8), kernel=(3, 3), stride=(2, 2), pad_lo=(1, 1))
    assert input_gradient(input_gradient(forward)) == forward


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"operand": "s8", "out": "s32"}, "a convolution of s8 has no gradient: its numbers are whole"),
        (
            {"kernel": (1, 1), "stride": (2, 1), "pad_lo": (1, 0), "in_extent": (1, 9)},
            "along H windows read padding alone",
        ),
    ],
)
def test_what_has_no_gradient_is_refused_by_name(changes, says):
    forward = ConvProblem(name="head", in_channels=8, out_channels=8, in_extent=(9, 9), kernel=(3, 3))
    with pytest.raises(ConvcError, match=says) as refused:
        weight_gradient(replace(forward, **changes))
    assert refused.value.where == "head"


def test_operands_of_another_shape_are_refused():
    forward = ConvProblem(name="head", in_channels=8, out_channels=8, in_extent=(9, 9), kernel=(3, 3))
    x, _, dy = drawn(forward)
    with pytest.raises(ConvcError, match=r"expected dy of shape \[1, 8, 7, 7\], got \[1, 8, 7, 6\]"):
        wgrad_operands(Gradient(of="weights", forward=forward), x, dy[..., :-1])
