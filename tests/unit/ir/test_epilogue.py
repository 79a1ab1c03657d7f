"""The records of an epilogue: what they hold, what they refuse, how they are stored, and when they are exact."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convc.errors import ProblemError
from convc.ir.epilogue import (
    AddResidual,
    Clip,
    EpilogueStep,
    LeakyRelu,
    Relu,
    ReluGrad,
    Sigmoid,
    SiLU,
    describe,
    exact_on_integers,
    saturates_at,
)
from convc.ir.epilogue_values import epilogue_step
from convc.ir.problem import ConvProblem
from convc.verification import reference

POINT = ConvProblem(name="c7", in_channels=1, out_channels=1, in_extent=(1, 1), kernel=(1, 1), out="f32")

steps = st.one_of(
    st.sampled_from([Relu(), Sigmoid(), SiLU()]),
    st.builds(LeakyRelu, st.sampled_from([-1.0, -0.25, 0.0, 0.1, 0.5, 1.0, 2.0])),
    st.builds(Clip, st.sampled_from([None, -3.0, 0.0, 0.3]), st.sampled_from([None, -5.0, 2.0, 6.0])),
)
joined = st.sampled_from([(), (AddResidual(),), (ReluGrad(),)])
chains = st.tuples(st.lists(steps, max_size=3), joined, st.lists(steps, max_size=2)).map(
    lambda parts: (*parts[0], *parts[1], *parts[2])
)


@given(chains)
def test_an_epilogue_is_stored_in_json_and_keeps_its_order(epilogue):
    problem = dataclasses.replace(POINT, epilogue=epilogue)
    again = msgspec.json.decode(msgspec.json.encode(problem), type=ConvProblem)
    assert again == problem
    assert hash(again) == hash(problem)
    assert again.epilogue == epilogue


def test_a_problem_of_an_older_build_has_no_epilogue():
    text = msgspec.json.encode(POINT).replace(b',"epilogue":[]', b"")
    assert b"epilogue" not in text
    assert msgspec.json.decode(text, type=ConvProblem) == POINT


def test_the_order_matters():
    one, other = (AddResidual(), Relu()), (Relu(), AddResidual())
    assert dataclasses.replace(POINT, epilogue=one) != dataclasses.replace(POINT, epilogue=other)
    y, residual = np.full(POINT.y_shape, -3.0), np.full(POINT.y_shape, 2.0)
    problem = dataclasses.replace(POINT, epilogue=one)
    assert reference.epilogue(problem, y, residual).item() == 0
    assert reference.epilogue(dataclasses.replace(POINT, epilogue=other), y, residual).item() == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: (LeakyRelu(float("nan")),), "the slope of LeakyRelu must be a finite number, got nan"),
        (lambda: (Clip(float("-inf"), 1.0),), "a bound of Clip must be a finite number or absent, got -inf"),
        (lambda: (Clip(0.0, 1e300),), "a number of the epilogue is too large for float32: 1e+300"),
        (lambda: (AddResidual(), Relu(), AddResidual()), "an epilogue reads at most one residual"),
        (lambda: (AddResidual(), ReluGrad()), "an epilogue reads at most one residual"),
        (lambda: ("relu",), "a step of the epilogue must be one of Relu, LeakyRelu, Clip, Sigmoid, SiLU, AddResidual, "
                            "ReluGrad, got 'relu'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ProblemError) as caught:
        dataclasses.replace(POINT, epilogue=make())
    assert caught.value.message == message


def test_a_damaged_record_is_refused():
    text = msgspec.json.encode(dataclasses.replace(POINT, epilogue=(LeakyRelu(0.5),)))
    for old, new in ((b"0.5", b'"a"'), (b"leaky_relu", b"eval"), (b'"alpha"', b'"beta"')):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text.replace(old, new), type=ConvProblem)


def test_numbers_are_those_that_the_kernel_has():
    assert LeakyRelu(0.1).alpha == float(np.float32(0.1))
    assert Clip(0.1).low == float(np.float32(0.1))


def test_words():
    epilogue = (AddResidual(), LeakyRelu(0.25), Clip(0.0, 6.0), Clip(high=1.0), SiLU())
    assert describe(epilogue) == "residual, leaky_relu(0.25), clip(0..6), clip(..1), silu"
    assert describe(epilogue) in dataclasses.replace(POINT, epilogue=epilogue).describe()


@pytest.mark.parametrize(
    ("step", "want"),
    [
        (Relu(), [0, 0, 2]),
        (LeakyRelu(0.25), [-0.75, 0, 2]),
        (Clip(-1.0, 1.5), [-1, 0, 1.5]),
        (Clip(low=-1.0), [-1, 0, 2]),
        (Sigmoid(), [1 / (1 + math.e**3), 0.5, 1 / (1 + math.e**-2)]),
        (SiLU(), [-3 / (1 + math.e**3), 0, 2 / (1 + math.e**-2)]),
        (AddResidual(), [-2, -2, 5]),
        (ReluGrad(), [-3, 0, 2]),
    ],
)
def test_steps_are_what_they_are_called(step, want):
    y, residual = np.array([-3.0, 0.0, 2.0]), np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(epilogue_step(step, y, residual), want, rtol=1e-15)


def in_float32(step: EpilogueStep, y: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """One step with every operation rounded to float32."""
    wide = epilogue_step(step, y.astype(np.float64), residual)
    return wide.astype(np.float32)


@given(chains, st.integers(0, 2**31))
def test_exact_chains_do_not_round(epilogue, seed):
    """Rounding after every step changes nothing where the chain is called exact."""
    rng = np.random.default_rng(seed)
    y, residual = rng.integers(-(2**23), 2**23, (2, 500)).astype(np.float32)
    rounded, exact = y, y.astype(np.float64)
    for step in epilogue:
        rounded, exact = in_float32(step, rounded, residual), epilogue_step(step, exact, residual)
    if exact_on_integers(epilogue):
        np.testing.assert_array_equal(rounded.astype(np.float64), exact)
        assert not any(isinstance(step, Sigmoid | SiLU) for step in epilogue)


def test_chains_that_are_exact_and_chains_that_are_not():
    for epilogue in (
        (),
        (Relu(),),
        (AddResidual(), Relu()),
        (LeakyRelu(0.5), ReluGrad()),
        (Clip(0, 6), AddResidual()),
        (LeakyRelu(0.25),),
        (AddResidual(), LeakyRelu(0.5), Clip(-0.5)),
    ):
        assert exact_on_integers(epilogue)
    for epilogue in (
        (Sigmoid(),),
        (SiLU(),),
        (LeakyRelu(0.1),),
        (LeakyRelu(0.5), AddResidual()),
        (LeakyRelu(2.0),),
        (Clip(0.3), AddResidual()),
    ):
        assert not exact_on_integers(epilogue)


def test_where_data_would_saturate():
    assert saturates_at((Relu(), LeakyRelu(0.1), AddResidual(), SiLU())) is None
    assert saturates_at((Clip(0, 6),)) == 6
    assert saturates_at((Clip(-3, 6), Sigmoid())) == 3
