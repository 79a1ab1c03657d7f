"""The text is what we meant: kernels, blessed after reading. Tile width and stages are fixed here, not planned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.schedules import RELOAD_ONLY

from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.gradients import input_gradient, weight_gradient
from convc.ir.launch import dump_launch
from convc.ir.problem import ConvProblem
from convc.timing.chip import REGISTERS

PROBLEMS = {
    "pointwise_f16": ConvProblem(
        name="pointwise_f16", in_channels=64, out_channels=64, in_extent=(16, 16), kernel=(1, 1), bias=True
    ),
    "same_3x3_f16": ConvProblem(
        name="same_3x3_f16", batch=2, in_channels=128, out_channels=96, in_extent=(14, 14), kernel=(3, 3),
        pad_lo=(1, 1), pad_hi=(1, 1), bias=True,
    ),
    "stem_7x7_bf16": ConvProblem(
        name="stem_7x7_bf16", in_channels=3, out_channels=64, in_extent=(224, 224), kernel=(7, 7), stride=(2, 2),
        pad_lo=(3, 3), pad_hi=(3, 3), operand="bf16", out="bf16", bias=True,
    ),
    "joined_columns_f16": ConvProblem(
        name="joined_columns_f16", in_channels=3, out_channels=64, in_extent=(224, 224), kernel=(7, 7), stride=(2, 2),
        pad_lo=(3, 3), pad_hi=(3, 3), bias=True,
    ),
    "dilated_tf32": ConvProblem(
        name="dilated_tf32", in_channels=24, out_channels=20, in_extent=(13, 17), kernel=(3, 2), dilation=(2, 3),
        pad_lo=(2, 0), pad_hi=(1, 3), operand="tf32", out="f32",
    ),
    "large_output_f32": ConvProblem(
        name="large_output_f32", batch=4096, in_channels=16, out_channels=300, in_extent=(56, 56), kernel=(1, 1),
        out="f32",
    ),
}  # fmt: skip


SHARED = ConvProblem(
    name="shared_3x3_f16",
    batch=9,
    in_channels=72,
    out_channels=40,
    in_extent=(4, 14),
    kernel=(3, 3),
    pad_lo=(1, 1),
    pad_hi=(1, 1),
    bias=True,
)
SCHEDULES = {
    name: replace(options, store="direct")
    for name, options in {
        # masks of columns and rows, cleared first
        "slide_f16": ScheduleOptions(schedule="slide", border="mask", rows="merged", split_k="off"),
        "slide_together_f16": ScheduleOptions(
            schedule="slide", filters="together", rows="outer", border="mask", cta_group="1", split_k="off"
        ),
        "shift_chain_f16": ScheduleOptions(schedule="shift", shift="chain", border="zero", rows="outer", split_k="off"),
        "shift_ashift_f16": ScheduleOptions(
            schedule="shift", shift="ashift", border="mask", rows="outer", split_k="off"
        ),
        "shift_windows_f16": ScheduleOptions(
            schedule="shift", shift="windows", border="mask", rows="outer", split_k="off"
        ),
        "hopper_slide_f16": ScheduleOptions(schedule="slide", target="sm_90a", filters="apart"),
        "stationary_f16": ScheduleOptions(schedule="stationary", border="mask", rows="outer"),
    }.items()
}
"""The same convolution on every schedule that shares activations."""

FINISHED = ConvProblem(
    name="block_end_f16",
    batch=2,
    in_channels=64,
    out_channels=80,
    in_extent=(9, 9),
    kernel=(1, 1),
    bias=True,
    epilogue=(AddResidual(), Relu()),
)
"""The end of a residual block: bias, residual, Relu."""

CARRIED = ConvProblem(
    name="tensor_store_f16", batch=2, in_channels=64, out_channels=160, in_extent=(9, 9), kernel=(1, 1), bias=True
)
"""Results through shared memory and tensor copies: two slabs a tile, rows past M, channels past K."""

WALKED = replace(FINISHED, name="persistent_f16", batch=7)
"""Two CTAs, five tiles each: both halves of the accumulator, the tile of results and the numbers are used again."""


def _pointwise(name: str, *, batch: int, channels: tuple[int, int]) -> ConvProblem:
    """A 1x1 layer of 81 pixels an image, from so many channels to so many, with a residual."""
    return ConvProblem(
        name=name,
        batch=batch,
        in_channels=channels[0],
        out_channels=channels[1],
        in_extent=(9, 9),
        kernel=(1, 1),
        bias=True,
        epilogue=(AddResidual(), Relu()),
    )


PAIRED = _pointwise("pair_f16", batch=7, channels=(64, 96))
"""Pairs of persistent CTAs: five tiles of pixels and an empty one, three a CTA."""

LOADED = replace(_pointwise("multicast_f16", batch=5, channels=(128, 80)), kernel=(1, 2))
"""Clusters of 2 x 2 that load for each other: three tiles of pixels and an empty one, four steps through two stages."""

SPLIT = _pointwise("split_k_f16", batch=2, channels=(256, 80))
"""Four channel blocks for two CTAs, 24 columns of the epilogue each."""

KEPT = _pointwise("workspace_f16", batch=2, channels=(1024, 128))
"""Sixteen channel blocks for two clusters of eight CTAs, whose sums meet in global memory; two tiles along M and N."""

ORDERED = ConvProblem(name="tile_order_f16", batch=6, in_channels=64, out_channels=80, in_extent=(9, 9), kernel=(1, 1))
"""Four tiles along M by five along N, on a curve that is looked up."""

SCALED = ConvProblem(
    name="scaled_nvfp4",
    batch=2,
    in_channels=288,
    out_channels=88,
    in_extent=(9, 9),
    kernel=(3, 3),
    pad_lo=(1, 1),
    pad_hi=(1, 1),
    operand="nvfp4",
    out="bf16",
    bias=True,
)
"""Scale factors of blocks, and of whole tensors."""

BETWEEN = ConvProblem(
    name="between", batch=6, in_channels=40, out_channels=64, in_extent=(9, 8), kernel=(3, 3), stride=(2, 2),
    pad_lo=(1, 1), pad_hi=(1, 1),
)  # fmt: skip
"""A convolution whose gradients are taken."""
GRADIENTS = {
    "dgrad_f16": input_gradient(replace(BETWEEN, stride=(1, 1))),
    "dgrad_strided_f16": input_gradient(BETWEEN),
}
"""The filter turned round; four phases as channels."""

JOINED = ScheduleOptions(schedule="reload", columns="overlap")
LINES = ScheduleOptions(schedule="shift", shift="windows", border="zero", rows="outer", residual_load="tma")
HOPPER = ScheduleOptions(schedule="reload", target="sm_90a", store="direct")
HOPPER_TMA = replace(HOPPER, store="tma")

ALONE = replace(RELOAD_ONLY, cta_group="1")

CHOICES = {
    name: {"options": RELOAD_ONLY} | choice
    for name, choice in {
        "scaled_nvfp4": {"block_n": 48, "stages": 3},  # groups of filter rows that are no power of two
        "block_end_f16": {"block_n": 96, "stages": 1},  # rows past M, channels past K
        "pointwise_f16": {"block_n": 64, "stages": 1},  # no edge, one step
        "same_3x3_f16": {"block_n": 96, "stages": 4},  # rows past M, two channel blocks
        "stem_7x7_bf16": {"options": ALONE, "block_n": 64, "stages": 5},  # 3 channels in rows of 32 bytes, stride
        # rows that overlap: 7 pixels of 4 channels, 16 bytes apart
        "joined_columns_f16": {"options": JOINED, "block_n": 64, "stages": 5},
        "dilated_tf32": {"block_n": 16, "stages": 3},  # uneven pads, channels past K
        "large_output_f32": {"options": ALONE, "block_n": 160, "stages": 1},  # byte offsets beyond 32 bits
        "hopper_f16": {"options": HOPPER, "block_n": 48, "stages": 3},  # one warpgroup, rows past M
        # two warpgroups take what that of the warp that loads hands over
        "hopper_registers_f16": {"options": replace(HOPPER, registers="on"), "block_n": 48, "stages": 2},
        "hopper_tensor_store_f16": {"options": HOPPER_TMA, "block_n": 96, "stages": 2},
        "tensor_store_f16": {"options": ScheduleOptions(schedule="reload", store="tma"), "block_n": 128, "stages": 1},
        "persistent_f16": {
            "options": ScheduleOptions(schedule="reload", store="tma", persistent="on", ctas=2, residual_load="direct"),
            "block_n": 48,
            "stages": 2,
        },
        "hopper_persistent_f16": {
            "options": replace(HOPPER_TMA, persistent="on", ctas=2),
            "block_n": 48,
            "stages": 3,
        },
        "dynamic_f16": {
            "options": ScheduleOptions(
                schedule="reload", store="tma", persistent="on", tile_scheduler="dynamic", residual_load="direct"
            ),
            "block_n": 48,
            "stages": 2,
        },
        "copied_residual_f16": {
            "options": ScheduleOptions(schedule="reload", persistent="on", ctas=2, residual_load="tma"),
            "block_n": 48,
            "stages": 2,
        },
        "pair_f16": {
            "options": ScheduleOptions(schedule="reload", store="tma", persistent="on", ctas=2, cta_group="2"),
            "block_n": 96,
            "stages": 2,
        },
        "multicast_f16": {
            "options": ScheduleOptions(
                schedule="reload", persistent="off", cta_group="1", multicast="2x2", store="direct"
            ),
            "block_n": 48,
            "stages": 2,
        },
        "line_store_f16": {"options": LINES, "block_n": 48, "stages": 3},
        "split_k_f16": {"options": ScheduleOptions(schedule="reload", split_k="2"), "block_n": 48, "stages": 1},
        "hopper_split_k_f16": {"options": replace(HOPPER, split_k="2"), "block_n": 32, "stages": 1},
        "workspace_f16": {"options": ScheduleOptions(schedule="reload", split_k="16"), "block_n": 64, "stages": 1},
        # MN-major operands: spans of two filter columns in a tile, two spans of output channels
        "wgrad_bf16": {
            "options": ScheduleOptions(schedule="reload", columns="summed", store="tma", split_k="off"),
            "block_n": 96,
            "stages": 2,
        },
        "hopper_wgrad_f16": {
            "options": replace(HOPPER, columns="summed"),
            "block_n": 96,
            "stages": 2,
        },
        # an old gradient is added by the warps that add the sums of two clusters
        "wgrad_accumulated_f16": {
            "options": ScheduleOptions(schedule="reload", columns="summed", split_k="16"),
            "block_n": 128,
            "stages": 1,
        },
        "tile_order_f16": {
            "options": ScheduleOptions(schedule="reload", store="direct", rasterization_order="hilbert"),
            "block_n": 16,
            "stages": 1,
        },
        **{name: {"options": options, "stages": 3, "block_n": 48} for name, options in SCHEDULES.items()},
        "stationary_f16": {"options": SCHEDULES["stationary_f16"], "stages": 3},  # weights are 128 rows
        **{name: {"block_n": 48, "stages": 2} for name in GRADIENTS},
    }.items()
}
GRADIENT = weight_gradient(
    ConvProblem(
        batch=6,
        in_channels=72,
        out_channels=96,
        in_extent=(9, 10),
        kernel=(3, 2),
        stride=(2, 1),
        dilation=(1, 2),
        pad_lo=(1, 0),
        pad_hi=(0, 2),
    )
)
PROBLEMS |= {
    "hopper_wgrad_f16": replace(GRADIENT, name="hopper_wgrad_f16"),
    "wgrad_bf16": replace(GRADIENT, name="wgrad_bf16", operand="bf16", out="f32"),
    "wgrad_accumulated_f16": replace(
        weight_gradient(ConvProblem(in_channels=64, out_channels=136, in_extent=(33, 34), kernel=(2, 2))),
        name="wgrad_accumulated_f16",
        epilogue=(AddResidual(in_place=True),),
    ),
}
PROBLEMS |= {"hopper_f16": FINISHED, "hopper_tensor_store_f16": FINISHED}
PROBLEMS |= {
    "hopper_persistent_f16": replace(WALKED, name="hopper_persistent_f16"),
    "hopper_registers_f16": replace(SPLIT, name="hopper_registers_f16"),
    "hopper_split_k_f16": replace(SPLIT, name="hopper_split_k_f16"),
}
PROBLEMS |= dict.fromkeys(SCHEDULES, SHARED) | {
    "block_end_f16": FINISHED, "scaled_nvfp4": SCALED, "tensor_store_f16": CARRIED,
    "persistent_f16": WALKED, "copied_residual_f16": replace(WALKED, name="copied_residual_f16"),
    "pair_f16": PAIRED, "multicast_f16": LOADED, "split_k_f16": SPLIT, "workspace_f16": KEPT,
    "tile_order_f16": ORDERED,
    "line_store_f16": replace(SHARED, name="line_store_f16", epilogue=(AddResidual(), Relu())),
    "dynamic_f16": replace(WALKED, name="dynamic_f16"),
    **{name: replace(problem, name=name) for name, problem in GRADIENTS.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_kernel_text(name, golden, assembled):
    """The kernel is the blessed one, and ptxas takes it without spilling registers, of which an SM has enough."""
    artifact = compile_problem(PROBLEMS[name], **CHOICES[name]).artifact
    golden(name, {"kernel.ptx": artifact.ptx, "launch.json": dump_launch(artifact.launch).decode() + "\n"})
    made = assembled(artifact.ptx, CHOICES[name]["options"].target)
    assert made.spill_bytes == 0
    assert made.registers * artifact.launch.block[0] <= REGISTERS
