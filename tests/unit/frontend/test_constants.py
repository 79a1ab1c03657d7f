"""What is constant, and what a cast makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from convc.frontend.constants import Constants

HALF = numpy_helper.from_array(np.array([1.5, -2.5], np.float16), "v")


def graph(nodes, *tensors):
    return helper.make_graph(nodes, "g", [], [], tensors)


def node(kind, given, made, **attributes):
    return helper.make_node(kind, [given], [made], **attributes)


CAST = node("Cast", "a", "b", to=TensorProto.FLOAT)


@pytest.mark.parametrize("between", ["Identity", "Relu"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_cast_of_what_is_no_constant_is_none(between, inside):
    """Neither in the graph itself nor where a subgraph casts what the graph around it computes."""
    outer = Constants(graph([node(between, "x", "a")]), Path(), {})
    inner = graph([CAST]) if inside else graph([node(between, "x", "a"), CAST])
    assert Constants(inner, Path(), {}, outer=outer if inside else None).value("b") is None


@pytest.mark.parametrize("inside", [False, True])
def test_casts_of_a_constant_are_made_one_after_the_other(inside):
    outer = Constants(graph([], HALF), Path(), {})
    casts = [node("Cast", "v", "a", to=TensorProto.INT32), CAST]
    value = Constants(graph(casts, *([] if inside else [HALF])), Path(), {}, outer=outer if inside else None).value("b")
    assert value.dtype == np.float32
    assert value.tolist() == [1.0, -2.0]
