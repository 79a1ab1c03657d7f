"""The bound of an epilogue covers every kernel that obeys the manual, and is not much wider than the worst of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.ir.epilogue import AddResidual, Clip, LeakyRelu, Relu, ReluGrad, Sigmoid, SiLU
from convc.ir.epilogue_values import epilogue_step
from convc.ir.problem import ConvProblem
from convc.verification import reference
from convc.verification.data import integer_data, normal_data, residual_data
from convc.verification.epilogue_bound import UNIT, through_epilogue

COUNT = 4000
POINTS = ConvProblem(in_channels=1, out_channels=1, in_extent=(1, COUNT), kernel=(1, 1), out="f32")
TINY = np.float32(2.0**-126)


def f32(values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(values, np.float64).astype(np.float32)


def flushed(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < TINY, np.float32(0), values).astype(np.float32)


def sigmoid(x: np.ndarray, ex2_error: float, rcp_error: float) -> np.ndarray:
    """The four instructions of the kernel, with the two approximate ones off by a given share of UNIT."""
    with np.errstate(all="ignore"):
        t = flushed(f32(x.astype(np.float64) * np.float32(-np.log2(np.e))))
        e = flushed(f32(np.exp2(t.astype(np.float64)) * (1 + ex2_error * UNIT)))
        d = f32(1 + e.astype(np.float64))
        return flushed(f32(1 / d.astype(np.float64) * (1 + rcp_error * UNIT)))


def kernel(step, x: np.ndarray, residual: np.ndarray, ex2_error: float, rcp_error: float) -> np.ndarray:
    match step:
        case Sigmoid():
            return sigmoid(x, ex2_error, rcp_error)
        case SiLU():
            return f32(x.astype(np.float64) * sigmoid(x, ex2_error, rcp_error))
    return f32(epilogue_step(step, x.astype(np.float64), residual))


CHAINS = (
    (Relu(),), (Clip(-1.0, 2.0),), (LeakyRelu(0.1),), (LeakyRelu(-3.0),), (Sigmoid(),), (SiLU(),), (AddResidual(),),
    (SiLU(), ReluGrad()),
    (SiLU(), AddResidual(), LeakyRelu(0.3)), (AddResidual(), SiLU(), Sigmoid()), (LeakyRelu(7.0), Clip(-2.0), SiLU()),
)  # fmt: skip


@settings(max_examples=some(120))
@given(
    st.sampled_from(CHAINS),
    st.integers(0, 2**31),
    st.sampled_from([0.01, 1.0, 30.0, 100.0, 1e7]),
    st.sampled_from([0.0, 1e-7, 1e-3]),
    st.sampled_from([-2.0, 0.0, 2.0]),
    st.sampled_from([-2.0, 0.0, 2.0]),
)
def test_no_kernel_within_the_manual_is_outside(epilogue, seed, scale, wrong, ex2_error, rcp_error):
    rng = np.random.default_rng(seed)
    problem = dataclasses.replace(POINTS, epilogue=epilogue)
    exact = rng.standard_normal(POINTS.y_shape) * scale
    residual = f32(rng.standard_normal(POINTS.y_shape)) if problem.residual else None
    computed = f32(exact + wrong * rng.choice([-1.0, 1.0], exact.shape))
    bound = through_epilogue(problem, exact, np.abs(computed - exact), residual)
    expected = reference.epilogue(problem, exact, residual)
    for step in epilogue:
        computed = kernel(step, computed, residual, ex2_error, rcp_error)
    assert (np.abs(computed - expected) <= bound).all()


@pytest.mark.parametrize("step", [Sigmoid(), SiLU()])
def test_the_bound_is_no_more_than_a_few_times_too_wide(step):
    problem = dataclasses.replace(POINTS, epilogue=(step,))
    exact = np.linspace(-20, 20, COUNT, dtype=np.float32).astype(np.float64).reshape(POINTS.y_shape)
    bound = through_epilogue(problem, exact, np.zeros_like(exact), None)
    worst = 0.0
    for ex2_error in (-2.0, 2.0):
        for rcp_error in (-2.0, 2.0):
            got = kernel(step, f32(exact), exact, ex2_error, rcp_error)
            worst = max(worst, (np.abs(got - reference.epilogue(problem, exact)) / bound).max())
    assert 0.25 < worst <= 1


def test_slopes_are_those_of_the_functions():
    """An error that comes in goes out as the steepest slope allows, and the bound says no less."""
    exact = np.linspace(-8, 8, COUNT).reshape(POINTS.y_shape)
    step = 1e-3
    for epilogue, steepest in (((Sigmoid(),), 0.25), ((SiLU(),), 1.0998), ((LeakyRelu(-3.0),), 3.0), ((Relu(),), 1.0)):
        problem = dataclasses.replace(POINTS, epilogue=epilogue)
        moved = np.abs(reference.epilogue(problem, exact + step) - reference.epilogue(problem, exact))
        bound = through_epilogue(problem, exact, np.full_like(exact, step), None)
        assert (moved <= bound + 1e-12).all()  # what this test's own arithmetic in float64 may err by
        assert moved.max() / step == pytest.approx(steepest, rel=1e-3)


def test_what_may_pass_the_largest_float_has_no_bound():
    problem = dataclasses.replace(POINTS, epilogue=(LeakyRelu(4.0), Relu()))
    exact = np.full(POINTS.y_shape, -3e38)
    assert np.isinf(through_epilogue(problem, exact, np.zeros_like(exact), None)).all()


def test_integer_data_leave_room_for_the_residual():
    problem = ConvProblem(
        in_channels=64,
        out_channels=3,
        in_extent=(5, 5),
        kernel=(3, 3),
        bias=True,
        out="f32",
        operand="tf32",
        epilogue=(AddResidual(),),
    )
    x, w, b = integer_data(problem, 0)
    residual = residual_data(problem, 0, integer=True)
    assert residual.shape == problem.y_shape
    assert (residual == np.round(residual)).all()
    assert np.abs(residual).max() > 0
    largest = problem.gemm_k * np.abs(x).max() * np.abs(w).max() + np.abs(b).max() + np.abs(residual).max()
    assert largest < 2**24
    assert residual_data(dataclasses.replace(problem, epilogue=()), 0, integer=True) is None
    normal = residual_data(dataclasses.replace(problem, out="bf16"), 0, integer=False)
    assert 0.8 < normal.std() < 1.2


def test_integer_data_do_not_drown_a_clip():
    problem = ConvProblem(in_channels=16, out_channels=8, in_extent=(6, 6), kernel=(1, 1), epilogue=(Clip(0.0, 6.0),))
    y = reference.conv_problem(problem, *integer_data(problem, 0))
    assert np.mean((y > 0) & (y < 6)) > 0.3
    assert normal_data(problem, 0)[0].shape == problem.x_shape


def test_the_largest_number_of_float32_is_no_infinity():
    """Nothing beyond it can be relied on, and to compute with it is no mistake of whoever asked."""
    largest = float(np.finfo(np.float32).max)
    sums = np.array([largest, np.nextafter(largest, np.inf), -1.7e308]).reshape(1, 1, 1, 3)
    for step, error, bounds in ((Relu(), 0, [0, np.inf, 0]), (LeakyRelu(7.0), 1.7e308, [np.inf] * 3)):
        asked = dataclasses.replace(POINTS, in_extent=(1, 3), epilogue=(step,))
        with np.errstate(all="raise"):
            bound = through_epilogue(asked, sums, np.full_like(sums, error), None)
        assert bound.reshape(-1).tolist() == bounds
