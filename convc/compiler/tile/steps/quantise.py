"""Steps of an epilogue that turns 32-bit sums of whole numbers into 8 bits (ONNX ``QLinearConv``)."""

from __future__ import annotations

from dataclasses import dataclass

from convc.compiler.tile.steps.base import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Requantise(Step):
    """values = round(float32(values) * multiplier[channel + column]) + zero_point, saturated to s32.

    The values are s32 before and after; the conversion to f32, the product and the rounding are to nearest, ties to
    even.

    Attributes:
        buffer, first: the multipliers, float32, start at number `first` of the buffer.
        channel: number of the channel of the first column.
        columns: values per row.
        zero_point: what stands for 0.
    """

    buffer: str
    first: int
    channel: str
    columns: int
    zero_point: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequantiseLane(Step):
    """The same where each lane has one channel, the number `channel`, and each column a pixel."""

    buffer: str
    first: int
    channel: str
    columns: int
    zero_point: int
