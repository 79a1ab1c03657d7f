"""The schedule is right on whole tiles: the tile interpreter agrees with the reference, on integers exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.examples import some
from support.interpret.run import interpret
from support.records import replace
from support.schedules import RELOAD_ONLY

from convc.compiler.planner.search import plan
from convc.compiler.schedules.program import build
from convc.compiler.tile.program import TileProgram
from convc.compiler.tile.steps.base import Loop, Step
from convc.errors import TileError
from convc.host_layout import repack
from convc.host_layout.device_layout import device_layout
from convc.ir.expr import Const
from convc.ir.problem import ConvProblem
from convc.verification.reference import conv_problem


def prepare(problem: ConvProblem, seed: int, **choice):
    """(program, form, packed buffers, expected output) with small integer data."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, problem.x_shape).astype(np.float64)
    w = rng.integers(-2, 3, problem.w_shape).astype(np.float64)
    bias = rng.integers(-8, 9, (problem.out_channels,)).astype(np.float64) if problem.bias else None
    layout = device_layout(problem)
    program = build(plan(layout, options=RELOAD_ONLY, **choice))
    buffers = {
        "activation": repack.pack_activation(layout, x),
        "filter": repack.pack_filter(layout, w),
        "bias": repack.pack_bias(layout, bias),
    }
    return program, layout, buffers, conv_problem(problem, x, w, bias)


def check(problem: ConvProblem, seed: int = 0, **choice) -> TileProgram:
    program, layout, buffers, expected = prepare(problem, seed, **choice)
    output = interpret(program, buffers)
    assert not np.isnan(output.astype(np.float64)).any(), "an element of the output buffer was not written"
    np.testing.assert_array_equal(repack.unpack_output(layout, output).astype(np.float64), expected)
    return program


@st.composite
def problems(draw) -> ConvProblem:
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    dilation = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    return ConvProblem(
        batch=draw(st.integers(1, 3)),
        in_channels=draw(st.integers(1, 40)),
        out_channels=draw(st.integers(1, 70)),
        in_extent=tuple(draw(st.integers(s, s + 9)) for s in span),
        kernel=kernel,
        stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        dilation=dilation,
        pad_lo=draw(st.tuples(st.integers(0, 4), st.integers(0, 4))),
        pad_hi=draw(st.tuples(st.integers(0, 4), st.integers(0, 4))),
        operand=draw(st.sampled_from(["f16", "bf16", "tf32"])),
        out=draw(st.sampled_from(["f16", "f32"])),
        bias=draw(st.booleans()),
    )


@settings(max_examples=some(60))
@given(problems(), st.integers(0, 100))
@example(ConvProblem(in_channels=1, out_channels=1, in_extent=(1, 1), kernel=(1, 1)), 0)
def test_random_problems(problem, seed):
    check(problem, seed)


BASE = ConvProblem(
    batch=2, in_channels=24, out_channels=40, in_extent=(8, 8), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1), bias=True
)


@pytest.mark.parametrize(
    ("changes", "choice", "grid"),
    [
        ({}, {"block_n": 48}, (1, 1, 1)),  # exactly one tile of rows, columns past K
        ({"out_channels": 64}, {"block_n": 16, "stages": 1}, (1, 4, 1)),  # no edge anywhere, one stage
        ({"in_extent": (8, 9)}, {"block_n": 32, "stages": 2}, (2, 2, 1)),  # rows past M, columns past K
        (
            {"in_channels": 200, "operand": "tf32"},
            {"block_n": 16, "stages": 3},
            (1, 3, 1),
        ),  # several channel blocks, the last one partial
        ({"in_channels": 65}, {"block_n": 16, "stages": 8}, (1, 3, 1)),  # a block with one channel
        ({"stride": (9, 9), "in_extent": (40, 40), "pad_lo": (0, 0)}, {"block_n": 32}, (1, 2, 1)),  # folded on the host
        ({"in_extent": (3, 300), "batch": 1}, {"block_n": 48}, (8, 1, 1)),  # rows longer than a tile
        ({"in_extent": (2, 2), "batch": 70}, {"block_n": 48}, (3, 1, 1)),  # many images in a tile
        ({"out_channels": 300, "out": "f32"}, {"block_n": 160}, (1, 2, 1)),
    ],
)
def test_edges(changes, choice, grid):
    program = check(replace(BASE, **changes), **choice)
    assert program.launch.grid == grid


def edited(program: TileProgram, which: str, **changes) -> TileProgram:
    """The program with fields of one step changed."""

    def steps(body: tuple[Step, ...]) -> tuple[Step, ...]:
        deep = (replace(s, body=steps(s.body)) if isinstance(s, Loop) else s for s in body)
        return tuple(replace(s, **changes) if s.id == which else s for s in deep)

    roles = tuple(replace(role, steps=steps(role.steps)) for role in program.roles)
    return replace(program, roles=roles)


def test_the_interpreter_notices_a_wrong_schedule():
    program, layout, buffers, expected = prepare(BASE, 0, block_n=48, stages=2)
    shifted = edited(program, "load.b", coords=("c", "r", "first_k"))
    output = repack.unpack_output(layout, interpret(shifted, buffers)).astype(np.float64)
    assert (output != expected).any()
    uncleared = edited(program, "mma.multiply", counter="tile_m_plus_one")
    with pytest.raises(KeyError, match="tile_m_plus_one"):
        interpret(uncleared, buffers)
    with pytest.raises(TileError, match="deadlock"):
        interpret(edited(program, "load.wait", starts_open=False), buffers)
    with pytest.raises(TileError, match="deadlock"):
        interpret(edited(program, "load.expect", bytes=1), buffers)
    with pytest.raises(TileError, match=r"starts at -6, outside of the box -1\.\.6"):
        interpret(edited(program, "load.start_w", expr=Const(-6)), buffers)
    with pytest.raises(TileError, match="written twice"):
        interpret(edited(program, "epilogue.out_byte", expr=Const(0)), buffers)


def test_a_stage_that_was_given_back_is_gone():
    """Released before it is multiplied: the stage is NaN by then, and so is the result."""
    program, _, buffers, _ = prepare(BASE, 0, block_n=48, stages=2)
    load, mma, store = program.roles
    (loop, done) = mma.steps
    wait, multiply, release, advance = loop.body
    early = replace(loop, body=(wait, release, multiply, advance))
    roles = (load, replace(mma, steps=(early, done)), store)
    assert np.isnan(interpret(replace(program, roles=roles), buffers).astype(np.float64)).all()
