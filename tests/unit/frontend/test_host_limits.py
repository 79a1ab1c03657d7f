"""Nodes that `onnx.reference` is known to compute otherwise than the operator says, by attributes and inputs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from convc.frontend.host_limits import reference_wrong

X = np.zeros((1, 1, 3, 4), np.float32)


def scales(*each: float) -> np.ndarray:
    return np.array([1, 1, *each], np.float32)


@pytest.mark.parametrize(
    ("names", "arrays", "right"),
    [
        (["x", "", "", "sizes"], [X, None, None, np.array([1, 1, 5, 5])], True),
        (["x", "", "", "sizes"], None, True),
        (["x", "", "scales"], [X, None, scales(2, 1.5)], True),
        (["x", "", "scales"], [X, None, scales(1.5, 1)], False),
        (["x", "", "scales"], None, False),
    ],
    ids=["sizes", "sizes that are not known", "extents are whole", "one is not", "scales that are not known"],
)
def test_resize_by_scales_is_right_where_extents_are_whole(names, arrays, right):
    node = helper.make_node("Resize", names, ["y"], coordinate_transformation_mode="align_corners")
    assert (reference_wrong(node, 13, arrays) == "") == right


@pytest.mark.parametrize(("arrays", "right"), [([X], True), ([X[0]], False), ([], False), (None, False)])
def test_a_pool_over_the_image_is_right_in_two_dimensions_alone(arrays, right):
    assert (reference_wrong(helper.make_node("GlobalMaxPool", ["x"], ["y"]), 13, arrays) == "") == right
