"""What the host does before it repacks: the expanded problem with expanded arrays has the same results."""

from __future__ import annotations

import numpy as np
import pytest

from convc.host_layout.device_layout import device_layout
from convc.host_layout.expand import copies_of, expand_activation, expand_filter, expanded, split_filter
from convc.ir.problem import ConvProblem
from convc.report.layout_notes import layout_notes
from convc.verification import reference
from convc.verification.data import integer_data


@pytest.mark.parametrize(
    ("fields", "copies", "said"),
    [
        ({"operand": "u8", "filter_operand": "s8", "out": "s32", "filter_parts": 3}, 3, "the sum of 3 s8 parts"),
        ({"operand": "s8", "out": "s32", "pad_value": -5}, 1, "pads the image with -5"),
        ({"operand": "s8", "out": "u8", "pad_value": 9, "filter_parts": 2}, 2, "pads the image with 9"),
        ({"operand": "bf16x3", "out": "f32"}, 3, "3 products of parts"),
        ({"operand": "tf32x3", "out": "f32"}, 3, "3 products of parts"),
        ({"operand": "bf16x6", "out": "bf16"}, 6, "6 products of parts"),
    ],
)
@pytest.mark.parametrize("groups", [1, 2])
def test_expanded_problems_have_the_same_results(fields, copies, said, groups):
    problem = ConvProblem(
        batch=2,
        in_channels=6,
        out_channels=4,
        groups=groups,
        in_extent=(5, 6),
        kernel=(3, 2),
        stride=(1, 2),
        pad_lo=(1, 0),
        pad_hi=(2, 1),
        **fields,
    )
    for seed in (0, 1):
        x, w, _ = integer_data(problem, seed)
        left = expanded(problem)
        assert left.in_channels == copies * problem.in_channels == copies_of(problem) * problem.in_channels
        assert left.y_shape == problem.y_shape
        assert expanded(left) == left
        y = reference.conv_problem(left, expand_activation(problem, x), expand_filter(problem, w))
        assert np.array_equal(y, reference.conv_problem(problem, x, w))
    assert any(said in note for note in layout_notes(device_layout(problem)))


def test_most_problems_stay_as_they_are():
    problem = ConvProblem(in_channels=6, out_channels=4, in_extent=(5, 6), kernel=(3, 2))
    x, w, _ = integer_data(problem, 0)
    assert expanded(problem) is problem
    assert expand_activation(problem, x) is x
    assert expand_filter(problem, w) is w
    assert len(layout_notes(device_layout(problem))) == 3


def test_weights_that_the_parts_cannot_hold_are_refused():
    """Two parts of s8 hold numbers from -256 to 254."""
    held = np.array([-256, 254, 3])
    assert (sum(part.astype(int) for part in split_filter(held, 2)) == held).all()
    for beyond in (-257, 255):
        with pytest.raises(ValueError, match=f"2 parts of s8 cannot hold weights from {min(beyond, 0)} to"):
            split_filter(np.array([0, beyond]), 2)
