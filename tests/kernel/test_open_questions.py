"""No kernel of ours depends on an open question: the same bits under every setting of every switch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from test_golden_kernels import CHOICES, PROBLEMS

from benchmarks.layers import resnet50
from convc.build import Layer
from convc.compiler import compile_problem
from convc.kernels import Kernels, layer_of
from convc.machine import RunOptions
from convc.machine.switches import Switches
from convc.problem import ConvProblem
from convc.runtime.session import run_layer
from convc.verify.data import integer_data

SETTINGS = dict(Switches().others())
GOLDEN = [dataclasses.replace(p, batch=min(p.batch, 2)) for p in PROBLEMS.values()]
"""``large_output_f32`` with two images of its 4096, whose output takes 15 GB."""


def result(layer: Layer, x: np.ndarray, switches: Switches) -> bytes:
    done = run_layer(layer, x, RunOptions(switches=switches))
    assert done.findings == ()
    assert done.y.any()
    return done.y.tobytes()


def golden_layer(problem: ConvProblem) -> tuple[Layer, np.ndarray]:
    x, w, b = integer_data(problem, 3)
    return layer_of(problem, compile_problem(problem, **CHOICES[problem.name]), w, b), x


@pytest.mark.parametrize("problem", GOLDEN, ids=lambda problem: problem.name)
def test_golden_kernels(problem):
    layer, x = golden_layer(problem)
    want = result(layer, x, Switches())
    for name, switches in SETTINGS.items():
        assert result(layer, x, switches) == want, name


@pytest.mark.parametrize("name", ["pointwise_f16", "same_3x3_f16", "dilated_tf32"])
def test_golden_kernels_add_exactly(name):
    """Whole numbers: their sums are the same in whichever order and precision the tensor core adds."""
    layer, x = golden_layer(PROBLEMS[name])
    assert result(layer, x, Switches(numerics="exact")) == result(layer, x, Switches())


@pytest.mark.parametrize("problem", resnet50("demo"), ids=lambda problem: problem.name)
def test_demo_layers(problem):
    x, w, b = integer_data(problem, 3)
    layer = layer_of(problem, Kernels().compiled(problem), w, b)
    want = result(layer, x, Switches())
    for name, switches in SETTINGS.items():
        assert result(layer, x, switches) == want, name
