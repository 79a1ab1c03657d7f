"""The kernels that are sabotaged. A new one is a new line of `KERNELS`.

Every kind of kernel that convc ships is among them: the golden kernels, the layers of the demo, and the variants that
the emitter can produce. Buffers are filled with small whole numbers, padding included, and what is compared is every
byte of every buffer: a kernel is what its text and its launch say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import msgspec
import numpy as np
import sabotage_tensor
from support.option_sets import OPTION_SETS
from support.schedules import RELOAD_ONLY

from convc.compiler.compile import compile_problem
from convc.compiler.emit import kernel as emit_kernel
from convc.compiler.options import ScheduleOptions
from convc.host_layout.repack import pack_activation, pack_weights, scaled_bias
from convc.ir.epilogue import AddResidual, Clip, LeakyRelu, Relu, ReluGrad, Sigmoid, SiLU
from convc.ir.launch import BufferSpec, LaunchSpec, TensorMapParam, load_launch
from convc.ir.problem import ConvProblem
from convc.support.resources import make_models
from convc.verification.data import integer_data

TESTS = Path(__file__).resolve().parents[1]
NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "u8": np.uint8,
    "s8": np.int8, "s32": np.int32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
MULTIPLIERS = (2**-5, 2**-6, 3 * 2**-8, 2**-7)
"""By which a requantised kernel multiplies sums of some thousand, so that few results saturate."""
SCALED = ("mxfp8", "mxfp4", "nvfp4")
RESULTS = ("output", "out", "y", "workspace")
"""Buffers that a kernel writes."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A kernel to sabotage.

    Attributes:
        text, launch: what is run.
        inputs: buffers that are read; small whole numbers where they are not given.
        ours: made by convc; then all numbers of its steps are moved, whatever they mean.
        alarms: rules by which the checkers call the unchanged kernel wrong although it is right.
    """

    text: str
    launch: LaunchSpec
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    ours: bool = True
    alarms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.inputs:
            rng = np.random.default_rng(7)
            read = {
                name: spec for name, spec in self.launch.buffers.items() if name not in RESULTS and spec.values is None
            }
            object.__setattr__(self, "inputs", {name: _small(rng, spec) for name, spec in read.items()})


def _small(rng: np.random.Generator, spec: BufferSpec) -> np.ndarray:
    """Whole numbers from -3 to 3, modulo 256 as u8; a requantised kernel has its multipliers behind the bias."""
    numbers = rng.integers(-3, 4, spec.shape).astype(NUMPY[spec.dtype])
    if spec.dtype == "s32" and len(spec.shape) == 2:
        numbers[1] = rng.choice(np.float32(MULTIPLIERS), spec.shape[1]).view(np.int32)
    return numbers


def conv(
    operand: str = "f16",
    out: str = "f16",
    *,
    options: ScheduleOptions = RELOAD_ONLY,
    block_n: int | None = None,
    stages: int = 2,
    **shape,
) -> Subject:
    """A kernel as the compiler makes it; 3 x 3 taps over 12 x 12 pixels where ``shape`` does not say otherwise."""
    shape = {"in_extent": (12, 12), "kernel": (3, 3), "pad_lo": (1, 1), "pad_hi": (1, 1)} | shape
    problem = ConvProblem(operand=operand, out=out, **shape)
    return unscaled(problem, options=options, block_n=block_n, stages=stages)


def blocks(operand: str, out: str, *, block_n: int | None = None, stages: int, **shape) -> Subject:
    """A kernel of block-scaled operands, with a bias."""
    problem = ConvProblem(operand=operand, out=out, bias=True, **shape)
    return scaled(problem, options=RELOAD_ONLY, block_n=block_n, stages=stages)


def scaled(problem: ConvProblem, **options) -> Subject:
    """A kernel of block-scaled operands, on numbers whose sums are exact; bytes at random would mostly be NaN."""
    compiled = compile_problem(problem, **options)
    x, w, b = integer_data(problem, 7)
    filters, bias = pack_weights(compiled.layout, w, b)
    if bias.ndim == 2:
        bias[1] = np.random.default_rng(7).choice(np.float32(MULTIPLIERS), bias.shape[1])
    inputs = {
        "activation": pack_activation(compiled.layout, x),
        "filter": filters,
        "bias": scaled_bias(compiled.layout, bias, x),
    }
    return Subject(text=compiled.artifact.ptx, launch=compiled.artifact.launch, inputs=inputs)


def chosen(name: str) -> Subject:
    """A kernel of `OPTION_SETS` whose loops come round its rings: two stages where the set leaves them open."""
    drawn = OPTION_SETS[name]
    problem = drawn.problem
    if problem.name == "pointwise":
        problem = dataclasses.replace(problem, in_channels=problem.in_channels * 5 // 2)
    if problem.name == "stem" and drawn.options.persistent == "on":  # four tiles each, so that halves come round
        problem = dataclasses.replace(problem, batch=2 * problem.batch)
    make = partial(scaled, problem) if problem.operand in SCALED else partial(unscaled, problem)
    return make(options=drawn.options, block_n=drawn.block_n, stages=drawn.stages or 2)


def unscaled(problem: ConvProblem, **options) -> Subject:
    """A kernel as the compiler makes it."""
    artifact = compile_problem(problem, **options).artifact
    return Subject(text=artifact.ptx, launch=artifact.launch)


def inexact() -> Subject:
    """Four split-K CTAs, and whose sums show in which order they are added.

    Those of the first part are near 2^24, of the third near -2^24, and even. Added to the first, an odd sum of the
    second part loses its last bit; behind both it would not. In a part all sums are exact, in any order.
    """
    kernel = conv(
        out="f32", in_channels=256, out_channels=32, in_extent=(8, 16), kernel=(1, 1), block_n=32, stages=1, **UNPADDED,
        options=ScheduleOptions(schedule="reload", split_k="4"),
    )  # fmt: skip
    inputs = {name: array.copy() for name, array in kernel.inputs.items()}
    for first, large in ((0, 4096), (128, -4096)):
        inputs["filter"][..., first : first + 64] *= 2
        inputs["filter"][..., first] = large
        inputs["activation"][..., first] = 4096
    return dataclasses.replace(kernel, inputs=inputs)


def sharing(
    schedule: str,
    shift: str = "auto",
    *,
    border: str = "mask",
    rows: str = "outer",
    batch: int = 3,
    width: int = 61,
    out_channels: int = 80,
    block_n: int | None = 48,
) -> Subject:
    """A kernel that shares activations, with masks unless the border is zero.

    It has several tiles of pixels and of channels, and rings of four stages for the three columns of a filter, so that
    no number of a role is always zero.
    """
    problem = ConvProblem(
        batch=batch,
        in_channels=128,
        out_channels=out_channels,
        in_extent=(6, width),
        kernel=(3, 3),
        pad_lo=(1, 1),
        pad_hi=(1, 1),
    )
    options = ScheduleOptions(schedule=schedule, shift=shift, border=border, rows=rows, store="direct", split_k="off")
    artifact = compile_problem(problem, options=options, block_n=block_n, stages=4).artifact
    return Subject(text=artifact.ptx, launch=artifact.launch)


def golden(name: str, images: int | None = None, tiles: int | None = None) -> Subject:
    """A blessed text; of a large problem the first images and the first tiles of pixels."""
    folder = TESTS / "golden" / name
    launch = load_launch(folder / "launch.json")
    if images is not None:
        launch = _fewer_images(launch, images)
    grid = launch.grid if tiles is None else (tiles, *launch.grid[1:])
    return Subject(text=(folder / "kernel.ptx").read_text(), launch=msgspec.structs.replace(launch, grid=grid))


def _fewer_images(launch: LaunchSpec, images: int) -> LaunchSpec:
    buffers = {
        name: msgspec.structs.replace(spec, shape=(images, *spec.shape[1:])) if len(spec.shape) == 4 else spec
        for name, spec in launch.buffers.items()
    }
    params = tuple(
        msgspec.structs.replace(param, map=msgspec.structs.replace(param.map, dims=(*param.map.dims[:-1], images)))
        if isinstance(param, TensorMapParam) and param.map.mode == "im2col"
        else param
        for param in launch.params
    )
    return msgspec.structs.replace(launch, buffers=buffers, params=params)


def demo(name: str, tiles: int | None = None) -> Subject:
    """The kernel of a layer of the demo on the schedule reload; of a large one the first tiles of pixels.

    Kernels of the other schedules are those of `sharing`: their problems are chosen so that every mask and ring counts.
    """
    layer = next(layer for layer in make_models().read_layers("demo") if layer.name == name)
    problem = ConvProblem(
        in_channels=layer.in_channels,
        out_channels=layer.out_channels,
        in_extent=(layer.extent,) * 2,
        kernel=(layer.kernel,) * 2,
        stride=(layer.stride,) * 2,
        pad_lo=(layer.pad,) * 2,
        pad_hi=(layer.pad,) * 2,
    )
    alone = dataclasses.replace(RELOAD_ONLY, cta_group="1")
    artifact = compile_problem(problem, options=alone).artifact
    grid = artifact.launch.grid if tiles is None else (tiles, *artifact.launch.grid[1:])
    return Subject(text=artifact.ptx, launch=msgspec.structs.replace(artifact.launch, grid=grid))


def foreign(name: str) -> Subject:
    """A kernel of another compiler."""
    folder = TESTS / "foreign" / name
    launch = load_launch(folder / "launch.json")
    return Subject(text=(folder / "kernel.ptx").read_text(), launch=launch, ours=False)


def tensor(make: Callable[[], sabotage_tensor.Kernel], *alarms: str) -> Subject:
    """A hand-written kernel."""
    text, launch, inputs = make()
    return Subject(text=text, launch=launch, inputs=inputs, ours=False, alarms=alarms)


UNPADDED = {"pad_lo": (0, 0), "pad_hi": (0, 0)}

KERNELS: dict[str, Callable[[], Subject]] = {
    "f16": partial(conv, in_channels=128, out_channels=64),
    "tf32, channels past K": partial(
        conv, "tf32", "f32", in_channels=64, out_channels=40, in_extent=(12, 14), kernel=(2, 2), stride=(2, 1), batch=3,
        **UNPADDED,
    ),
    "bf16, short rows": partial(conv, "bf16", "bf16", in_channels=3, out_channels=64, stages=3),
    "1x1, one stage, full tiles": partial(
        conv, out="f32", in_channels=192, out_channels=64, in_extent=(16, 16), kernel=(1, 1), stages=1, **UNPADDED
    ),
    "two tiles of channels": partial(conv, in_channels=128, out_channels=80, block_n=48, stages=4),
    "residual, bounds, rows past M and channels past K": partial(
        conv, in_channels=16, out_channels=20, kernel=(1, 3), block_n=16, **UNPADDED,
        epilogue=(Clip(-40.0), AddResidual(), Relu(), Clip(high=90.0)),
    ),
    "e4m3 by e5m2 to f32, slope, residual, sigmoid": partial(
        conv, "e4m3", "f32", filter_operand="e5m2", in_channels=32, out_channels=32, in_extent=(8, 16), kernel=(3, 1),
        pad_lo=(1, 0), pad_hi=(1, 0), block_n=16, epilogue=(LeakyRelu(0.25), AddResidual(), Sigmoid()),
    ),
    "u8 by s8, requantised": partial(
        conv, "u8", "u8", filter_operand="s8", in_channels=32, out_channels=32, kernel=(1, 3), block_n=16,
        out_zero_point=100, **UNPADDED,
    ),
    "nvfp4, scaled": partial(
        blocks, "nvfp4", "f32", in_channels=320, out_channels=96, in_extent=(9, 17), kernel=(1, 2), stages=3,
        block_n=48,
    ),
    "hopper clusters that load for each other": partial(
        conv, in_channels=128, out_channels=80, block_n=48, batch=5, stages=2, kernel=(1, 2), **UNPADDED,
        options=ScheduleOptions(
            schedule="reload", store="direct", persistent="off", multicast="2x2", target="sm_90a"
        ),
    ),
    "hopper, persistent clusters": partial(
        conv, in_channels=128, out_channels=80, block_n=48, batch=5, stages=3, kernel=(1, 2), **UNPADDED,
        options=ScheduleOptions(
            schedule="reload", store="direct", persistent="on", ctas=2, multicast="2x1", target="sm_90a"
        ),
    ),
}  # fmt: skip
"""Run by default."""

THIN = {
    "options": ScheduleOptions(schedule="stationary", rows="outer"), "kernel": (3, 1), "pad_lo": (1, 0), "pad_hi": (1,
    0),
}  # fmt: skip
"""A stationary kernel of few pixels."""

SLOW: dict[str, Callable[[], Subject]] = {
    "mxfp8, groups": partial(
        blocks, "mxfp8", "f32", in_channels=1344, out_channels=128, groups=2, in_extent=(9, 16), kernel=(2, 1),
        stages=2, block_n=32,
    ),
    "mxfp8, one MMA a stage": partial(
        blocks, "mxfp8", "f32", in_channels=32, out_channels=64, in_extent=(12, 14), kernel=(3, 3), stages=3,
        block_n=32,
    ),
    "mxfp4, scaled": partial(
        blocks, "mxfp4", "bf16", in_channels=700, out_channels=64, in_extent=(12, 12), kernel=(3, 1), stages=2,
        pad_lo=(1, 0), pad_hi=(1, 0), block_n=32,
    ),
    "golden pointwise_f16": partial(golden, "pointwise_f16"),
    "golden same_3x3_f16": partial(golden, "same_3x3_f16"),
    "golden stem_7x7_bf16": partial(golden, "stem_7x7_bf16", tiles=3),
    "golden joined_columns_f16": partial(golden, "joined_columns_f16", tiles=3),
    "golden dilated_tf32": partial(golden, "dilated_tf32"),
    "golden block_end_f16": partial(golden, "block_end_f16"),
    "golden hopper_f16": partial(golden, "hopper_f16"),
    "golden hopper_slide_f16": partial(golden, "hopper_slide_f16"),
    "golden hopper_registers_f16": partial(golden, "hopper_registers_f16"),
    "golden tensor_store_f16": partial(golden, "tensor_store_f16"),
    "golden hopper_tensor_store_f16": partial(golden, "hopper_tensor_store_f16"),
    "golden persistent_f16": partial(golden, "persistent_f16"),
    "golden hopper_persistent_f16": partial(golden, "hopper_persistent_f16"),
    "golden dynamic_f16": partial(golden, "dynamic_f16"),
    "golden pair_f16": partial(golden, "pair_f16"),
    "golden multicast_f16": partial(golden, "multicast_f16"),
    "persistent clusters with multicast": partial(
        conv, in_channels=64, out_channels=80, block_n=48, batch=4, stages=5, kernel=(1, 3), **UNPADDED,
        options=ScheduleOptions(schedule="reload", store="tma", persistent="on", ctas=2, cta_group="1",
                                multicast="2x1"),
    ),
    "golden copied_residual_f16": partial(golden, "copied_residual_f16"),
    "golden split_k_f16": partial(golden, "split_k_f16"),
    "golden hopper_split_k_f16": partial(golden, "hopper_split_k_f16"),
    "golden workspace_f16": partial(golden, "workspace_f16"),
    "golden wgrad_bf16": partial(golden, "wgrad_bf16"),
    "golden hopper_wgrad_f16": partial(golden, "hopper_wgrad_f16"),
    "golden wgrad_accumulated_f16": partial(golden, "wgrad_accumulated_f16"),
    "golden tile_order_f16": partial(golden, "tile_order_f16"),
    "golden dgrad_f16": partial(golden, "dgrad_f16"),
    "golden dgrad_strided_f16": partial(golden, "dgrad_strided_f16"),
    "tiles in groups, persistent CTAs": partial(
        conv, in_channels=64, out_channels=80, block_n=48, batch=3,
        options=ScheduleOptions(schedule="reload", persistent="on", ctas=3, rasterization_order="grouped"),
    ),
    "serpentine tiles": partial(
        conv, in_channels=128, out_channels=96, block_n=32, batch=3,
        options=ScheduleOptions(schedule="reload", rasterization_order="boustrophedon", split_k="off"),
    ),
    "tiles looked up": partial(
        conv, in_channels=64, out_channels=96, block_n=32, batch=3,
        options=ScheduleOptions(schedule="reload", rasterization_order="hilbert", split_k="off", cache_hints="on"),
    ),
    "persistent CTAs": partial(
        conv, in_channels=64, out_channels=80, block_n=48, batch=3,
        options=ScheduleOptions(schedule="reload", store="tma", persistent="on", ctas=3, pdl=True),
    ),
    "persistent CTAs, bias in registers": partial(
        conv, in_channels=64, out_channels=128, block_n=128, batch=8, in_extent=(12, 13), kernel=(1, 1), **UNPADDED,
        options=ScheduleOptions(schedule="reload", store="tma", persistent="on", ctas=2, cta_group="1"),
    ),
    "mask of a rectifier": partial(
        conv, in_channels=64, out_channels=80, block_n=48, batch=2, kernel=(1, 1), epilogue=(ReluGrad(),), **UNPADDED,
        options=ScheduleOptions(schedule="reload", store="direct", persistent="off", cta_group="1"),
    ),
    "mask of a rectifier by tensor copies": partial(
        conv, in_channels=64, out_channels=96, block_n=48, batch=2, kernel=(1, 1), epilogue=(ReluGrad(),), **UNPADDED,
        options=ScheduleOptions(schedule="reload", store="tma", residual_load="tma", persistent="off", cta_group="1"),
    ),
    "dependent launch, residual": partial(
        conv, in_channels=64, out_channels=64, kernel=(1, 1), bias=True, epilogue=(AddResidual(), Relu()), **UNPADDED,
        options=ScheduleOptions(
            schedule="reload", store="direct", persistent="off", cta_group="1", pdl=True
        ),
    ),
    "clusters with many columns and few bytes": partial(
        conv, in_channels=16, out_channels=512, kernel=(1, 3), in_extent=(26, 30), block_n=256, stages=2, **UNPADDED,
        options=ScheduleOptions(schedule="reload", store="direct", persistent="off", cta_group="1", multicast="2x2"),
    ),
    "CTAs that ask for tiles": partial(
        conv, in_channels=64, out_channels=80, block_n=48, batch=3,
        options=ScheduleOptions(schedule="reload", store="tma", persistent="on", tile_scheduler="dynamic"),
    ),
    "residual by tensor copies": partial(
        conv, in_channels=64, out_channels=128, block_n=128, kernel=(1, 1), **UNPADDED,
        epilogue=(AddResidual(), Relu()),
        options=ScheduleOptions(schedule="reload", residual_load="tma"),
    ),
    "residual by tensor copies, f32": partial(
        conv, "bf16", "f32", batch=7, in_channels=64, out_channels=64, block_n=64, kernel=(1, 1), **UNPADDED,
        epilogue=(AddResidual(),),
        options=ScheduleOptions(schedule="reload", residual_load="tma", persistent="on", ctas=2),
    ),
    "CTAs that share tiles": partial(
        conv, in_channels=64, out_channels=80, block_n=48, stages=2,
        options=ScheduleOptions(schedule="reload", split_k="2"),
    ),
    "CTAs that share full tiles": partial(
        conv, batch=1, in_channels=256, out_channels=128, in_extent=(8, 16), block_n=64, stages=1, kernel=(1, 1),
        **UNPADDED, options=ScheduleOptions(schedule="reload", split_k="2"),
    ),
    "clusters that share full tiles": partial(
        conv, batch=1, in_channels=1024, out_channels=256, in_extent=(8, 16), block_n=128, stages=1, kernel=(1, 1),
        **UNPADDED, options=ScheduleOptions(schedule="reload", split_k="16"),
    ),
    "four split-K CTAs, in order": inexact,
    "slide, persistent CTAs over masked tiles": partial(
        conv, in_channels=96, out_channels=32, block_n=16, batch=7, in_extent=(7, 12),
        options=ScheduleOptions(
            schedule="slide", filters="apart", border="mask", rows="merged", persistent="on", ctas=3, cta_group="1"
        ),
    ),
    "shift, CTAs that share masked tiles": partial(
        conv, in_channels=256, out_channels=64, block_n=32, batch=3, in_extent=(7, 12), stages=4,
        options=ScheduleOptions(schedule="shift", shift="chain", border="mask", rows="merged", split_k="2"),
    ),
    "slide, CTAs that share tiles": partial(
        conv, batch=1, in_channels=640, out_channels=128, in_extent=(8, 17), block_n=64, stages=7, kernel=(1, 2),
        **UNPADDED, options=ScheduleOptions(schedule="slide", split_k="2"),
    ),
    "golden scaled_nvfp4": partial(
        blocks, "nvfp4", "bf16", batch=2, in_channels=288, out_channels=88, in_extent=(9, 9), kernel=(3, 3),
        pad_lo=(1, 1), pad_hi=(1, 1), block_n=48, stages=3, name="scaled_nvfp4",
    ),
    "wgmma": partial(
        conv, in_channels=64, out_channels=80, block_n=48, stages=2, bias=True,
        options=ScheduleOptions(schedule="reload", target="sm_90a"),
    ),
    "wgmma, one stage": partial(
        conv, in_channels=64, out_channels=64, block_n=64, stages=1, kernel=(1, 3), **UNPADDED,
        options=ScheduleOptions(schedule="reload", target="sm_90a"),
    ),
    "wgmma, two warpgroups": partial(
        conv, "bf16", in_channels=64, out_channels=64, block_n=64, in_extent=(16, 17), kernel=(1, 1), **UNPADDED,
        options=ScheduleOptions(schedule="reload", target="sm_90a", store="direct"),
    ),
    "wgmma, registers handed over": partial(
        conv, in_channels=128, out_channels=64, block_n=64, stages=2, in_extent=(16, 17), kernel=(1, 3), **UNPADDED,
        options=ScheduleOptions(schedule="reload", target="sm_90a", store="direct", registers="on"),
    ),
    "wgmma, persistent slide": partial(
        conv, in_channels=72, out_channels=24, in_extent=(12, 12), block_n=16, stages=4,
        options=ScheduleOptions(schedule="slide", filters="apart", target="sm_90a", persistent="on", ctas=2),
    ),
    "wgmma, slide": partial(
        conv, in_channels=192, out_channels=80, block_n=48, stages=6, in_extent=(12, 36), kernel=(3, 5), stride=(1, 3),
        options=ScheduleOptions(schedule="slide", filters="apart", target="sm_90a"),
    ),
    "wgmma, filters beside activations": partial(
        conv, in_channels=72, out_channels=40,
        options=ScheduleOptions(schedule="slide", filters="together", target="sm_90a"),
    ),
    "results by tensor copies": partial(
        conv, in_channels=64, out_channels=160, block_n=128, stages=2, kernel=(1, 3), **UNPADDED, bias=True,
        options=ScheduleOptions(schedule="reload", store="tma"),
    ),
    "results by tensor copies, requantised": partial(
        conv, "u8", "u8", filter_operand="s8", in_channels=128, out_channels=192, kernel=(1, 3), block_n=96,
        out_zero_point=100, **UNPADDED, options=ScheduleOptions(schedule="reload", store="tma"),
    ),
    "golden large_output_f32": partial(golden, "large_output_f32", images=1, tiles=2),
    "slide": partial(sharing, "slide"),
    "slide, all rows in one stream": partial(sharing, "slide", rows="merged"),
    "slide, filters beside activations": partial(
        conv, in_channels=72, out_channels=40,
        options=ScheduleOptions(schedule="slide", filters="together", split_k="off"),
    ),
    "slide in CTA pairs": partial(
        conv, in_channels=128, out_channels=96, block_n=48, stages=4, batch=3, in_extent=(4, 61),
        options=ScheduleOptions(schedule="slide", border="zero", rows="outer", filters="apart", cta_group="2"),
    ),
    "slide, lines by tensor copies": partial(
        conv, in_channels=64, out_channels=80, block_n=48, in_extent=(3, 24), batch=2, epilogue=(AddResidual(),),
        options=ScheduleOptions(
            schedule="slide", border="zero", rows="outer", residual_load="tma", filters="apart", persistent="on",
            ctas=2,
        ),
    ),
    "shift windows, lines by tensor copies": partial(
        conv, in_channels=64, out_channels=80, block_n=48, in_extent=(3, 24), batch=2, epilogue=(AddResidual(),),
        options=ScheduleOptions(
            schedule="shift", shift="windows", border="zero", rows="outer", residual_load="tma", persistent="on",
            ctas=2,
        ),
    ),
    "slide in CTA pairs, masks": partial(
        conv, in_channels=128, out_channels=96, block_n=48, stages=4, batch=3, in_extent=(4, 61),
        options=ScheduleOptions(
            schedule="slide", border="mask", rows="merged", filters="apart", cta_group="2", persistent="off",
        ),
    ),
    "slide in CTA pairs that walk, masks": partial(
        conv, in_channels=64, out_channels=32, block_n=32, stages=4, batch=7, in_extent=(7, 12),
        options=ScheduleOptions(
            schedule="slide", border="mask", rows="merged", cta_group="2", persistent="on", ctas=2,
        ),
    ),
    "golden slide_together_f16": partial(golden, "slide_together_f16"),
    "shift chain": partial(sharing, "shift", "chain", rows="merged"),
    "shift ashift": partial(sharing, "shift", "ashift"),
    "shift chain, zeros at the border": partial(sharing, "shift", "chain", border="zero"),
    "shift windows": partial(sharing, "shift", "windows"),
    "shift chain in CTA pairs": partial(
        conv, in_channels=128, out_channels=96, block_n=48, stages=4, batch=3, in_extent=(4, 61),
        options=ScheduleOptions(schedule="shift", shift="chain", border="zero", rows="outer", cta_group="2"),
    ),
    "shift windows in CTA pairs": partial(
        conv, in_channels=128, out_channels=96, block_n=48, stages=4, batch=3, in_extent=(4, 61),
        options=ScheduleOptions(schedule="shift", shift="windows", border="zero", rows="outer", cta_group="2"),
    ),
    "stationary": partial(sharing, "stationary", batch=5, width=43, out_channels=168, block_n=None),
    "stationary, full tiles": partial(
        conv, out="f32", batch=2, in_channels=128, out_channels=256, in_extent=(3, 64),
        epilogue=(AddResidual(), SiLU()), **THIN,
    ),
    "stationary, requantised": partial(
        conv, "u8", "s8", filter_operand="s8", in_channels=144, out_channels=160, in_extent=(3, 61), out_zero_point=-5,
        **THIN,
    ),
    "stationary, residual past the edges": partial(
        conv, in_channels=128, out_channels=160, in_extent=(3, 61), epilogue=(AddResidual(),), **THIN
    ),
    "stationary, mask past the edges": partial(
        conv, in_channels=128, out_channels=160, in_extent=(3, 61), epilogue=(ReluGrad(),), **THIN
    ),
    "stationary, scaled": partial(
        conv, in_channels=128, out_channels=160, in_extent=(3, 61), multiplier=True, **THIN
    ),
    "demo conv1": partial(demo, "conv1", tiles=3),
    "demo layer1.0.conv2": partial(demo, "layer1.0.conv2"),
    "demo layer1.0.conv3": partial(demo, "layer1.0.conv3"),
    "demo layer2.1.conv2": partial(demo, "layer2.1.conv2"),
    "demo layer3.1.conv2": partial(demo, "layer3.1.conv2"),
    "demo layer4.1.conv2": partial(demo, "layer4.1.conv2"),
    "bf16 to f32, wide tiles": partial(conv, "bf16", "f32", in_channels=64, out_channels=256, block_n=256, stages=3),
    "rows of 64 bytes": partial(conv, in_channels=32, out_channels=64, kernel=(3, 1), pad_lo=(1, 0), pad_hi=(1, 0)),
    "a CTA pair": partial(tensor, sabotage_tensor.pair, "race-tensor-memory"),
    "weight stationary": partial(tensor, sabotage_tensor.stationary),
    "shift and copy": partial(tensor, sabotage_tensor.shifted, "race-tensor-memory"),
    "ashift": partial(tensor, sabotage_tensor.shifting),
    "gluon_pairs": partial(foreign, "gluon_pairs"),
}  # fmt: skip
"""Run by ``make slow``. All together take every branch of every template, see test_one_change."""

ALL = KERNELS | SLOW

CHOSEN: dict[str, Callable[[], Subject]] = {f"chosen: {name}": partial(chosen, name) for name in OPTION_SETS}
"""Every schedule, and every option with each other one that it goes with: changes of these are drawn."""

FILLED: dict[str, list[dict[str, Any]]] = {}
"""Template -> the names that it was filled with, once for each time, when kernels were made."""


def _rendered(template: str, names: dict[str, Any], real: Callable[..., str] = emit_kernel.render) -> str:
    FILLED.setdefault(f"{template}.ptx.j2", []).append(names)
    return real(template, names)


@cache
def subject(name: str) -> Subject:
    """A kernel of `ALL` or `CHOSEN`, made once for all tests; what its templates are filled with goes to `FILLED`."""
    with mock.patch.object(emit_kernel, "render", _rendered):
        return (ALL | CHOSEN)[name]()
