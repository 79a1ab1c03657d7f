"""The distinct convolutions of ResNet-50 (224 x 224, batch 1): exact on integers, bounded on random data, all types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convc.compiler.kernels import Kernels
from convc.ir.network import ConvNode, TensorRef
from convc.ir.problem import ConvProblem
from convc.support.resources import make_models
from convc.verification.data import normal_data
from convc.verification.layer import check_layer

OUT = {"f16": "f16", "bf16": "bf16", "tf32": "f32"}


def distinct_layers() -> dict[str, Any]:
    """Rows of the table with different numbers, each under the name of its first layer."""
    seen: dict[tuple, Any] = {}
    for layer in make_models().read_layers():
        numbers = (layer.in_channels, layer.out_channels, layer.extent, layer.kernel, layer.stride, layer.pad)
        seen.setdefault(numbers, layer)
    return {layer.name: layer for layer in seen.values()}


LAYERS = distinct_layers()

CASES = [
    pytest.param(name, operand, marks=() if operand == "f16" or number % 3 == turn else pytest.mark.slow)
    for number, name in enumerate(LAYERS)
    for turn, operand in enumerate(OUT)
]
"""All shapes in f16, and a third of them in each of the other types; the rest in the slow suite."""


def test_there_are_23_distinct_shapes():
    assert len(LAYERS) == 23


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("name", "operand"), CASES)
def test_layer(name, operand, assembled):
    layer = LAYERS[name]
    problem = ConvProblem(
        name=name,
        in_channels=layer.in_channels,
        out_channels=layer.out_channels,
        in_extent=(layer.extent,) * 2,
        kernel=(layer.kernel,) * 2,
        stride=(layer.stride,) * 2,
        pad_lo=(layer.pad,) * 2,
        pad_hi=(layer.pad,) * 2,
        operand=operand,
        out=OUT[operand],
        bias=True,
    )
    _, weight, bias = normal_data(problem, 5)
    conv = ConvNode(
        name=name,
        problem=problem,
        weight=weight,
        bias=bias,
        input=TensorRef(name="x", dtype=problem.out, shape=problem.x_shape),
        output=TensorRef(name="y", dtype=problem.out, shape=(1, layer.out_channels, *problem.out_extent)),
    )
    compiled = Kernels().compiled(problem)
    assert assembled(compiled.artifact.ptx).spill_bytes == 0
    report = check_layer(conv, compiled, seed=5)
    assert report.ok, report
    assert all(check.findings == () for check in report.checks)
    assert report.checks[0].comparison.worst_error == 0
    assert np.isfinite(report.checks[1].comparison.worst_error)
