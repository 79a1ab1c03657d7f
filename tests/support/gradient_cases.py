"""Convolutions whose gradients are tested."""

from __future__ import annotations

from convc.ir.problem import ConvProblem

UNEVEN = ConvProblem(
    batch=2,
    in_channels=72,
    out_channels=40,
    in_extent=(9, 10),
    kernel=(3, 2),
    stride=(2, 1),
    dilation=(1, 3),
    pad_lo=(1, 0),
    pad_hi=(0, 2),
)
"""Its axes differ in extent, filter, stride, dilation and padding."""
