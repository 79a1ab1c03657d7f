"""The im2col walk: its rule, its closed form, and the claim that it meets every pixel of a tile."""

from __future__ import annotations

import itertools

from hypothesis import assume, given
from hypothesis import strategies as st

from convc.compiler.index.walk import Im2colBox, im2col_box
from convc.errors import ProblemError
from convc.ir.problem import ConvProblem

sides = st.integers(1, 12)
strides = st.integers(1, 4)
corners = st.integers(-4, 3)


@st.composite
def boxes(draw):
    box = Im2colBox(
        size=(draw(sides), draw(sides)),
        lower=(draw(corners), draw(corners)),
        upper=(draw(corners), draw(corners)),
        stride=(draw(strides), draw(strides)),
    )
    assume(all(box.positions))
    return box


@st.composite
def problems(draw, largest=14):
    kernel = (draw(st.integers(1, 7)), draw(st.integers(1, 7)))
    fields = {
        "batch": draw(st.integers(1, 3)),
        "in_channels": draw(st.integers(1, 6)),
        "out_channels": draw(st.integers(1, 9)),
        "in_extent": (draw(st.integers(1, largest)), draw(st.integers(1, largest))),
        "kernel": kernel,
        "stride": (draw(strides), draw(strides)),
        "dilation": (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        "pad_lo": (draw(st.integers(0, 4)), draw(st.integers(0, 4))),
        "pad_hi": (draw(st.integers(0, 4)), draw(st.integers(0, 4))),
    }
    try:
        return ConvProblem(**fields)
    except ProblemError:
        return ConvProblem(**{**fields, "kernel": (1, 1)})


def follow_walk(box, start, count):
    """The first ``count`` positions (w, h, n) of the walk from ``start``, by the rule, one step at a time."""
    w, h, n = start
    for _ in range(count):
        yield w, h, n
        w += box.stride[0]
        if w > box.last[0]:
            w = box.lower[0]
            h += box.stride[1]
            if h > box.last[1]:
                h = box.lower[1]
                n += 1


@given(boxes())
def test_the_walk_visits_the_box_row_by_row_and_image_by_image(box):
    axis = [range(box.lower[i], box.size[i] + box.upper[i], box.stride[i]) for i in (0, 1)]
    assert box.positions == (len(axis[0]), len(axis[1]))
    order = [(w, h, n) for n, h, w in itertools.product(range(3), axis[1], axis[0])]
    assert list(follow_walk(box, (*box.lower, 0), len(order))) == order


def test_manual_example_with_stride_two():
    box = Im2colBox(size=(9, 1), lower=(-1, 0), upper=(0, 0), stride=(2, 1))
    assert box.positions == (5, 1)
    assert [w for w, _, _ in follow_walk(box, (-1, 0, 0), 6)] == [-1, 1, 3, 5, 7, -1]


@given(problems())
def test_the_box_of_a_convolution_has_the_output_as_positions(problem):
    assert im2col_box(problem).positions == problem.out_extent[::-1]


def test_corners_of_a_convolution():
    problem = ConvProblem(
        in_channels=3,
        out_channels=8,
        in_extent=(20, 30),
        kernel=(3, 5),
        stride=(2, 3),
        dilation=(1, 2),
        pad_lo=(1, 4),
        pad_hi=(2, 3),
    )
    assert im2col_box(problem) == Im2colBox(size=(30, 20), lower=(-4, -1), upper=(-5, 0), stride=(3, 2))
