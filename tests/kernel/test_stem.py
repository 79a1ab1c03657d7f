"""Kernels whose filter columns are channels: three witnesses agree, and the stem of a network multiplies a third."""

from __future__ import annotations

from convc.ir.problem import ConvProblem

STEM = ConvProblem(
    in_channels=3, out_channels=64, in_extent=(224, 224), kernel=(7, 7), stride=(2, 2), pad_lo=(3, 3), pad_hi=(3, 3),
    bias=True,
)  # fmt: skip
