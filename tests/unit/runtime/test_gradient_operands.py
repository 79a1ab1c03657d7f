"""Operands of a layer that makes the gradient of weights."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from convc.ir.network import Gradient
from convc.ir.problem import ConvProblem
from convc.runtime.gradients import operand_shapes, random_operands

FORWARD = ConvProblem(batch=2, in_channels=6, out_channels=4, in_extent=(5, 7), kernel=(3, 2), groups=2)
SHAPES = {"x": (2, 6, 5, 7), "dy": (2, 4, 3, 6)}
"""Of the forward input and of the gradient of its output."""


@pytest.mark.parametrize("adds", [False, True])
def test_an_old_gradient_is_an_operand_where_the_new_one_is_added(adds):
    layer = SimpleNamespace(layout=SimpleNamespace(residual=object() if adds else None))
    gradient = Gradient(of="weights", forward=FORWARD)
    shapes = SHAPES | ({"residual": (4, 3, 3, 2)} if adds else {})
    assert operand_shapes(layer, gradient) == shapes
    drawn = random_operands(layer, gradient, 3)
    assert {name: array.shape for name, array in drawn.items()} == shapes
    assert {int(each) for array in drawn.values() for each in array.reshape(-1)} == set(range(-3, 4))
