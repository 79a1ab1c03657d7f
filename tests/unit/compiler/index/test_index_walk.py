"""The im2col walk: its rule, its closed form, and the claim that it meets every pixel of a tile."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.examples import some
from support.records import replace

from convc.compiler.index.conv import conv_maps
from convc.compiler.index.maps import Counterexample, Proof
from convc.compiler.index.symbols import Axis
from convc.compiler.index.walk import Im2colBox, _walk_cases, im2col_box, prove_walk, walk_digits
from convc.errors import ProblemError
from convc.ir.expr import Const, Var, evaluate
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


def _raw_maps(problem, block_m):
    maps = conv_maps(problem, block_m=block_m, block_n=16, channels_per_step=8, c_pitch=8, k_pitch=16)
    return maps.box, maps.start, maps.window


@given(boxes())
def test_the_walk_visits_the_box_row_by_row_and_image_by_image(box):
    axis = [range(box.lower[i], box.size[i] + box.upper[i], box.stride[i]) for i in (0, 1)]
    assert box.positions == (len(axis[0]), len(axis[1]))
    order = [(w, h, n) for n, h, w in itertools.product(range(3), axis[1], axis[0])]
    assert list(follow_walk(box, (*box.lower, 0), len(order))) == order


@given(boxes(), st.data())
def test_the_closed_form_is_the_walk(box, data):
    columns, rows = box.positions
    x, y = data.draw(st.integers(0, columns - 1)), data.draw(st.integers(0, rows - 1))
    image = data.draw(st.integers(0, 2))
    w, h = box.lower[0] + x * box.stride[0], box.lower[1] + y * box.stride[1]
    visited = np.array(list(follow_walk(box, (w, h, image), 40))).T
    steps = Axis("j", 40)
    values = walk_digits(box, 3, steps).evaluate({"image": image, "y": y, "x": x, "j": np.arange(40)})
    for name, expected in zip(("w", "h", "n"), visited, strict=True):
        assert np.array_equal(np.broadcast_to(values[name], 40), expected)


def test_manual_example_with_stride_two():
    box = Im2colBox(size=(9, 1), lower=(-1, 0), upper=(0, 0), stride=(2, 1))
    assert box.positions == (5, 1)
    assert [w for w, _, _ in follow_walk(box, (-1, 0, 0), 6)] == [-1, 1, 3, 5, 7, -1]


def test_an_empty_box_has_no_walk():
    box = Im2colBox(size=(3, 3), lower=(0, 0), upper=(-3, 0), stride=(1, 1))
    with pytest.raises(ValueError, match="the im2col box is empty: 0 positions per row, 3 rows"):
        walk_digits(box, 1, Axis("j", 4))


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


def _broken_lane(box, start, window, tiles, lanes):
    """By enumeration: (tile_m, lane) of the first pixel that the walk misses, or None."""
    for tile_m in range(tiles):
        first = start.evaluate({"tile_m": tile_m})
        inside = all(
            low <= first[name] <= last for name, low, last in zip(("w", "h"), box.lower, box.last, strict=True)
        )
        if not inside:
            return tile_m, 0
        for lane, place in enumerate(follow_walk(box, (first["w"], first["h"], first["n"]), lanes)):
            point = {"tile_m": tile_m, "lane": lane}
            needed = window.evaluate(point)
            if window.holds(point) and place != (needed["w"], needed["h"], needed["n"]):
                return tile_m, lane
    return None


@given(problems(), st.sampled_from([1, 5, 8, 16, 32]))
@settings(max_examples=some(60), deadline=None)
def test_every_convolution_walks_over_its_pixels(problem, block_m):
    maps = conv_maps(problem, block_m=block_m, block_n=16, channels_per_step=8, c_pitch=8, k_pitch=16)
    outcome = prove_walk(maps.box, maps.start, maps.window)
    assert isinstance(outcome, Proof)
    assert outcome.how.startswith(f"both count tile_m*{block_m} + lane in the digits n")
    assert _broken_lane(maps.box, maps.start, maps.window, maps.tiles.m_tiles, block_m) is None


@given(problems(largest=9), st.sampled_from([4, 16]), st.lists(st.integers(-2, 2), min_size=6, max_size=6))
@settings(max_examples=some(100), deadline=None)
def test_wrong_boxes_are_refuted_exactly_where_they_go_wrong(problem, block_m, errors):
    box, start, window = _raw_maps(problem, block_m)
    wrong = Im2colBox(
        size=box.size,
        lower=(box.lower[0] + errors[0], box.lower[1] + errors[1]),
        upper=(box.upper[0] + errors[2], box.upper[1] + errors[3]),
        stride=(max(1, box.stride[0] + errors[4]), max(1, box.stride[1] + errors[5])),
    )
    outcome = prove_walk(wrong, start, window)
    expected = _broken_lane(wrong, start, window, window.domain[0].extent, block_m)
    if expected is None:
        assert isinstance(outcome, Proof)
    else:
        assert isinstance(outcome, Counterexample)
        assert outcome.point == (("tile_m", expected[0]), ("lane", expected[1]))


def _resnet_stage(extent=28):
    return ConvProblem(
        in_channels=8, out_channels=8, in_extent=(extent, extent), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
    )


def test_a_wrong_upper_corner_is_refuted_with_the_first_lane():
    box, start, window = _raw_maps(_resnet_stage(), 128)
    outcome = prove_walk(replace(box, upper=(0, -1)), start, window)
    assert outcome.point == (("tile_m", 0), ("lane", 28))
    assert outcome.value == "the walk is at (w, h, n) = (27, -1, 0), the window begins at (-1, 0, 0)"
    outcome = prove_walk(replace(box, upper=(-2, -1)), start, window)
    assert outcome.point == (("tile_m", 0), ("lane", 27))


def test_a_start_between_positions_is_refuted():
    problem = ConvProblem(batch=3, in_channels=8, out_channels=8, in_extent=(8, 8), kernel=(2, 2), stride=(2, 2))
    box, start, window = _raw_maps(problem, 10)
    assert prove_walk(box, start, window).how == "both count tile_m*10 + lane in the digits n, 4 rows, 4 columns"
    results = tuple((name, expr + int(name == "w")) for name, expr in start.results)
    outcome = prove_walk(replace(box, upper=(0, -1)), replace(start, results=results), window)
    assert outcome.point == (("tile_m", 0), ("lane", 0))
    assert outcome.value == "the walk is at (w, h, n) = (1, 0, 0), the window begins at (0, 0, 0)"


def test_a_box_that_ends_before_the_only_start_is_refuted():
    problem = ConvProblem(in_channels=8, out_channels=8, in_extent=(1, 1), kernel=(1, 1))
    box, start, window = _raw_maps(problem, 16)
    outcome = prove_walk(replace(box, size=(1, 3), lower=(0, 1)), start, window)
    assert outcome.point == (("tile_m", 0), ("lane", 0))
    assert outcome.value == "the start has h = 0, and the box reaches from 1 to 2"
    outcome = prove_walk(replace(box, lower=(-1, 0), upper=(-1, 0)), start, window)
    assert outcome.value == "the start has w = 0, and the box reaches from -1 to -1"


def test_a_wrong_corner_that_no_pixel_notices_is_proved():
    problem = ConvProblem(in_channels=8, out_channels=8, in_extent=(1, 5), kernel=(1, 1))
    box, start, window = _raw_maps(problem, 16)
    assert isinstance(prove_walk(replace(box, upper=(9, 0)), start, window), Proof)


def test_a_row_too_few_is_refuted_at_the_last_row_of_a_large_image():
    box, start, window = _raw_maps(_resnet_stage(20000), 16)
    outcome = prove_walk(replace(box, upper=(-1, -2)), start, window)
    assert outcome.point == (("tile_m", 24998750), ("lane", 0))
    assert outcome.value == "the start has h = 19998, and the box reaches from -1 to 19997"


@given(problems(largest=9), st.sampled_from([4, 16]), st.lists(st.integers(-2, 2), min_size=6, max_size=6))
@settings(max_examples=some(100), deadline=None)
def test_walks_between_positions_are_decided_too(problem, block_m, errors):
    box, start, window = _raw_maps(problem, block_m)
    moved = [
        replace(each, results=tuple((name, expr + errors[2 * which + (name == "w")]) for name, expr in each.results))
        for which, each in enumerate((start, window))
    ]
    outcome = prove_walk(replace(box, upper=(box.upper[0] + errors[4], box.upper[1] + errors[5])), *moved)
    wrong = replace(box, upper=(box.upper[0] + errors[4], box.upper[1] + errors[5]))
    expected = _broken_lane(wrong, *moved, window.domain[0].extent, block_m)
    if expected is None:
        assert isinstance(outcome, Proof)
    else:
        assert outcome.point == (("tile_m", expected[0]), ("lane", expected[1]))


@pytest.mark.parametrize(
    "box",
    [
        Im2colBox(size=(7, 5), lower=(-1, -1), upper=(0, 1), stride=(3, 2)),
        Im2colBox(size=(4, 9), lower=(0, -2), upper=(1, -1), stride=(2, 4)),
        Im2colBox(size=(5, 4), lower=(1, 0), upper=(0, 0), stride=(1, 3)),
    ],
)
def test_a_walk_from_between_positions_is_followed_to_later_images(box):
    """From every coordinate inside the box: just one case holds at each step, and it says where the walk is."""
    starts = itertools.product(*(range(low, last + 1) for low, last in zip(box.lower, box.last, strict=True)))
    for w, h in starts:
        begin = {"w": Const(w), "h": Const(h), "n": Const(2)}
        cases = _walk_cases(box, begin, Axis("tile_m", 1), 1, Var("j"))
        for j, here in enumerate(follow_walk(box, (w, h, 2), 3 * box.positions[0] * box.positions[1])):
            point = {"j": j}
            holding = [place for conditions, place in cases if all(evaluate(each, point) for each in conditions)]
            assert [tuple(evaluate(axis, point) for axis in place) for place in holding] == [here]
