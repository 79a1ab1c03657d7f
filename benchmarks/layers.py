"""The convolutions of ResNet-50 as problems, from the table that the models are made of."""

from __future__ import annotations

from convc.models import make_models
from convc.problem import ConvProblem


def resnet50(selection: str = "all") -> tuple[ConvProblem, ...]:
    """All 53 layers at 224x224, or the ``demo`` ones: batch 1, float16, with bias."""
    return tuple(
        ConvProblem(
            name=layer.name,
            batch=1,
            in_channels=layer.in_channels,
            out_channels=layer.out_channels,
            in_extent=(layer.extent, layer.extent),
            kernel=(layer.kernel, layer.kernel),
            stride=(layer.stride, layer.stride),
            pad_lo=(layer.pad, layer.pad),
            pad_hi=(layer.pad, layer.pad),
            operand="f16",
            out="f16",
            bias=True,
        )
        for layer in make_models().read_layers(selection)
    )
