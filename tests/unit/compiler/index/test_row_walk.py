"""The walk that filter columns share, against plain enumeration of pixels."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cut_maps import cut_maps
from support.examples import some
from support.masks_of_tiles import tile_mask

from convc.compiler.index.conditions import conditions
from convc.compiler.index.lane_masks import words
from convc.compiler.index.maps import Proof
from convc.compiler.index.reuse import shared_instance
from convc.compiler.index.row_walk import BORDERS, RowProblem, RowWalk, row_walk
from convc.errors import PlanError, ProblemError
from convc.ir.problem import ConvProblem

LANES = 48
CHANNELS = {
    "BN": 8, "BK": 8, "BLOCKS": 1, "TILES_N": 1, "GROUP_TILES": 1, "C_PITCH": 8, "K_PITCH": 8, "ELEMENT": 2, "PIECE": 8,
}  # fmt: skip


def rows_of(width: int, taps: int, stride: int, dilation: int):
    """The problem for every padding on the left and the right up to the filter's span."""
    span = (taps - 1) * dilation + 1
    for left, right in product(range(span + 1), repeat=2):
        outputs = (width + left + right - span) // stride + 1
        if outputs >= 1:
            yield RowProblem(width=width, outputs=outputs, taps=taps, stride=stride, dilation=dilation, pad=left)


def visited(walk: RowWalk, offset: int, row: int, q: int, count: int) -> list[tuple[int, int]]:
    """(row, pixel) of the first pixels that an im2col::w copy visits, by the rule of the PTX manual, step by step."""
    low, end = walk.lower + offset, walk.problem.width + walk.upper + offset
    pixel, found = walk.problem.stride * q - walk.problem.pad + offset, []
    assert pixel < end
    for _ in range(count):
        found.append((row, pixel))
        pixel += walk.problem.stride
        if pixel >= end:
            row, pixel = row + 1, low
    return found


def serves(walk: RowWalk, start: int) -> bool:
    """Whether every lane that needs a pixel of the image holds it, and with border ``zero`` every other one padding."""
    problem, (row, q) = walk.problem, divmod(start, walk.period)
    for buffer in walk.buffers:
        pixels = visited(walk, buffer.offset, row, q, LANES + buffer.halo)
        for tap, lane in product(buffer.taps, range(LANES)):
            n, column = divmod(start + lane, walk.period)
            needed, (held_row, held) = problem.pixel(column, tap.s), pixels[lane + tap.lanes]
            inside, real = 0 <= needed < problem.width, 0 <= held < problem.width
            if column < problem.outputs:
                if inside and (held_row, held) != (n, needed):
                    return False
                if not inside and real and walk.border == "zero":
                    return False
                assert inside == (tap.inside[0] <= column <= tap.inside[1])
    return True


@settings(max_examples=some(400), deadline=None)
@given(
    width=st.integers(1, 24),
    taps=st.integers(1, 11),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 3),
    start=st.integers(0, 200),
    every=st.integers(1, 7),
    data=st.data(),
)
def test_lanes_hold_what_their_filter_column_needs(width, taps, stride, dilation, start, every, data):
    problems = list(rows_of(width, taps, stride, dilation))
    if problems:
        first = data.draw(st.integers(0, min(every, len(problems)) - 1))
        for problem, border in product(problems[first::every][:100], BORDERS):
            assert serves(row_walk(problem, border), start), (problem, border)


@pytest.mark.parametrize("border", BORDERS)
def test_no_shorter_period_would_do(border):
    for width, taps, stride, dilation in product((1, 4, 7, 8), (1, 2, 3, 5), (1, 2, 3), (1, 2)):
        for problem in rows_of(width, taps, stride, dilation):
            walk = row_walk(problem, border)
            if any(tap.inside[1] < 0 for buffer in walk.buffers for tap in buffer.taps):
                continue  # a filter column that never meets the image asks for nothing
            for lead, period in product(range(walk.lead + 1), range(problem.outputs, walk.period)):
                shorter = RowWalk(problem=problem, border=border, lead=lead, period=period, buffers=walk.buffers)
                fits = shorter.problem.width + shorter.upper > shorter.problem.stride * (period - 1) - problem.pad
                assert not (fits and all(serves(shorter, start) for start in range(period))), (problem, shorter)


@pytest.mark.parametrize(
    ("width", "taps", "stride", "pads", "period", "waste", "masked"),
    [
        (20, 3, 1, (1, 1), 20, 0, True),  # same padding
        (20, 3, 1, (0, 0), 20, 2, False),  # valid: S - 1 wasted lanes
        (20, 3, 1, (2, 2), 22, 0, False),  # full: the two zeros behind a row serve the next one, too
        (9, 3, 2, (1, 1), 5, 0, False),  # stride 2, odd width: nothing wasted, nothing masked
        (8, 3, 2, (1, 1), 5, 1, False),  # even width: one wasted lane
        (9, 3, 3, (0, 0), 3, 0, False),  # three buffers that never move
    ],
)
def test_well_known_cases(width, taps, stride, pads, period, waste, masked):
    problem = ConvProblem(
        batch=30,
        in_channels=8,
        out_channels=8,
        in_extent=(3, width),
        kernel=(1, taps),
        stride=(1, stride),
        pad_lo=(0, pads[0]),
        pad_hi=(0, pads[1]),
    )
    maps = cut_maps(problem, merged=False, border="mask")
    assert (maps.walk.period, maps.walk.waste) == (period, waste)
    assert any(tile_mask(maps, 1, 0, s).any() for s in range(taps)) == masked


def test_the_masks_of_a_row_of_twenty():
    problem = ConvProblem(
        batch=7, in_channels=8, out_channels=8, in_extent=(3, 20), kernel=(1, 3), pad_lo=(0, 1), pad_hi=(0, 1)
    )
    maps = cut_maps(problem, merged=False, border="mask")
    assert [words(tile_mask(maps, 0, 0, s)) for s in range(3)] == [
        (0x00100000, 0x10000100, 0x00010000, 0x01000010),  # lane 0 holds the padding itself
        (0, 0, 0, 0),
        (0x00080000, 0x08000080, 0x00008000, 0x00800008),
    ]


def test_the_worked_example():
    problem = ConvProblem(
        batch=2, in_channels=8, out_channels=8, in_extent=(9, 9), kernel=(3, 3), pad_lo=(0, 1), pad_hi=(0, 1)
    )
    maps = cut_maps(problem, merged=False, border="mask", lanes=16)
    assert [np.flatnonzero(tile_mask(maps, 0, 0, s)).tolist() for s in range(3)] == [[9], [], [8]]
    assert maps.start.evaluate({"tile_m": 0, "window": 0}) == {"w": -1, "row": 0, "p": 0}


@settings(max_examples=some(150), deadline=None)
@given(
    batch=st.integers(1, 4),
    extent=st.tuples(st.integers(1, 12), st.integers(1, 14)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 7)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    dilation=st.integers(1, 3),
    pads=st.tuples(*[st.integers(0, 6)] * 4),
    merged=st.booleans(),
    border=st.sampled_from(BORDERS),
    windowed=st.booleans(),
)
def test_the_conditions_of_all_theorems_are_met(
    batch, extent, kernel, stride, dilation, pads, merged, border, windowed
):
    try:
        problem = ConvProblem(
            batch=batch,
            in_channels=8,
            out_channels=8,
            in_extent=extent,
            kernel=kernel,
            stride=stride,
            dilation=(1, dilation),
            pad_lo=pads[:2],
            pad_hi=pads[2:],
        )
        maps = cut_maps(problem, merged=merged, border=border, windowed=windowed)
    except (ProblemError, PlanError):
        return
    for outcome in conditions(shared_instance(problem, maps, tiling=CHANNELS), maps.walk):
        assert isinstance(outcome, Proof), outcome
