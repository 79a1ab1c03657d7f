"""Every step of an epilogue on every schedule: three oracles agree, and ptxas takes the text."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import PARTS
from support.kernel_edits import edited
from support.oracles import oracles_agree
from support.schedules import RELOAD_ONLY

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.options import ScheduleOptions
from convc.errors import InputError
from convc.ir.epilogue import AddResidual, Clip, LeakyRelu, Relu, ReluGrad, Sigmoid, SiLU
from convc.ir.problem import ConvProblem
from convc.machine import RunOptions, Switches
from convc.runtime.layer import run_layer
from convc.verification import reference
from convc.verification.bound import error_bound
from convc.verification.compare import compare
from convc.verification.data import integer_data, normal_data, residual_data

BASE = ConvProblem(
    name="c",
    batch=2,
    in_channels=24,
    out_channels=36,
    in_extent=(9, 11),
    kernel=(3, 3),
    pad_lo=(1, 1),
    pad_hi=(1, 1),
    bias=True,
)
"""Rows past M, channels past K, in every schedule."""

steps = st.one_of(
    st.sampled_from([Relu(), Sigmoid(), SiLU(), LeakyRelu(0.25), LeakyRelu(0.1), LeakyRelu(-2.0)]),
    st.sampled_from([Clip(0.0, 6.0), Clip(-1.5), Clip(high=2.0), Clip(), Clip(3.0, -1.0)]),
)
joined = st.sampled_from([(), (AddResidual(),), (ReluGrad(),)])
chains = st.tuples(st.lists(steps, max_size=2), joined, st.lists(steps, max_size=2)).map(
    lambda parts: (*parts[0], *parts[1], *parts[2])
)


def with_type(problem: ConvProblem, out: str) -> ConvProblem:
    return dataclasses.replace(problem, out=out, operand="tf32" if out == "f32" else out)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("schedule", ["reload", "slide", "shift", "stationary"])
def test_oracles_agree(schedule, part, assembled):
    @settings(
        max_examples=24 // part,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(
        chains,
        st.sampled_from(["f16", "bf16", "f32"]),
        st.sampled_from([5, 36, 130]),
        st.booleans(),
        st.integers(0, 2**32 - 1),
    )
    def every(epilogue, out, channels, bias, seed):
        problem = dataclasses.replace(with_type(BASE, out), epilogue=epilogue, out_channels=channels, bias=bias)
        compiled = oracles_agree(problem, seed, assembled, ScheduleOptions(schedule=schedule))
        assert compiled.plan.schedule.name == schedule

    every()


def test_a_folded_problem_keeps_its_epilogue(assembled):
    problem = ConvProblem(
        in_channels=5,
        out_channels=12,
        in_extent=(40, 40),
        kernel=(3, 3),
        stride=(9, 9),
        epilogue=(AddResidual(), Relu()),
    )
    assert oracles_agree(problem, 3, assembled).layout.problem != problem


@pytest.mark.parametrize("schedule", ["reload", "stationary"])
def test_special_values_go_through_as_onnx_says(schedule):
    """NaN stays NaN in every step, infinities end where the definition puts them."""
    problem = ConvProblem(in_channels=16, out_channels=1, in_extent=(1, 4), kernel=(1, 1), operand="tf32", out="f32")
    weight = np.zeros(problem.w_shape, np.float32)
    weight[0, 0] = 1
    x = np.zeros(problem.x_shape, np.float32)
    x[0, 0, 0] = [np.nan, np.inf, -np.inf, -200.0]
    for step in (Relu(), LeakyRelu(0.0), LeakyRelu(0.5), Clip(-1.0, 1.0), Sigmoid(), SiLU()):
        finished = dataclasses.replace(problem, epilogue=(step,))
        compiled = compile_problem(finished, options=ScheduleOptions(schedule=schedule))
        y = run_layer(layer_of(finished, kernel_of(compiled), weight, None), x).y
        expected = reference.epilogue(finished, x[:, :1].astype(np.float64))
        np.testing.assert_allclose(y, expected.astype(np.float32), atol=1e-30)


def test_approximate_functions_may_round_either_way():
    problem = dataclasses.replace(BASE, operand="tf32", out="f32", epilogue=(SiLU(), AddResidual(), Sigmoid()))
    x, w, b = normal_data(problem, 5)
    residual = residual_data(problem, 5, integer=False)
    layer = layer_of(problem, kernel_of(compile_problem(problem, options=RELOAD_ONLY)), w, b)
    expected = reference.conv_problem(problem, x, w, b, residual=residual)
    bound = error_bound(problem, x, w, b, residual)
    results = []
    for setting in ("nearest", "zero"):
        run = run_layer(layer, x, RunOptions(switches=Switches(approximate=setting)), residual=residual)
        judged = compare(run.y, expected, bound)
        assert judged.ok, judged
        results.append(run.y)
    assert (results[0] != results[1]).any()


@pytest.mark.parametrize(
    ("pattern", "replacement", "epilogue"),
    [
        (r"max\.NaN\.f32 (%v0), %v0, 0f00000000", r"min.NaN.f32 \1, \1, 0f00000000", (Relu(),)),
        (r"max\.NaN\.f32 (%v3), %v3, 0f00000000", r"mov.b32 \1, \1", (Relu(),)),
        (r"setp\.lt\.f32", "setp.gt.f32", (LeakyRelu(0.25),)),
        (r"add\.rn\.f32 (%v1), %v1, %wide", r"sub.rn.f32 \1, \1, %wide", (AddResidual(),)),
        (r"\[%from\+16\], *;|\[%from\+16\];", "[%from+0];", (AddResidual(),)),
        (r"setp\.gt\.f32 %above, %wide, 0f00000000", "setp.ge.f32 %above, %wide, 0f00000000", (ReluGrad(),)),
        (r"selp\.f32 (%v1), %v1, 0f00000000, %above", r"mov.b32 \1, \1", (ReluGrad(),)),
        (r"rcp\.approx\.ftz\.f32 (%v0), %v0", r"mov.b32 \1, \1", (Sigmoid(),)),
    ],
)
def test_a_changed_kernel_is_wrong(pattern, replacement, epilogue):
    """What the steps do is really looked at: each change is found on integers, or by the bound."""
    problem = dataclasses.replace(BASE, epilogue=epilogue, bias=False)
    x, w, b = integer_data(problem, 1)
    residual = residual_data(problem, 1, integer=True)
    layer = layer_of(problem, kernel_of(compile_problem(problem, options=RELOAD_ONLY)), w, b)
    changed = dataclasses.replace(layer, ptx=edited(layer.ptx, pattern, replacement))
    expected = reference.conv_problem(problem, x, w, b, residual=residual)
    bound = np.full(expected.shape, 1e-3)
    assert compare(run_layer(layer, x, residual=residual).y, expected, bound).ok
    assert not compare(run_layer(changed, x, residual=residual).y, expected, bound).ok


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "reload", "residual_load": "tma", "persistent": "on"},
        {"schedule": "shift", "residual_load": "tma"},
        {"schedule": "reload", "split_k": "2"},
        {"schedule": "slide", "target": "sm_90a"},
    ],
)
def test_a_mask_is_read_in_every_way_that_a_residual_is(options, assembled):
    problem = dataclasses.replace(BASE, in_channels=128, epilogue=(ReluGrad(),))
    compiled = oracles_agree(problem, 4, assembled, ScheduleOptions(**options))
    assert (compiled.plan.storage.residual is not None) == ("residual_load" in options)


def test_a_residual_must_be_there_and_fit():
    problem = dataclasses.replace(BASE, epilogue=(AddResidual(),))
    x, w, b = integer_data(problem, 1)
    layer = layer_of(problem, kernel_of(compile_problem(problem, options=RELOAD_ONLY)), w, b)
    with pytest.raises(InputError, match=r"adds a residual of shape \[2, 36, 9, 11\]"):
        run_layer(layer, x)
    with pytest.raises(InputError, match=r"expected a residual of shape \[2, 36, 9, 11\] .*, got \[2, 36, 9, 1\]"):
        run_layer(layer, x, residual=np.zeros((2, 36, 9, 1), np.float32))
    with pytest.raises(InputError, match="expected a residual of float16"):
        run_layer(layer, x, residual=np.zeros(problem.y_shape, np.int32))
    plain = layer_of(BASE, kernel_of(compile_problem(BASE, options=RELOAD_ONLY)), w, b)
    with pytest.raises(InputError, match="adds no residual"):
        run_layer(plain, x, residual=np.zeros(problem.y_shape, np.float32))


@pytest.mark.parametrize("epilogue", [(), (AddResidual(),)])
def test_channels_past_the_last_where_every_row_is_full(epilogue, assembled):
    """A stationary tile: its lanes are channels, guarded alone."""
    problem = ConvProblem(
        batch=2,
        in_channels=128,
        out_channels=160,
        in_extent=(3, 64),
        kernel=(3, 1),
        pad_lo=(1, 0),
        pad_hi=(1, 0),
        out="f32",
        epilogue=epilogue,
    )
    compiled = oracles_agree(problem, 3, assembled, ScheduleOptions(schedule="stationary", rows="outer"))
    assert (compiled.plan.indexing.row_limit, compiled.plan.indexing.channel_limit is None) == (None, False)
