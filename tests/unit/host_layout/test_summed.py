"""Which gradients of weights are summed from pixels as they lie, and why others are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from convc.host_layout.summed import why_not_summed
from convc.ir.problem import ConvProblem

GRADIENT = ConvProblem(
    batch=64, in_channels=2, out_channels=32, in_extent=(8, 8), kernel=(6, 6), late_filter=True, out="f32"
)

LINES = {"in_extent": (8,), "kernel": (6,), "stride": (1,), "dilation": (1,), "pad_lo": (0,), "pad_hi": (0,),
         "output_padding": (0,)}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, None),
        ({"operand": "bf16"}, None),
        ({"late_filter": False}, "it is no gradient of weights"),
        ({"operand": "tf32"}, "the tensor core reads operands MN-major of f16 and bf16, these are tf32"),
        (
            {"operand": "e4m3", "filter_operand": "e5m2"},
            "the tensor core reads operands MN-major of f16 and bf16, these are e4m3 x e5m2",
        ),
        (LINES, "it has 1 spatial axes, and MN-major operands are of two"),
        ({"groups": 2}, "its 2 groups share the channels of a row"),
    ],
)
def test_gradients_that_are_summed_as_they_lie(changed, reason):
    assert why_not_summed(replace(GRADIENT, **changed)) == reason
