"""Every filter wider than 1 in the onnx package's light models, on every schedule that is legal for it."""

from __future__ import annotations

import dataclasses
from functools import cache

import pytest
from support.schedules import only

from benchmarks.layers import light_models
from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.compiler.schedules.all import RELOAD, SCHEDULES, SLIDE
from convc.errors import PlanError
from convc.ir.findings import Verdict
from convc.ir.problem import ConvProblem
from convc.runtime.layer import run_layer
from convc.verification import reference
from convc.verification.bound import error_bound
from convc.verification.compare import compare
from convc.verification.data import integer_data, normal_data

pytestmark = pytest.mark.slow

FILTERS = 73
"""A number, so that who collects the tests does not read the models."""


@cache
def wide_filters() -> dict[str, ConvProblem]:
    """Distinct problems, by the first layer that has each."""
    found: dict[ConvProblem, str] = {}
    for name, problem in light_models().items():
        if problem.kernel[1] > 1:
            found.setdefault(dataclasses.replace(problem, name="layer"), name)
    return {name: problem for problem, name in found.items()}


def test_there_are_as_many_as_the_models_have():
    assert len(wide_filters()) == FILTERS


@pytest.mark.parametrize("at", range(FILTERS))
def test_layer_on_every_schedule(at):
    problem, ran = list(wide_filters().values())[at], []
    integers, normals = integer_data(problem, 5), normal_data(problem, 5)
    exact, rounded = (reference.conv_problem(problem, *data) for data in (integers, normals))
    bound = error_bound(problem, *normals)
    for schedule in SCHEDULES:
        try:
            compiled = compile_problem(problem, options=only(schedule))
        except PlanError:
            continue
        ran.append(schedule)
        run = run_layer(layer_of(problem, kernel_of(compiled), *integers[1:]), integers[0])
        assert (compare(run.y, exact).ok, run.findings) == (True, ()), schedule.id.title
        run = run_layer(layer_of(problem, kernel_of(compiled), *normals[1:]), normals[0])
        assert (compare(run.y, rounded, bound).ok, run.verdict) == (True, Verdict.clean), schedule.id.title
    assert {RELOAD, SLIDE} < set(ran)
