"""The convolutions that were launched on Hopper: those of ResNet-50, and many around the edges, in every type."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.layers import square
from convc.compiler.options import ScheduleOptions
from convc.ir.epilogue import AddResidual, Clip, Relu, SiLU
from convc.ir.problem import ConvProblem

LAYERS = Path(__file__).resolve().parents[2] / "models" / "layers.toml"
TARGET = "sm_90a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A convolution, how it is compiled, and the seed of its whole numbers.

    Attributes:
        name: of the case.
        problem, schedule, block_n: what is compiled, and how.
        seed: of the data (`convc.verification.data.integer_data`).
        timed: whether it is timed, beside cuDNN.
    """

    name: str
    problem: ConvProblem
    schedule: str = "auto"
    block_n: int | None = None
    seed: int = 1
    timed: bool = False

    @property
    def options(self) -> ScheduleOptions:
        """Of the compiler."""
        return ScheduleOptions(schedule=self.schedule, target=TARGET)


def resnet50(batch: int, operand: str = "f16", out: str = "f16") -> list[Case]:
    """Every different convolution of ResNet-50, by the name of the first layer that has it."""
    rows = {tuple(row[1:]): row for row in reversed(tomllib.loads(LAYERS.read_text())["resnet50"])}.values()
    return [
        Case(
            name=f"{row[0]}_b{batch}_{operand}",
            problem=square(*row[1:7], batch=batch, operand=operand, out=out),
            timed=True,
        )
        for row in reversed(rows)
    ]


def small(name: str, schedule: str = "reload", block_n: int | None = None, **changes: Any) -> Case:
    """A small convolution: 3 x 3 over 64 channels, with changes."""
    base: dict[str, Any] = {
        "batch": 2,
        "in_channels": 64,
        "out_channels": 64,
        "in_extent": (14, 13),
        "kernel": (3, 3),
        "pad_lo": (1, 1),
        "pad_hi": (1, 1),
        "bias": True,
    }
    return Case(name=name, schedule=schedule, block_n=block_n, problem=ConvProblem(**(base | changes)))


TYPES = (
    ("f16", "f16"), ("bf16", "bf16"), ("tf32", "f32"), ("e4m3", "f16"), ("e5m2", "f32"), ("s8", "s32"), ("u8", "u8"),
    ("s8", "s8"), ("f16", "f32"),
)  # fmt: skip
"""Operand and result of the small convolutions."""


def edges(schedule: str) -> list[Case]:
    """Small convolutions of every kind."""
    cases = [small(f"{schedule}_{a}_{y}", schedule, operand=a, out=y) for a, y in TYPES]
    cases += [small(f"{schedule}_n{n}", schedule, n, in_channels=128, out_channels=n) for n in (16, 48, 96, 160, 256)]
    finish = {
        "relu": (Relu(),),
        "residual": (AddResidual(), Relu()),
        "silu": (SiLU(),),
        "clip": (Clip(low=0.0, high=6.0),),
    }
    cases += [small(f"{schedule}_{name}", schedule, epilogue=steps) for name, steps in finish.items()]
    for name, changes in {
        "stride2": {"stride": (2, 2), "in_extent": (29, 27)},
        "stride_1_3": {"stride": (3, 1), "in_extent": (29, 27)},
        "dilated": {"dilation": (2, 3), "pad_lo": (2, 3), "pad_hi": (2, 3)},
        "odd_channels": {"in_channels": 37, "out_channels": 75},
        "odd_pads": {"pad_lo": (2, 0), "pad_hi": (0, 2), "kernel": (2, 5)},
        "groups": {"in_channels": 128, "out_channels": 128, "groups": 2},
        "many": {"batch": 5, "in_extent": (31, 33), "in_channels": 96, "out_channels": 160},
        "tall": {"kernel": (7, 1), "pad_lo": (3, 0), "pad_hi": (3, 0)},
        "wide": {"kernel": (1, 7), "pad_lo": (0, 3), "pad_hi": (0, 3)},
    }.items():
        cases.append(small(f"{schedule}_{name}", schedule, **changes))
    return cases


def cases() -> list[Case]:
    """Everything."""
    found = [*edges("reload"), *edges("slide")]
    for batch in (1, 8, 32):
        found += resnet50(batch)
    shared = [case for case in found if case.name.endswith("_b32_f16") and case.problem.kernel == (3, 3)]
    for schedule in ("reload", "slide"):
        found += [replace(case, name=f"{case.name}_{schedule}", schedule=schedule) for case in shared]
    some = ("layer1.0.conv2", "layer2.0.downsample", "layer3.1.conv2", "layer4.0.conv3")
    for operand, out in (("bf16", "bf16"), ("tf32", "f32"), ("e4m3", "f16"), ("s8", "s8")):
        found += [case for case in resnet50(8, operand, out) if case.name.startswith(some)]
    return found
