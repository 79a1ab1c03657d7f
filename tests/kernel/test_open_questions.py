"""Our kernels depend on no open question but those that their plans name: the same bits under all other switches."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from test_golden_kernels import CHOICES as COMPILED
from test_golden_kernels import PROBLEMS

from benchmarks.layers import resnet50
from convc.build.folder import Layer
from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import Kernels, kernel_of
from convc.machine import RunOptions
from convc.machine.base.switches import CHOICES, OPEN, Switches
from convc.runtime.layer import run_layer
from convc.verification.data import integer_data, residual_data

OTHER = {name: other for name in OPEN for other in CHOICES[name][1:]}
assert len(OTHER) == len(dict(Switches().others())), "each open question has two settings"

GOLDEN = {name: dataclasses.replace(p, batch=2 if p.batch > 100 else p.batch) for name, p in PROBLEMS.items()}
"""``large_output_f32`` with two images of its 4096, whose output takes 15 GB."""


def result(layer: Layer, x: np.ndarray, switches: Switches, residual: np.ndarray | None = None) -> bytes:
    done = run_layer(layer, x, RunOptions(switches=switches), residual=residual)
    assert done.findings == ()
    assert done.y.any()
    return done.y.tobytes()


def golden_layer(name: str) -> tuple[Layer, np.ndarray, np.ndarray | None, set[str]]:
    """A layer, its input, its residual if it adds one, and the switches that its plan names."""
    problem = GOLDEN[name]
    x, w, b = integer_data(problem, 3)
    residual = residual_data(problem, 3, integer=True)
    compiled = compile_problem(problem, **COMPILED[name])
    named = {rule.switch for rule in compiled.plan.reuse.assumes if rule.switch} if compiled.plan.reuse else set()
    return layer_of(problem, kernel_of(compiled), w, b), x, residual, named


def changing(layer: Layer, x: np.ndarray, named: set[str], residual: np.ndarray | None = None) -> set[str]:
    """The switches whose other setting changes the result.

    Those that are not ``named`` are set together: only where that changes something are they tried one by one.
    """
    want = result(layer, x, Switches(), residual)

    def switched(names: set[str]) -> Switches:
        return dataclasses.replace(Switches(), **{name: OTHER[name] for name in names})

    def changes(name: str) -> bool:
        return run_layer(layer, x, RunOptions(switches=switched({name})), residual=residual).y.tobytes() != want

    together = result(layer, x, switched(set(OTHER) - named), residual)
    return {name for name in (named if together == want else OTHER) if changes(name)}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_kernels(name):
    layer, x, residual, named = golden_layer(name)
    assert changing(layer, x, named, residual) == named


@pytest.mark.parametrize("name", ["pointwise_f16", "same_3x3_f16", "dilated_tf32"])
def test_golden_kernels_add_exactly(name):
    """Whole numbers: their sums are the same in whichever order and precision the tensor core adds."""
    layer, x, _, _ = golden_layer(name)
    assert result(layer, x, Switches(numerics="exact")) == result(layer, x, Switches())


@pytest.mark.parametrize("problem", resnet50("demo"), ids=lambda problem: problem.name)
def test_demo_layers(problem):
    x, w, b = integer_data(problem, 3)
    layer = layer_of(problem, Kernels().compiled(problem), w, b)
    assert changing(layer, x, set()) == set()
