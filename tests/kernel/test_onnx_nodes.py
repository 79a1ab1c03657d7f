"""The onnx package's own test cases of the Conv operator, through the front door, the compiler and the simulator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from support.onnx_cases import node_cases

from convc import api
from convc.build.writer import layer_of
from convc.compiler.kernels import Kernels
from convc.frontend.onnx_reader import read_model
from convc.runtime.layer import run_layer

CASES = node_cases("conv")


def test_there_are_six_cases():
    assert len(CASES) == 6


@pytest.mark.parametrize("name", CASES)
def test_case(name, tmp_path):
    case = CASES[name]
    path = tmp_path / "model.onnx"
    onnx.save(case.model, path)
    inputs, outputs = case.data_sets[0]
    x, weight = (np.asarray(v) for v in inputs)
    network = read_model(path, constants={case.model.graph.input[1].name: weight})
    (conv,) = network.convs
    layer = layer_of(conv.problem, Kernels().compiled(conv.problem), conv.weight, conv.bias)
    run = run_layer(layer, x)
    assert run.findings == ()
    np.testing.assert_array_equal(run.y, outputs[0])  # whole numbers, which tf32 holds
    report = api.verify(network, seed=1)
    assert report.ok, report
