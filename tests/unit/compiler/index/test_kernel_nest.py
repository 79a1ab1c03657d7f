"""The loops of a kernel are those of its nest, as often as the problem says."""

from __future__ import annotations

import random

import pytest

from convc.compiler.index.geometry import ADDRESSED, form_of, geometry_of
from convc.compiler.index.kernel_nest import KernelNest
from convc.compiler.index.reuse import shared_instance
from convc.ir.expr import Const, Var, evaluate
from convc.ir.problem import ConvProblem

TILE = {"BLOCKS": 3, "PARTS": 1, "OWN_BLOCKS": 3, "FIRST": 0, "ROW_BYTES": 128, "B_ROWS": 64}


def problem_of(seed: int) -> ConvProblem:
    drawn = random.Random(seed)
    taps = drawn.randint(1, 7)
    return ConvProblem(
        batch=1,
        in_channels=64,
        out_channels=64,
        in_extent=(5, 40),
        kernel=(drawn.randint(1, 3), taps),
        stride=(1, drawn.randint(1, 4)),
        dilation=(1, drawn.randint(1, 4)),
        pad_lo=(1, drawn.randint(0, 3)),
        pad_hi=(1, drawn.randint(0, 3)),
    )


def nest_and_walk(seed: int, **sizes: int):
    problem = problem_of(seed)
    geometry = geometry_of(problem, merged=True, border="mask")
    return KernelNest(shared_instance(problem, geometry, form_of(geometry, ADDRESSED), TILE | sizes)), geometry.walk


@pytest.mark.parametrize("seed", range(40))
def test_buffers_are_those_of_the_walk(seed):
    nest, walk = nest_and_walk(seed)
    buffers = list(nest.buffers())
    assert len(buffers) == len(walk.buffers)
    for mine, theirs in zip(buffers, walk.buffers, strict=True):
        assert mine.count("tap") == len(theirs.taps)
        assert mine.number("halo", "rows") == theirs.halo
        assert mine.number("offset", "w") == theirs.offset
        assert mine.number("bytes", "a") == (128 + theirs.halo) * 128
        assert [mine.number("s", "s", tap=i) for i in range(len(theirs.taps))] == [tap.s for tap in theirs.taps]
        assert [mine.number("read", "row", tap=i) for i in range(len(theirs.taps))] == [
            tap.lanes for tap in theirs.taps
        ]


def test_the_mainloop_lies_between_the_sums_and_the_instruction():
    nest, _ = nest_and_walk(0)
    rows = nest.instance.sizes["R"]
    assert [(loop.axis, loop.count) for loop in nest.around] == [("r", rows), ("block", 3)]
    assert [loop.axis for loop in nest.mainloop] == ["r", "block", "buffer", "tap"]
    assert nest.innermost("copy", "row") == "r"
    assert nest.innermost("start", "w") == ""
    assert nest.innermost("c", "c") == "block"


def test_each_multiplication_has_a_number_and_the_first_is_0():
    nest, _ = nest_and_walk(3)
    one = next(nest.buffers())
    taps = one.count("tap")
    number = one.value("step", "number", round=one.value("round", "number"))
    rows = one.count("r")
    found = [
        evaluate(number, {"r": r, "block": block, "position": position})
        for r in range(rows)
        for block in range(3)
        for position in range(taps)
    ]
    assert found == list(range(rows * 3 * taps))


def test_every_column_comes_once_whichever_is_first():
    seed = next(seed for seed in range(40) if len(nest_and_walk(seed)[1].buffers[0].taps) > 2)
    taps = len(nest_and_walk(seed)[1].buffers[0].taps)
    for first in range(taps):
        one = next(nest_and_walk(seed, FIRST=first)[0].buffers())
        turn = one.value("turn", "tap")
        came = [evaluate(turn, {"position": position}) for position in range(taps)]
        assert came[0] == first
        assert sorted(came) == list(range(taps))
        assert (turn == Var("position")) == (first == 0)
    assert one.value("turn", "tap", position=0) == Const(taps - 1)
