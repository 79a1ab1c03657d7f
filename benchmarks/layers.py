"""Convolutions to measure: those of ResNet-50, and those with wide filters of the models in the onnx package."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np

from convc.build.writer import layer_of
from convc.compiler.kernels import Kernels
from convc.ir.launch import LaunchSpec
from convc.ir.problem import ConvProblem
from convc.machine import RunOptions
from convc.runtime.layer import input_buffers
from convc.support.resources import make_models
from convc.verification.data import normal_data

EACH = RunOptions(repeats=False)
"""Execute each launch: to be measured as the first of its kind, however often it is run."""


def resnet50(selection: str = "all") -> tuple[ConvProblem, ...]:
    """All 53 layers at 224x224, or the ``demo`` ones: batch 1, float16, with bias."""
    return tuple(
        square(
            layer.in_channels,
            layer.out_channels,
            layer.extent,
            kernel=layer.kernel,
            stride=layer.stride,
            pad=layer.pad,
            name=layer.name,
        )
        for layer in make_models().read_layers(selection)
    )


def square(
    channels: int, filters: int, extent: int, kernel: int = 1, stride: int = 1, pad: int | None = None, **changes: Any
) -> ConvProblem:
    """A convolution whose image, filter, stride and padding are as high as wide: batch 1, float16, with bias.

    Args:
        channels: C, of the input.
        filters: K.
        extent: H and W.
        kernel: R and S.
        stride: of both.
        pad: on all four sides; by default what keeps the extent, or divides it by the stride.
        changes: other fields of `ConvProblem`.
    """
    around = kernel // 2 if pad is None else pad
    given: dict[str, Any] = {"batch": 1, "operand": "f16", "out": "f16", "bias": True}
    return ConvProblem(
        in_channels=channels,
        out_channels=filters,
        in_extent=(extent, extent),
        kernel=(kernel, kernel),
        stride=(stride, stride),
        pad_lo=(around, around),
        pad_hi=(around, around),
        **given | changes,
    )


def launch_of(kernels: Kernels, problem: ConvProblem) -> tuple[str, LaunchSpec, dict[str, np.ndarray]]:
    """Text, launch and buffers of a layer on normal data, as `convc.machine.run` takes them."""
    x, w, b = normal_data(problem, seed=0)
    layer = layer_of(problem, kernels.compiled(problem), w, b)
    return layer.ptx, layer.launch, input_buffers(layer, x)


def light_files() -> dict[str, Path]:
    """The nine models that come with the onnx package, by name (``resnet50``)."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    return {path.stem.removeprefix("light_"): path for path in sorted(folder.glob("light_*.onnx"))}


@functools.cache
def light_models() -> dict[str, ConvProblem]:
    """Distinct convolutions with a filter wider or higher than 1, by the first that has them (``resnet50/n7``).

    From the nine models of the onnx package, as float16 at batch 1; grouped convolutions are left out.
    """
    from convc.frontend.onnx_reader import read_model

    found: dict[ConvProblem, str] = {}
    for model, path in light_files().items():
        for node in read_model(path, operand="f16").convs:
            if max(node.problem.kernel) > 1 and node.problem.groups == 1:
                name = f"{model}/{node.name}"
                found.setdefault(dataclasses.replace(node.problem, name=""), name)
    return {name: dataclasses.replace(problem, name=name) for problem, name in found.items()}
